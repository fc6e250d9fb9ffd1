"""`--dry-run`, as a user meets it."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from jobs import evaluate
from pipeline.config.run import RunConfig
from pipeline.planning.proposal import proposal_of


def dry_run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        evaluate.main([*arguments, "--dry-run"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_the_plan_names_memory_placement_and_hours(capsys):
    """What a reader needs to choose a cluster is printed."""
    printed = dry_run(capsys, "--config", "configs/qwq-32b-4-nodes.yaml")

    assert "generator: 1 to 3 x Qwen/QwQ-32B, tensor parallel 4 (2 at least, for room)" in printed
    assert "40.5 GiB usable = 15.3 GiB weights + 3.0 GiB overhead + 22.2 GiB KV cache" in printed
    assert "node 4 (pool=verifier): 4 verifiers" in printed
    assert "elastic: from 2 to 4 nodes" in printed
    assert "admission: 368 chains work at once at first, then 368 to 736, controllers" in printed
    assert "assumed, not measured: decoding at 85% of the memory bandwidth" in printed
    assert "GPU hours on 16 GPUs" in printed


@pytest.mark.parametrize(
    ("scored", "decides"), [(31_000, "generating with full batches"), (52_000, "scoring")]
)
def test_what_decides_is_what_takes_as_long_as_the_run(capsys, scored, decides):
    """Chains of unlike length take longer than full batches would; scoring decides only where it
    takes longer than they do."""
    assumed = ("--set", f"runtime.plan.scored_tokens={scored}")
    printed = dry_run(capsys, "--config", "configs/qwen-7b-aime.yaml", *assumed)

    assert f"h, decided by {decides}, and" in printed


def test_a_fixed_number_of_chains_is_not_adapted(capsys):
    """The plan says the number alone."""
    fixed = ("--set", "runtime.controllers.in_flight=400")
    printed = dry_run(capsys, "--config", "configs/qwen-7b.yaml", *fixed)

    assert "admission: 400 chains work at once, controllers can hold 800" in printed


def test_the_printed_configuration_is_the_resolved_one(capsys, tmp_path):
    """Overrides are in it, and read back it is the same configuration."""
    override = "science.strategy.tau=0.5"
    printed = dry_run(capsys, "--config", "configs/qwen-7b.yaml", "--set", override)
    again = tmp_path / "again.yaml"
    again.write_text(printed.partition("\nhardware:")[0])

    assert yaml.safe_load(again.read_text())["science"]["strategy"]["tau"] == 0.5
    assert RunConfig.load(str(again)) == RunConfig.load("configs/qwen-7b.yaml", [override])


def test_a_better_split_is_named_with_what_sets_it(capsys):
    """The settings that are printed make the run that is proposed."""
    few = ("--set", "runtime.generator.max_replicas=2", "--config", "configs/qwen-7b-4-nodes.yaml")
    printed = dry_run(capsys, *few)
    said = printed.partition("a better split of these GPUs: ")[2]
    hours = said.partition("about ")[2].partition(" h")[0]
    settings = said.partition("use it with ")[2].partition(", or")[0].split()
    again = dry_run(capsys, *few, *settings)

    assert f"about {hours} h, decided by" in again
    assert "a better split" not in again


def test_a_written_plan_runs_the_proposed_split(capsys, tmp_path):
    """It extends what was given, has its overrides and its science, makes the hours that were
    proposed, and its own dry run proposes and writes itself."""
    path, again = tmp_path / "plan.yaml", tmp_path / "again.yaml"
    few = ["runtime.generator.max_replicas=2", "science.strategy.n=32", "runtime.plan.apply=false"]
    given = RunConfig.load("configs/qwen-7b-4-nodes.yaml", few)
    sets = [part for one in few for part in ("--set", one)]
    config = ("--config", "configs/qwen-7b-4-nodes.yaml", *sets)
    said = dry_run(capsys, *config, "--write-plan", str(path))
    hours = said.partition("a better split")[2].partition("about ")[2].partition(" h")[0]
    written = RunConfig.load(str(path))
    once_more = dry_run(capsys, "--config", str(path), "--write-plan", str(again))

    assert said.endswith(f"written to {path}: run it with --config {path}\n")
    assert yaml.safe_load(path.read_text())["extends"].endswith("configs/base/qwen-7b.yaml")
    assert written.science_digest() == given.science_digest()
    assert written == proposal_of(given).config
    assert f"about {hours} h, decided by" in once_more
    assert "a better split" not in once_more
    assert RunConfig.load(str(again)) == written


def test_a_plan_is_written_where_what_is_given_does_not_fit(capsys, tmp_path):
    """Two wide generators where one has room: one line of error names a split, the file is it."""
    path = tmp_path / "plan.yaml"
    config = ["--config", "configs/qwen-7b.yaml", "--set", "runtime.generator.replicas=9"]

    assert evaluate.main([*config, "--dry-run"]) == 2
    [error] = capsys.readouterr().err.splitlines()
    assert "; a split that fits: --set runtime.generator.replicas=3" in error
    assert "as configured it would not run: " in dry_run(capsys, *config, "--write-plan", str(path))
    assert RunConfig.load(str(path)).runtime.generator.replicas == 3


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--config", "configs/qwen-7b.yaml"], "must be given with --dry-run and --config"),
        (["--config", "configs/laptop.yaml", "--dry-run"], "given with a runtime.plan"),
        (["--config", "TARGET", "--dry-run"], "must be written to a file of its own"),
    ],
)
def test_a_plan_is_not_written_where_there_is_none(capsys, tmp_path, more, message):
    """Nor over the configuration that it would extend; one line, status 2."""
    path = tmp_path / "plan.yaml"
    path.write_text(Path("configs/base/qwen-7b.yaml").read_text())
    before = path.read_text()
    command = [str(path) if part == "TARGET" else part for part in more]
    own = ["science.benchmarks=[{name: math500}]", "runtime.plan.benchmarks={math500: {tokens: 9}}"]
    sets = [part for one in own for part in ("--set", one)] if "TARGET" in more else []

    assert evaluate.main([*command, *sets, "--write-plan", str(path)]) == 2
    assert message in capsys.readouterr().err
    assert path.read_text() == before


def test_a_plan_is_written_into_a_folder_that_exists(capsys, tmp_path):
    """Anything else is one line, before anything is planned."""
    target = str(tmp_path / "none" / "plan.yaml")
    command = ["--config", "configs/qwen-7b.yaml", "--dry-run", "--write-plan", target]

    assert evaluate.main(command) == 2
    assert capsys.readouterr().err.startswith("error: --write-plan must be in a folder that exists")


def test_a_plan_that_is_to_be_applied_is_the_one_that_is_shown(capsys):
    """A dry run with `plan.apply` shows the split that the run would have."""
    command = ["--config", "configs/qwen-7b.yaml", "--set", "runtime.generator.replicas=9"]
    printed = dry_run(capsys, *command, "--set", "runtime.plan.apply=true")

    assert "generator: 3 x" in printed
    assert "a better split" not in printed


def test_a_config_without_a_plan_is_checked_all_the_same(capsys):
    """The laptop's configuration names no GPUs and says so."""
    printed = dry_run(capsys, "--config", "configs/laptop.yaml")

    assert printed.endswith("names no GPUs to fit\n")


def test_what_does_not_fit_is_an_error(capsys):
    """Status 2, one message, nothing else started."""
    status = evaluate.main(
        ["--config", "configs/qwq-32b.yaml", "--set", "runtime.plan.gpu=L4", "--dry-run"]
    )

    assert status == 2
    assert "error: a replica of Qwen/QwQ-32B must hold its weights" in capsys.readouterr().err


def test_neither_ray_nor_torch_is_imported():
    """A dry run is for a laptop: it starts nothing and needs no GPU library."""
    code = (
        "import sys\n"
        "from jobs import evaluate\n"
        "try:\n    evaluate.main(['--config', 'configs/qwen-7b.yaml', '--dry-run'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('ray', 'torch', 'vllm', 'transformers') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.endswith("[]\n")


def run_named(tmp_path, name, *more):
    arguments = evaluate.parser().parse_args(
        [
            *("--config", "configs/laptop.yaml", "--set", f"runtime.runs={tmp_path}"),
            *("--set", "science.benchmarks.0.size=3", "--name", name, *more),
        ]
    )
    from jobs.run_options import opened_run

    return opened_run(arguments)


def test_a_named_run_is_made_once_and_then_resumed(tmp_path):
    """The same command line starts a run and goes on with it, which is what a retry needs."""
    first, _, one = run_named(tmp_path, "again", "--resume-if-exists")
    second, _, two = run_named(tmp_path, "again", "--resume-if-exists")

    assert (first.address, one, two) == (second.address, 1, 2)


def test_resuming_by_name_needs_a_name(tmp_path, capsys):
    """Without a name there is nothing to look for."""
    status = evaluate.main(["--config", "configs/laptop.yaml", "--resume-if-exists"])

    assert status == 2
    assert "--resume-if-exists must come with --name" in capsys.readouterr().err
