"""Where the thinking of a reply ends.

Reasoning models think between ``<think>`` and ``</think>`` before they answer. Some chat templates
write the opening tag themselves; engines put it back in front of the text, so a stored reply whose
thinking was cut by the token limit is known by an opening tag without a closing one.
"""

OPEN = "<think>"
CLOSE = "</think>"


def is_open(text: str) -> bool:
    """Whether `text` begins with a thinking block that never ends."""
    return text.lstrip().startswith(OPEN) and CLOSE not in text


def after_thinking(text: str) -> str:
    """What follows the last closing tag; all of `text` without a block; ``""`` in an open one."""
    _, closing, after = text.rpartition(CLOSE)
    if closing:
        return after
    return "" if is_open(text) else text


def opened_by(prompt: str) -> str:
    """The opening tag, with the white space around it, at the very end of `prompt`; else ``""``."""
    _, tag, space = prompt.rpartition(OPEN)
    return tag + space if tag and not space.strip() else ""
