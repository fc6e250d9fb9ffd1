"""What a run shows of Ray Data: nothing, unless somebody must act on it."""

import os
import re

import pytest

from actors.cluster.ray_data import _without
from benchmarks.running import Job, scripted_run


def test_one_line_is_left_out_and_every_other_passes(capfd):
    """In their order, the last one without its end as well, and where the call fails."""

    def call(error):
        os.write(2, b"before\nsome NOISE here\nafter\n")
        if error:
            raise error
        os.write(2, b"cut")
        return 7

    assert _without(b"NOISE", lambda: call(None)) == 7
    assert capfd.readouterr().err == "before\nafter\ncut"
    with pytest.raises(ValueError, match="broken"):
        _without(b"NOISE", lambda: call(ValueError("broken")))
    assert capfd.readouterr().err == "before\nafter\n"


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_run_shows_its_own_lines_alone(tmp_path):
    """Two phases, and until the table every line is one of ours."""
    config = scripted_run(tmp_path, size=4, strategies=["mr_thinking", "markovscale_0"])
    job = Job(["--config", str(config), "--name", "r"], tmp_path / "log")
    status = job.wait(240)
    lines = job.output().partition("SYNTHETIC: ")[0].splitlines()

    assert status == 0, job.output()
    assert len(lines) >= 5
    assert [line for line in lines if not re.search(r" INFO (jobs|actors)[.\w]+: ", line)] == []
