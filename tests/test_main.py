"""The console script."""

from pathlib import Path

from jobs.__main__ import VERBS, main


def test_every_job_is_a_verb():
    """Each module of jobs/ with a `main` can be called by its name."""
    modules = (Path(__file__).parents[1] / "jobs").glob("[a-z]*.py")
    jobs = {path.stem for path in modules if "\ndef main(" in path.read_text("utf-8")}

    assert set(VERBS) == jobs


def test_an_unknown_verb_is_named_with_those_that_exist(capsys):
    """A misspelt verb ends with status 2 and the list."""
    status = main(["evalute"])
    told = capsys.readouterr().err

    assert status == 2
    assert "got 'evalute'" in told
    assert all(verb in told for verb in VERBS)


def test_without_a_verb_the_list_is_the_help(capsys):
    """Asking for nothing, or for help, shows what there is."""
    assert main([]) == main(["--help"]) == 0
    assert "evaluate" in capsys.readouterr().out


def test_a_verb_gets_the_rest_of_the_line(tmp_path, capsys):
    """Arguments after the verb are the verb's own."""
    assert main(["status", str(tmp_path / "none")]) == 2
    assert "config.json" in capsys.readouterr().err
