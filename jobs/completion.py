"""Completion of verbs and options for bash and zsh, as a script that the shell reads.

    markovscale completion bash > ~/.markovscale.bash   # read it in ~/.bashrc with: source FILE
    markovscale completion zsh > ~/.markovscale.zsh     # the same in ~/.zshrc, after compinit

Everything that is no option is completed as a file.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import sys

_OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")
_SCRIPTS = {
    "bash": """\
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
""",
    "zsh": """\
_markovscale() {{
  local options
  if (( CURRENT == 2 )); then
    compadd {verbs}
    return
  fi
  case $words[2] in
{cases}
  esac
  if [[ $PREFIX == -* ]]; then compadd -- ${{=options}}; else _files; fi
}}
compdef _markovscale markovscale
""",
}


def print_script(argv: list[str]) -> int:
    """Print the script; returns the exit status."""
    if argv in (["-h"], ["--help"]):
        print(f"usage: markovscale completion {'|'.join(_SCRIPTS)}\n\n{__doc__}", end="")
        return 0
    if len(argv) != 1 or argv[0] not in _SCRIPTS:
        print(f"error: completion must name a shell, {' or '.join(_SCRIPTS)}", file=sys.stderr)
        return 2
    from jobs.__main__ import VERBS

    cases = "\n".join(f'    {verb}) options="{" ".join(options(verb))}" ;;' for verb in VERBS)
    print(_SCRIPTS[argv[0]].format(verbs=" ".join([*VERBS, "completion"]), cases=cases), end="")
    return 0


def options(verb: str) -> list[str]:
    """The options that a verb's help lists."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.suppress(SystemExit):
        importlib.import_module(f"jobs.{verb}").main(["--help"])
    entries = re.findall(r"^  (-.*?)(?:  |$)", told.getvalue(), re.MULTILINE)
    return sorted({option for entry in entries for option in _OPTION.findall(entry)})
