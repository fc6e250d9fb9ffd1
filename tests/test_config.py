"""One YAML a run: what is accepted, and how everything else is refused."""

from pathlib import Path

import pytest
import yaml

from jobs import evaluate
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
        (
            {"strategies": [{"kind": "self_consistency", "n": 10**12}]},
            "science.strategies.self_consistency: n must be at most 32767, got 1000000000000",
        ),
        (
            {"strategies": [{"kind": "dsc", "waves": 10**9}]},
            "science.strategies.dsc: waves must be at most 64, got 1000000000",
        ),
        (
            {"strategies": [{"kind": "dsc", "rankings": 10**9}]},
            "science.strategies.dsc: rankings must be at most 32767, got 1000000000",
        ),
        (
            {"strategies": [{"kind": "base", "fields": None}]},
            "science.strategies.0.fields must be a section with fields, got None",
        ),
        (
            {"answer_rules": [{"kind": "a.b:c", "fields": 3}]},
            "science.answer_rules.0.fields must be a section with fields, got 3",
        ),
        ({"benchmarks": ["svammp"]}, "or loader, got 'svammp' (did you mean svamp?)"),
        ({"benchmarks": []}, "science.benchmarks must have at least 1 item, got []"),
        ({"benchmarks": {"name": "x"}}, "science.benchmarks must be a list, got {'name': 'x'}"),
        ({"seed": -1}, "science.seed must be greater than or equal to 0, got -1"),
        ({"strategies": ["nope"]}, "a strategy must be one of base, mr_thinking"),
        ({"strategies": ["base", "base"]}, "must have different labels, got 'base' 2 times"),
        ({"strategy": {"tua": 0.9}}, "science.strategy.tua must be a field of one of"),
        ({"strategy": {"tua": 0.9}}, "atom_of_thoughts, did you mean tau?"),
        ({"strategies": [{"kind": "esc", "windw": 3}]}, "(did you mean window?)"),
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
        ("runtime.scripted.token=2", "runtime.scripted.token is not a field of this section, did"),
        ("runtime.scripted.p0=2", "runtime.scripted.p0 must be less than or equal to 1, got 2"),
        ("runtime.scripted.faults={x: odd}", "runtime.scripted.faults.x must be 'bad_request'"),
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


def test_a_configuration_error_ends_with_status_2(capsys):
    """A misspelt field is refused before Ray starts."""
    config = ["--config", str(ROOT / "configs" / "laptop.yaml")]

    assert evaluate.main([*config, "--set", "science.strategy.tua=1"]) == 2
    assert "science.strategy.tua must be a field of one of" in capsys.readouterr().err


def test_fields_of_earlier_versions_are_ignored_and_named():
    """What an earlier version wrote to config.json can be read."""
    runtime = {
        "host": "serve",
        "max_failed_share": 0.9,
        "requests": {"affinity_margin": 4, "attempts": 2},
        "features": {"batch_size": 8},
        "verifier": {"target_ongoing_requests": 9, "speculation": {"method": "ngram"}},
        "plan": {"gpu": "L4", "apply": False, "all_reduce_us": 1.0},
    }
    config = RunConfig.parse({**make_values(), "runtime": runtime})

    assert config.runtime.requests.attempts == 2
    assert [line.partition(" is ignored")[0] for line in config.warnings()] == [
        f"runtime.{name}"
        for name in (
            *("host", "max_failed_share", "requests.affinity_margin", "features.batch_size"),
            *("verifier.target_ongoing_requests", "verifier.speculation"),
            *("plan.apply", "plan.all_reduce_us"),
        )
    ]
    assert RunConfig.parse(config.model_dump(mode="json")).warnings() == ()


@pytest.mark.parametrize(
    "science",
    [
        {"strategy": {"stop_rule": "forecast"}},
        {"strategies": [{"kind": "mr_thinking", "fields": {"score_every": 2}}]},
        {"strategies": [{"kind": "base", "fields": {"truncated_last": True}}]},
    ],
)
def test_what_an_earlier_version_decided_by_is_read_and_not_run(science):
    """Its runs can be reported; no run may begin or go on with other decisions than it asks for."""
    values = make_values()
    values["science"] |= science

    (warning,) = RunConfig.parse(values, recorded=True).warnings()
    assert warning.endswith("is ignored: it is no field any more")
    with pytest.raises(ConfigError, match=r"science\.strateg.* must be .* or left out, got"):
        RunConfig.parse(values)


def test_former_fields_that_decide_nothing_are_ignored():
    """At the values by which strategies decide now."""
    values = make_values()
    values["science"]["strategy"] = {"stop_rule": "printed", "score_every": 1}

    assert len(RunConfig.parse(values).warnings()) == 2


def test_an_anchored_section_of_an_extended_file_is_each_places_own(tmp_path):
    """The same through ``extends``, at any depth and for lists."""
    values = yaml.safe_dump({**make_values(), "name": "base"})
    pools = "runtime: {generator: &p {engine: {extra: {a: [1]}}}, verifier: *p}\n"
    (tmp_path / "base.yaml").write_text(values + pools)
    (tmp_path / "over.yaml").write_text("extends: base.yaml\n")
    override = "runtime.generator.engine.extra.a.0=2"
    runtime = RunConfig.load(str(tmp_path / "over.yaml"), [override]).runtime

    assert runtime.generator.engine.extra == {"a": [2]}
    assert runtime.verifier.engine.extra == {"a": [1]}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("science.strategies.0.n=3", "strategies.0 must be a section or a list, got 'base'"),
        ("science.seed.0=3", "science.seed must be a section or a list, got 0"),
        ("science.benchmarks.²=2", "'²' must be the number of one of 1 list items"),
        ("science.decoding.max_tokens=0400", "a number must be decimal, got 0400"),
        ("science.decoding.max_tokens=0900", "a number must be decimal, got 0900"),
        ("science.decoding.max_tokens=4:16", "a number must be decimal, got 4:16"),
        ("science.decoding.temperature=.inf", "a number must be finite and decimal, got .inf"),
        ("science.decoding.temperature=inf", "temperature must be a finite number, got inf"),
        ("science.decoding.top_k=true", "science.decoding: top_k must be a number, got true"),
        ("science.benchmarks.0.size=yes", "science.benchmarks: 0.size must be a number, got true"),
        ("science.strategy.n=true", "science.strategy.n: must be a number, got true"),
        ("science.strategies.1={kind: mr_thinking, n: nan}", "n: must be a finite number, got nan"),
        ("science.strategies.1={kind: base, n: 1, n: 2}", "stand once in a section, got n twice"),
        ("runtime.drain_s=nan", "runtime.drain_s: must be a finite number, got nan"),
        ("runtime.generator.resources={a: on}", "resources: a must be a number, got true"),
        ("runtime.generator.engine.extra={1: 2}", "a key must be text, got 1"),
        ("runtime.generator.engine.extra={a: !!set {b}}", "a value must be text, a number"),
        ("runtime.generator.engine.extra=&a [*a]", "100 deep"),
        ("runtime.generator.engine.extra=!!timestamp x", "a tag must fit its value; leave it out"),
        ("tau=0.5", "tau is not a field of this section, which has name, science, runtime; strat"),
        ("science.priors=3", "science.priors must be a section with fields, got 3"),
        ("science.seed=9223372036854775808", "a whole number must have at most 64 bits"),
        ("science.benchmarks.0.size=0x" + "f" * 5_000, "must have at most 64 bits"),
        ("science.seed='99999999999999999999'", "science.seed: must have at most 64 bits"),
        ("science.generator.model=''", "science.generator.model"),
        ("runtime.generator.replicas=1000000000000", "must be less than or equal to 10000"),
        (
            "runtime.plan={gpu: H100, completions: {a: -1}}",
            "completions.a must be greater",
        ),
        ("runtime.plan={gpu: H100, gpus_per_node: 99999}", "must be less than or equal to 1024"),
        ("runtime.generator.resources={a: -1}", "resources.a must be greater than"),
        ("runtime.generator.env={'A=B': x}", "names without '=', and no NUL, got 'A=B'"),
        ('runtime.generator.env={A: "\\0"}', "names without '=', and no NUL, got 'A'"),
        ('name="\\UFFFFFFFF"', "an escape must be a character's"),
        ("name=" + "a" * 9_000, "aaa..."),
    ],
)
def test_what_reads_otherwise_than_it_looks_is_refused_in_one_line(tmp_path, override, message):
    """Overrides and files alike: no value is taken for another number, and none crashes."""
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(make_values(seed=0)))
    with pytest.raises(ConfigError) as caught:
        RunConfig.load(str(path), [override])

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\nscience: {}\nname: b", "name twice in line 3"),
        ("name: a\nruntime: {runs: a, runs: b}", "runs twice in line 2"),
        ("name: a\nscience: {seed: 0400}", "decimal, got 0400; in quotes it is text in line 2"),
        ("name: [\nscience: 1\n", "must be YAML: expected ',' or ']'"),
        ("[" * 5_000, "100 deep"),
        ("a: [" + "1," * 100_000 + "]", "must have at most 200,000 characters, got 200,005"),
        ('extends: "a\\0b"', "must be a readable YAML file"),
    ],
)
def test_a_file_is_refused_with_the_line(tmp_path, text, message):
    """One line of text that names the line of the file."""
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        RunConfig.load(str(path))

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", ["a\0b", "x" * 5_000, "{folder}/latin.yaml"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, path, capsys):
    """One line, or what argparse says of its argument."""
    (tmp_path / "latin.yaml").write_bytes("name: é".encode("latin-1"))
    path = path.format(folder=tmp_path)
    try:
        status = evaluate.main(["--config", path])
    except SystemExit as ended:
        status = ended.code

    assert status == 2
    assert path[:100].replace("\0", "\\x00") in capsys.readouterr().err


def test_aliases_that_unfold_without_end_are_refused(tmp_path):
    """A file of a few hundred bytes must not fill the memory."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    path = tmp_path / "c.yaml"
    path.write_text("\n".join(lines))

    with pytest.raises(ConfigError, match="at most 100,000 values"):
        RunConfig.load(str(path))


def test_what_is_plain_stays_as_it_was(tmp_path):
    """Merge keys, dates as text, hexadecimal and grouped numbers, and booleans where they fit."""
    path = tmp_path / "c.yaml"
    base = yaml.safe_dump(make_values())
    path.write_text(
        base + "runtime:\n  generator: &p {replicas: 2, num_cpus: 0.5}\n"
        "  verifier: {<<: *p, replicas: 0x10, env: {DAY: 2026-01-01}}\n"
        "  requests: {attempts: 1_000}\n"
    )
    runtime = RunConfig.load(str(path), ["runtime.verifier.engine.enforce_eager=yes"]).runtime

    assert (runtime.verifier.replicas, runtime.verifier.num_cpus) == (16, 0.5)
    assert runtime.verifier.env == {"DAY": "2026-01-01"}
    assert runtime.verifier.engine.enforce_eager
    assert (runtime.generator.replicas, runtime.requests.attempts) == (2, 1000)
