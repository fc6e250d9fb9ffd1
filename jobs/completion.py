"""Completion of verbs and options for bash and zsh, as a script that the shell reads.

    source <(markovscale completion bash)      # in ~/.bashrc
    source <(markovscale completion zsh)       # in ~/.zshrc, after compinit

Everything that is no option is completed as a file.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import sys

_SHELLS = ("bash", "zsh")
_OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")
_SCRIPT = """\
_markovscale() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} options
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{verbs}" -- "$word"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{cases}
  esac
  case $word in
    -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
  esac
}}
complete -o filenames -F _markovscale markovscale
"""


def print_script(argv: list[str]) -> int:
    """Print the script; returns the exit status."""
    if len(argv) != 1 or argv[0] not in _SHELLS:
        print(f"error: completion must name a shell, {' or '.join(_SHELLS)}", file=sys.stderr)
        return 2
    from jobs.__main__ import VERBS

    cases = "\n".join(f'    {verb}) options="{" ".join(options(verb))}" ;;' for verb in VERBS)
    script = _SCRIPT.format(verbs=" ".join([*VERBS, "completion"]), cases=cases)
    print(script if argv[0] == "bash" else f"autoload -U bashcompinit; bashcompinit\n{script}")
    return 0


def options(verb: str) -> list[str]:
    """The options that a verb's usage line names."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.suppress(SystemExit):
        importlib.import_module(f"jobs.{verb}").main(["--help"])
    usage = told.getvalue().partition("\n\n")[0].partition("usage:")[2]
    return sorted(set(_OPTION.findall(usage)))
