"""What must hold of every answer rule of one's own, checked over made-up completions.

`jobs.check_rule` checks all of it, a configuration that names a rule the first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pipeline.answers.own_rules import OwnRule
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import Completion

_SIZES = (1, 2, 3, 4, 8)
_KINDS = 6


def made_up() -> Iterator[tuple[Completion, ...]]:
    """Completions of questions that never were: alike and different, cut short, without answers,
    with and without scores and log-probabilities, a score that comes twice."""
    for kind in range(_KINDS):
        for size in _SIZES:
            yield tuple(_completion(kind, i) for i in range(size))


def _completion(kind: int, i: int) -> Completion:
    dice = hashlib.sha256(f"{kind} {i}".encode()).digest()
    answers = (None, "1", "2", r"\frac{1}{2}")
    answer = None if kind == 0 else answers[dice[0] % (2 + kind % 3)]
    scored = (True, False, dice[6] < 128)[kind % 3]  # all, none, some
    told = (True, dice[7] < 128, False)[kind // 2]
    return Completion(
        text="" if answer is None else f"So \\boxed{{{answer}}}",
        answer=answer,
        finish_reason="length" if dice[1] < 32 else "stop",
        completion_tokens=dice[2],
        step_scores=(0.5, dice[3] // 64 / 4) if scored else None,
        score=dice[3] // 64 / 4 if scored else None,
        token_confidence=dice[4] / 16 if told else None,
        least_token_confidence=dice[4] / 32 if told else None,
        token_entropy=dice[5] / 128 if told else None,
    )


def chooses_of_those(rule: OwnRule) -> None:
    """It chooses one of the completions that it is given, or none, whatever they are.

    Raises:
        ConfigError: naming the rule, what must hold and what came.
    """
    rule.code()
    for completions in made_up():
        _picked(rule, completions)


def chooses_alike(rule: OwnRule, *, backwards: bool = False) -> str:
    """The choice rests on what it is given alone: asked again, in another order of questions, and
    with equal copies it is the same.

    Args:
        rule: of one's own.
        backwards: whether the last question is asked first.

    Returns:
        A digest of all choices: the same in every process.

    Raises:
        ConfigError: where a choice differs.
    """
    order = slice(None, None, -1 if backwards else 1)
    lists = [*made_up()][order]
    first = [_picked(rule, completions) for completions in lists]
    for completions, before in reversed([*zip(lists, first, strict=True)]):
        copies = tuple(replace(each) for each in completions)
        again = _picked(rule, copies)
        if again != before:
            raise ConfigError(
                f"answer rule {rule.kind} must choose alike among the same completions, it chose "
                f"{before} and then {again} (does it keep something between calls?)"
            )
    return hashlib.sha256(repr(first[order]).encode()).hexdigest()


def _picked(rule: OwnRule, completions: Sequence[Completion]) -> int | None:
    """What it picks, of the completions that have what it reads."""
    read = [each for each in completions if rule.reads(each)]
    if not read:
        return None
    try:
        return rule.picked(read)
    except ConfigError:
        raise
    except Exception as error:  # the user's own, whatever it is
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = "" if trace is None else f", line {trace.tb_lineno}"
        file = "" if trace is None else trace.tb_frame.f_code.co_filename
        raise ConfigError(
            f"answer rule {rule.kind} must choose among any completions, also those without answer "
            f"or score (needs_score = True keeps the latter from it), it raised "
            f"{type(error).__name__}: {error} ({file}{where})"
        ) from error
