"""One YAML a run: what is accepted, and how everything else is refused."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from pipeline.config.run import RunConfig
from pipeline.config.strategies import rule_of, strategies_of
from pipeline.core.errors import ConfigError

ROOT = Path(__file__).parents[1]
CONFIGS = sorted(ROOT.glob("configs/*.yaml"))


def make_values(**science):
    values = {
        "benchmarks": [{"name": "arithmetic", "size": 4}],
        "strategies": ["base", "mr_thinking"],
        "generator": {"model": "models/tiny-generator"},
    }
    return {"science": {**values, **science}}


def refusal(values):
    with pytest.raises(ConfigError) as caught:
        RunConfig.parse(values)
    return str(caught.value)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_shipped_configuration_is_valid(path):
    """Every file in configs/ parses and its strategies can be built."""
    config = RunConfig.load(str(path))

    assert strategies_of(config.science)


def test_shared_fields_reach_the_strategies_that_have_them():
    """science.strategy sets a field for all; an entry's own field wins; others are untouched."""
    entries = ["base", "mr_thinking", {"kind": "mr_thinking", "label": "long", "n": 16}]
    built = strategies_of(
        RunConfig.parse(make_values(strategies=entries, strategy={"n": 4})).science
    )

    assert {label: getattr(s, "n", None) for label, s in built.items()} == {
        "base": 1,
        "mr_thinking": 4,
        "long": 16,
    }


@pytest.mark.parametrize(
    ("science", "message"),
    [
        ({"sead": 1}, "science.sead is not a field of this section"),
        ({"seed": -1}, "science.seed: input should be greater than or equal to 0, got -1"),
        ({"strategies": ["nope"]}, "a strategy must be one of base, mr_thinking"),
        ({"strategies": ["base", "base"]}, "must have different labels, got 'base' 2 times"),
        ({"strategy": {"tua": 0.9}}, "science.strategy.tua must be a field of one of"),
        (
            {"strategies": [{"kind": "base", "n": 3}]},
            "science.strategies.base.n must be a field of base",
        ),
        ({"strategy": {"n": 0}}, "n must be >= 1, got 0"),
        (
            {"strategies": ["markovscale_star"]},
            "science.verifier must be given for markovscale_star, which decides by its scores",
        ),
        (
            {"answer_rule": "prm_argmax"},
            "science.verifier must be given for the answer rule prm_argmax of base",
        ),
        ({"decoding": {"top_p": 0}}, "top_p must be in (0, 1], got 0.0"),
        ({"priors": {"a": 0.1}}, "a and b must be given together"),
        ({"prompts": {"first": "x"}}, "prompts.first must contain {question}"),
    ],
)
def test_a_wrong_field_or_value_is_named(science, message):
    """The error names the field, what must hold and what came."""
    assert message in refusal(make_values(**science))


def test_a_value_out_of_range_names_the_place_where_it_was_set():
    """A shared field is blamed where the user wrote it."""
    values = make_values(
        strategies=["markovscale_0"], strategy={"tau": 1.5}, verifier={"model": "x"}
    )

    assert "tau must be in [0, 1], got 1.5" in refusal(values)


def test_overrides_reach_any_field_and_list_items(tmp_path):
    """--set takes dotted names, YAML values, and numbers of list items."""
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(make_values()))
    overrides = ["science.seed=7", "science.benchmarks.0.size=2", "runtime.generator.replicas=3"]
    config = RunConfig.load(str(path), overrides)

    assert config.science.seed == 7
    assert config.science.benchmarks[0].size == 2
    assert config.runtime.generator.replicas == 3


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("science.seed", "--set must be field.name=value"),
        ("science.benchmarks.9.size=2", "'9' must be the number of one of 1 list items"),
        ("science.nope.x=2", "science.nope is not a field"),
        ("science.seed={", "must be YAML"),
    ],
)
def test_a_wrong_override_is_named(tmp_path, override, message):
    """An override that cannot be applied says why."""
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(make_values()))

    with pytest.raises(ConfigError, match=r".") as caught:
        RunConfig.load(str(path), [override])
    assert message in str(caught.value)


def test_the_digest_covers_science_only():
    """The runtime part may change between attempts; the science part may not."""
    config = RunConfig.parse(make_values())
    moved = RunConfig.parse({**make_values(), "runtime": {"runs": "elsewhere"}})
    other = RunConfig.parse(make_values(seed=1))

    assert moved.science_digest() == config.science_digest()
    assert other.science_digest() != config.science_digest()
    assert config.differing_science(other) == ["science.seed: 0 -> 1"]


def test_the_headline_rule_is_the_strategys_own_unless_given():
    """Each strategy has a default answer rule; answer_rule overrides all of them."""
    own = RunConfig.parse(make_values()).science
    voted = RunConfig.parse(make_values(answer_rule="vote")).science

    assert [rule_of(own, s).value for s in strategies_of(own).values()] == ["last", "last"]
    assert [rule_of(voted, s).value for s in strategies_of(voted).values()] == ["vote", "vote"]


def test_a_configuration_error_is_quick_and_ends_with_status_2():
    """A misspelt field is refused in a second or so of a cold process, before Ray starts."""
    command = [sys.executable, "-m", "jobs.evaluate", "--config", "configs/laptop.yaml"]
    began = time.monotonic()
    run = subprocess.run(
        [*command, "--set", "science.strategy.tua=1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert run.returncode == 2
    assert "science.strategy.tua must be a field of one of" in run.stderr
    assert "ray" not in run.stderr
    assert time.monotonic() - began < 20  # a loaded machine; see docs for the usual time
