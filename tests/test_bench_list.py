"""The list of benchmarks, and that each can be asked what it takes."""

from __future__ import annotations

import json

import pytest

from benchmarks import resume
from benchmarks.__main__ import benchmarks, main


def test_every_benchmark_is_listed_with_its_purpose(capsys: pytest.CaptureFixture[str]) -> None:
    """One whole sentence each, from the module itself; what they are made of is not listed."""
    known = benchmarks()

    assert {"control_plane", "hops", "resume", "throughput"} <= known.keys()
    assert not {"machine", "product", "workload"} & known.keys()
    assert all(each.endswith(".") for each in known.values())
    assert main([]) == 0
    assert capsys.readouterr().out.count("\n") == len(known)


def test_a_name_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """With the names that there are."""
    with pytest.raises(SystemExit):
        main(["--quick", "sclaing"])

    assert "got 'sclaing'" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_that_is_gone_on_with_has_all_its_questions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Driver and controller find what was recorded; each is measured in a process of its own."""
    resume.main(["--questions", "40", "--rounds", "2", "--characters", "100"])

    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (figures["rows"], figures["left"]) == (80, 40)
    assert min(figures["driver_s"], figures["controller_s"]) > 0
