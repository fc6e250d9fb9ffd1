"""`--dry-run`, as a user meets it."""

import subprocess
import sys

import pytest
import yaml

from jobs import evaluate
from pipeline.config.run import RunConfig


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
    assert "admission: 576 chains work at once at first, then 384 to 1,152, controllers" in printed
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


def test_the_printed_configuration_is_the_resolved_one(capsys, tmp_path):
    """Overrides are in it, and read back it is the same configuration."""
    override = "science.strategy.tau=0.5"
    printed = dry_run(capsys, "--config", "configs/qwen-7b.yaml", "--set", override)
    again = tmp_path / "again.yaml"
    again.write_text(printed.partition("\nhardware:")[0])

    assert yaml.safe_load(again.read_text())["science"]["strategy"]["tau"] == 0.5
    assert RunConfig.load(str(again)) == RunConfig.load("configs/qwen-7b.yaml", [override])


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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["science.generator.model=Qwen/Qwen3-30B-A3B"], "got the shape of deepseek-ai/"),
        (["runtime.generator.engine.extra={pipeline_parallel_size: 2}"], "pipeline_parallel_size"),
        (
            ["science.generator.model=models/tiny-verifier"],
            "must be a model that generates text, got Qwen2ForProcessRewardModel",
        ),
        (["science.generator.model=models/nope"], "must be a folder that exists, got models/nope"),
        (
            ["science.generator.model=/no/such"],
            "must be a folder or a Hugging Face id, got /no/such",
        ),
        (["science.generator.model=models/tiny-generator"], "shape must be that of the model"),
        (["science.generator.model=configs/base"], "must hold a config.json"),
    ],
)
def test_a_plan_is_that_of_the_model_that_runs(settings, message, capsys):
    """Another model's shape, uncounted parallelism and folders without a model are refused."""
    sets = [part for one in settings for part in ("--set", one)]

    assert evaluate.main(["--config", "configs/qwen-7b.yaml", *sets, "--dry-run"]) == 2
    assert message in capsys.readouterr().err
