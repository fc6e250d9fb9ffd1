"""The console script."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from actors.controllers.grading import Grader
from jobs import evaluate, export, paper, regrade, sweep
from jobs.__main__ import MODULES, VERBS, main
from jobs.trackers import TRACKERS
from pipeline.export.formats import FORMATS
from pipeline.replay.costs import UNITS

ROOT = Path(__file__).parents[1]


def test_every_job_is_a_verb():
    """Each module of jobs/ with a `main` can be called by its name."""
    modules = (ROOT / "jobs").glob("[a-z]*.py")
    jobs = {path.stem for path in modules if "\ndef main(" in path.read_text("utf-8")}

    assert {MODULES.get(verb, verb) for verb in VERBS} == jobs


def test_help_loads_no_heavy_package():
    """`--help` of every verb parses before it imports what analyses, draws or runs models."""
    script = (
        "import contextlib, io, sys\n"
        "from jobs.__main__ import VERBS, main\n"
        "out = io.StringIO()\n"
        "for verb in VERBS:\n"
        "    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):\n"
        "        main([verb, '--help'])\n"
        "assert out.getvalue().count('usage: markovscale ') == len(VERBS)\n"
        "print(*{name.partition('.')[0] for name in sys.modules})\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)

    assert done.returncode == 0, done.stderr
    heavy = {"numpy", "scipy", "pyarrow", "pydantic", "altair", "ray", "torch", "sympy", "httpx"}
    assert not heavy & set(done.stdout.split())


@pytest.mark.parametrize(
    ("verb", "option", "known"),
    [
        (evaluate, "tracker", TRACKERS),
        (export, "to", FORMATS),
        (paper, "cost", UNITS),
        (regrade, "grader", Grader),
    ],
)
def test_choices_are_those_that_the_program_knows(verb, option, known):
    """A parser lists its choices itself, to be fast; they are the ones that there are."""
    (action,) = [a for a in verb.parser()._actions if a.dest == option]
    assert list(action.choices) == [str(name) for name in known]


def test_an_unknown_verb_is_met_with_what_may_have_been_meant(capsys):
    """A misspelt verb ends with status 2 and one line; one like no other with all of them."""
    assert main(["evalute"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["compere"]) == 2
    assert "did you mean compare?" in capsys.readouterr().err
    assert main(["xyzzy"]) == 2
    told = capsys.readouterr().err
    assert all(verb in told for verb in VERBS)


def test_a_verb_gets_the_rest_of_the_line(tmp_path, capsys):
    """Arguments after the verb are the verb's own."""
    assert main(["status", str(tmp_path / "none")]) == 2
    assert "config.json" in capsys.readouterr().err


def test_the_version_says_which_checkout_it_is(capsys):
    """Version and folder: another checkout on the path is seen."""
    assert main(["--version"]) == 0
    assert re.match(rf"markovscale \S+.* \({ROOT}\)", capsys.readouterr().out)


def test_the_shell_completes_verbs_and_options(tmp_path):
    """The variables that a shell sets bring the verbs, then the options of a verb's own parser."""

    def completed(line):
        answer = tmp_path / "answer"
        environment = {
            **os.environ,
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_IFS": " ",
            "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
        }
        command = [sys.executable, "-m", "jobs"]
        subprocess.run(command, env=environment, cwd=ROOT, check=True, capture_output=True)
        return answer.read_text().split()

    assert completed("markovscale ev") == ["evaluate"]
    assert "--json" in completed("markovscale status --")
    assert "--resume-if-exists" in completed("markovscale evaluate --re")


def test_a_shipped_configuration_is_found_by_its_name(tmp_path, monkeypatch, capsys):
    """From any folder; a file of that name there comes first, a misspelt name is met with one."""
    monkeypatch.chdir(tmp_path)

    def chosen(job, *words):
        return job.parser().parse_args([*words]).config

    assert chosen(evaluate, "--config", "laptop") == str(ROOT / "configs" / "laptop.yaml")
    assert chosen(sweep, "--pool", "p", "--config", "paper").endswith("configs/sweeps/paper.yaml")
    assert chosen(evaluate, "--config", "mine.yaml") == "mine.yaml"
    (tmp_path / "laptop").touch()
    assert chosen(evaluate, "--config", "laptop") == "laptop"
    with pytest.raises(SystemExit, match="2"):
        chosen(evaluate, "--config", "lapto")
    assert "did you mean laptop?" in capsys.readouterr().err


def test_the_script_finds_a_strategy_beside_the_user(tmp_path):
    """Started by its installed name, it imports what lies in the folder where it is started."""
    (tmp_path / "mine.py").write_text("class Mine:\n    pass\n")
    (tmp_path / "sweep.yaml").write_text("strategies: [{kind: 'mine:Mine', n: 2}]\n")
    script = "from jobs.__main__ import main; raise SystemExit(main())"
    pool = str(ROOT / "tests" / "data" / "pool")
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, "sweep", "--pool", pool, "--config", "sweep.yaml"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 2
    assert "mine:Mine must be a strategy: it must derive from" in done.stderr


def test_every_option_of_every_verb_has_a_text(capsys):
    """Help says what an option is for, not only its name, and shows no mark-up; every verb can be
    told to say less or more."""
    for verb in VERBS:
        with pytest.raises(SystemExit, match="0"):
            main([verb, "--help"])
        text, _, told = capsys.readouterr().out.partition("options:\n")
        assert text.startswith(f"usage: markovscale {verb} ")
        assert "`" not in text
        assert "--quiet" in told
        entries = re.split(r"\n(?=  -)", told)
        bare = [entry for entry in entries if not re.search(r"(\S {2,}|\n {6,})\S", entry.strip())]
        assert not bare, (verb, bare)


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", "--config", "laptop", "--show-rows", "0"],
        ["regrade", "RUN", "--grader", "paper", "--workers", "0"],
        ["train", "--pool", "POOL", "--out", "OUT", "--answers", "-1"],
        ["report", "RUN", "--price-per-million", "cheap"],
        ["forecast", "--run", "PILOT", "--rounds", "9" * 30],
        ["forecast", "--run", "PILOT", "--difference", "0"],
        ["forecast", "--run", "PILOT", "--price-million-tokens", "-3"],
    ],
)
def test_a_number_that_cannot_be_is_refused_in_one_line(words, capsys):
    """The option, what must hold and what came."""
    with pytest.raises(SystemExit, match="2"):
        main(words)
    told = capsys.readouterr().err.splitlines()[-1]
    assert re.search(
        rf"error: argument {words[-2]}: .* (>=? \d|from [\d.]+ to \d+), got '{words[-1]}'", told
    )
