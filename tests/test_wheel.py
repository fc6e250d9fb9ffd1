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


def test_a_missing_package_is_named_with_the_extra_that_has_it():
    """A missing module of the project itself stays an error."""
    missing = _missing("evaluate", ModuleNotFoundError("No module", name="ray.data"))

    assert missing == "error: evaluate needs the package ray: pip install 'markovscale[run]'"
    with pytest.raises(ModuleNotFoundError):
        _missing("evaluate", ModuleNotFoundError("No module", name="pipeline.gone"))


@pytest.mark.slow
def test_verbs_work_from_a_wheel_in_an_empty_environment(tmp_path):
    """Built, installed with the core's dependencies alone and run where the user has folders called
    jobs and pipeline: the verbs are ours, and shipped files are found by name."""
    build = ["-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path, "."]
    run(sys.executable, *build, cwd=ROOT)
    run(sys.executable, "-m", "venv", tmp_path / "env")
    python = tmp_path / "env" / "bin" / "python"
    lock = ROOT / "requirements" / "cpu.lock"
    run(python, "-m", "pip", "install", "-q", "-c", lock, *tmp_path.glob("*.whl"), cwd=tmp_path)
    for name in ("pipeline", "jobs"):
        (tmp_path / "work" / name).mkdir(parents=True)
        (tmp_path / "work" / name / "__init__.py").write_text("raise SystemExit('the user's own')")
    work = tmp_path / "work"
    (work / "grids.yaml").write_text(
        "strategies: [base, {kind: chain_asc, n: 4, threshold: 0.9}]\n"
    )
    sweep = "sweep --pool data/pools/sums --config grids.yaml --out swept.parquet"
    paper = f"paper --pool {ROOT / 'tests' / 'data' / 'pool'} --out paper"
    for verb in ("--version", sweep, paper, "report --help", "import --help"):
        run(python, "-P", "-m", "markovscale", *verb.split(), cwd=work)
    run(python, "-P", "-c", "import markovscale as ms; ms.open_pool('data/pools/sums')", cwd=work)

    assert (work / "swept.parquet").is_file()
    assert (work / "paper" / "paper.html").is_file()


def run(*command, cwd=None):
    """Runs a command in an environment without this checkout."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stdout[-1000:], done.stderr[-2000:])
