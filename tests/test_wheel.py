"""The wheel: one package with everything in it, and a core that needs no Ray."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.wheel import renamed
from jobs.__main__ import _missing

ROOT = Path(__file__).parents[1]


def test_imports_and_import_strings_move_below_one_package():
    """Statements and whole strings are renamed; prose, attributes and names alike stay."""
    source = (
        '"""See pipeline.core and jobs.evaluate."""\n'
        "from pipeline.core.errors import DataError\n"
        "    from actors.engines import generator  # from jobs import x\n"
        "from jobs import cli\n"
        'KIND = "actors.engines.generator:GeneratorEngine"\n'
        'NAMES = ("actors", "pipelines.x", "a jobs.evaluate b")\n'
    )

    assert renamed(source) == (
        '"""See pipeline.core and jobs.evaluate."""\n'
        "from markovscale.pipeline.core.errors import DataError\n"
        "    from markovscale.actors.engines import generator  # from jobs import x\n"
        "from markovscale.jobs import cli\n"
        'KIND = "markovscale.actors.engines.generator:GeneratorEngine"\n'
        'NAMES = ("actors", "pipelines.x", "a jobs.evaluate b")\n'
    )


def test_an_import_that_binds_the_old_name_is_refused():
    """``import pipeline.x`` would bind a name that does not exist in the wheel."""
    with pytest.raises(ValueError, match=r"from \.\.\. import"):
        renamed("import pipeline.core\n")


def test_a_missing_package_is_named_with_the_extra_that_has_it():
    """A missing module of the project itself stays an error."""
    missing = _missing("evaluate", ModuleNotFoundError("No module", name="ray.data"))

    assert missing == "error: evaluate needs the package ray: pip install 'markovscale[run]'"
    with pytest.raises(ModuleNotFoundError):
        _missing("evaluate", ModuleNotFoundError("No module", name="pipeline.gone"))


@pytest.mark.slow
def test_verbs_work_from_a_wheel_beside_folders_of_the_same_names(tmp_path):
    """Built, installed over this environment's packages and run where the user has folders called
    jobs and pipeline: the verbs are ours, and shipped files are found by name."""
    python, site = sys.executable, tmp_path / "site"
    pip = [python, "-m", "pip"]
    build = [*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path]
    subprocess.run([*build, "."], cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    install = [*pip, "install", "-q", "--no-deps", "--target", site, wheel]
    subprocess.run(install, check=True, capture_output=True)
    for name in ("pipeline", "jobs"):
        (tmp_path / "work" / name).mkdir(parents=True)
        (tmp_path / "work" / name / "__init__.py").write_text("raise SystemExit('the user's own')")
    grids = str(tmp_path / "grids.yaml")
    Path(grids).write_text("strategies: [base, {kind: chain_asc, n: 4, threshold: 0.9}]\n")
    verbs = [
        ["--version"],
        ["sweep", "--pool", "data/pools/sums", "--config", grids, "--out", "swept.parquet"],
        ["paper", "--pool", str(ROOT / "tests" / "data" / "pool"), "--out", "paper"],
        ["report", "--help"],
        ["import", "--help"],
    ]
    for verb in verbs:
        done = subprocess.run(
            [python, "-P", "-m", "markovscale", *verb],
            cwd=tmp_path / "work",
            env={**os.environ, "PYTHONPATH": str(site)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, (verb, done.stderr[-2000:])
    assert (tmp_path / "work" / "paper" / "paper.html").is_file()
