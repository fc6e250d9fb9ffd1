"""docs/write-an-answer-rule.md, as a user follows it: a rule of their own, run and replayed."""

import hashlib
import re
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from benchmarks.synthetic_pool import write_synthetic_pool
from jobs.export import main as export
from jobs.replay import main as replay_job
from jobs.report import main as report
from jobs.sweep import main as sweep
from pipeline import api
from pipeline.answers.answer_rules import RULES, AnswerRule, Chosen, OwnRule, _code, apply
from pipeline.config.run import RunConfig
from pipeline.config.strategies import (
    check_own_rules,
    own_modules,
    rule_of,
    rules_of,
    strategies_of,
)
from pipeline.core.errors import ConfigError
from pipeline.core.protocol import Failure, Stop, StopReason
from pipeline.records.outcome import SCHEMA, schema_of
from pipeline.records.run_dir import RunDir
from pipeline.replay import contract
from pipeline.replay.judging import judged_by_state_machine, rights
from pipeline.replay.sweep import sweep as swept
from pipeline.strategies.chain_agreement import Agree, ChainASC
from pipeline.strategies.sequential import MRThinking
from tests import own_pages
from tests.generators import completion
from tests.own_pages import ROOT, followed, forget
from tests.pools import pools

PAGE = (ROOT / "docs" / "write-an-answer-rule.md").read_text("utf-8")
TWICE, LATE = "early.rules:first_twice", "early.rules:LateArgmax"


def block(language, after=""):
    return own_pages.block(PAGE, language, after)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The user's folder as the page makes it, importable as by PYTHONPATH."""
    package = tmp_path / "early"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "rules.py").write_text(block("python"))
    monkeypatch.syspath_prepend(str(tmp_path))
    _code.cache_clear()
    yield tmp_path
    forget()
    _code.cache_clear()


def config_of(**science):
    values = {
        "benchmarks": [{"name": "arithmetic", "size": 4}],
        "strategies": ["base"],
        "generator": {"model": "models/tiny-generator"},
        "verifier": {"model": "models/tiny-verifier"},
    }
    return RunConfig.parse({"science": {**values, **science}})


def stop(drawn):
    return Stop(reason=StopReason.BUDGET, rounds=tuple(range(len(drawn))))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("def r(c): KEPT.append(1); return len(KEPT) % len(c)", r"it chose \d and then \d"),
        ("def r(c): return len(c)", r"an index in \[0, 1\), the completions that it was given"),
        ("def r(c): return c[0].answer", "must return an index or None, got '"),
        ("def r(c): return True", "must return an index or None, got True"),
        ("def r(c): return max(range(len(c)), key=lambda i: c[i].score)", "it raised TypeError"),
        ("def r(c, stop): return 0", "must take one argument, the completions"),
        ("async def r(c): return 0", "must be a plain function"),
        ("class r:\n    def __call__(self, c): return 0", r"must be a dataclass\(frozen=True\)"),
        ("@dataclass(frozen=True)\nclass r:\n    a: int = 0", "must have a method __call__"),
        ("r = 3", "must be a function or a class, got int"),
        ("import nothing_of_the_kind", "module early.rules must be importable"),
    ],
)
def test_what_breaks_the_contract_is_one_clear_line(project, body, says):
    """A run refuses a rule with a fault of each kind before it starts, and names the fault."""
    head = "from dataclasses import dataclass\nKEPT = []\n"
    (project / "early" / "rules.py").write_text(f"{head}{body}\n")

    with pytest.raises(ConfigError, match=says) as caught:
        check_own_rules(config_of(answer_rules=["early.rules:r"]).science)

    assert "\n" not in str(caught.value)


def test_the_rules_of_the_page_keep_the_contract(project):
    """What the page shows passes the check of a run, with and without settings."""
    check_own_rules(config_of(answer_rules=[TWICE, {"kind": LATE, "start": 2}]).science)


def test_a_configuration_names_rules_where_it_names_the_headline(project):
    """By place, as mapping with settings, as headline alone; labels name the columns."""
    both = config_of(
        answer_rule=TWICE,
        answer_rules=[{"kind": LATE, "label": "late", "start": 2}],
    ).science
    again = RunConfig.parse({"science": both.model_dump(mode="json")}).science

    assert both.answer_rule == "first_twice"
    assert [rule.value for rule in rules_of(both)[len(RULES) :]] == ["late", "first_twice"]
    assert rules_of(again) == rules_of(both)
    assert [rule_of(both, s).value for s in strategies_of(both).values()] == ["first_twice"]
    assert own_modules(both) == ("early",)
    listed = config_of(answer_rule=TWICE, answer_rules=[{"kind": TWICE, "label": "mine"}]).science
    assert (listed.answer_rule, len(listed.answer_rules)) == ("mine", 1)


@pytest.mark.parametrize(
    ("science", "says"),
    [
        ({"answer_rules": ["nowhere:x"]}, "module nowhere must be importable"),
        ({"answer_rules": ["early.rules:other"]}, "module early.rules must have other"),
        ({"answer_rules": ["twice"]}, "an answer rule of your own must be package.module:name"),
        ({"answer_rules": ["early.rules"]}, "write package.module:name, or give it a label"),
        ({"answer_rules": [TWICE, TWICE]}, "different labels, got 'first_twice'"),
        ({"answer_rules": [{"kind": TWICE, "label": "Vote"}]}, "'Vote', which is shipped"),
        ({"answer_rules": [{"kind": TWICE, "label": "default"}]}, "'default', which is shipped"),
        ({"answer_rules": [{"kind": TWICE, "label": "a-b"}]}, "at most 40 letters, digits and _"),
        ({"answer_rules": [{"kind": TWICE, "k": 2}]}, "must be a class to have settings"),
        ({"answer_rules": [{"kind": LATE, "strat": 2}]}, r"has start \(did you mean start"),
        ({"answer_rules": [{"kind": LATE, "start": -1}]}, "start must be >= 0, got -1"),
        ({"answer_rules": [{"kind": LATE, "start": "two"}]}, "start: .*integer"),
        ({"answer_rule": "lst"}, r"answer_rule must be one of .* \(did you mean last\?\)"),
        ({"answer_rule": LATE, "verifier": None}, "verifier must be given for the answer rule"),
        ({"strategies": ["mr_thinking"], "answer_rule": 3}, "answer_rule"),
    ],
)
def test_what_cannot_be_a_rule_is_refused_before_anything_starts(project, science, says):
    """A missing module or name, columns that collide, settings that are none: one line each."""
    with pytest.raises(ConfigError, match=says) as caught:
        config_of(**science)
    assert "\n" not in str(caught.value)


def test_a_strategy_may_bring_its_rule(project):
    """A rule that a strategy of one's own names as its default is the run's, without being listed;
    its columns may not be those of another."""
    page = (ROOT / "docs" / "write-a-strategy.md").read_text("utf-8")
    code = re.search(r"```python\n(.*?)```", page, re.S)[1]
    stable = project / "early" / "stable.py"
    field = "    n: int = 8"
    stable.write_text(code.replace(field, f'    default_rule = "{TWICE}"\n{field}'))
    pool = str(project / "pool")
    write_synthetic_pool(pool, questions=24, rounds=4, samples=0)

    science = config_of(strategies=["early.stable:Stable"]).science
    (built,) = strategies_of(science).values()
    table = api.sweep(api.open_pool(pool), [{"kind": "early.stable:Stable", "n": 4}])
    replayed = api.replay(replace(built, n=4), api.open_pool(pool))

    assert rule_of(science, built) == rules_of(science)[-1] == OwnRule("first_twice", TWICE)
    contract.stops_within_its_budget(built, contract.questions(), contract.engine(1))
    headlines = {row["answer_rule"] for row in table.to_pylist() if row["headline"]}
    assert headlines == {"first_twice"}
    assert replayed["answer_first_twice"].null_count < 24
    stable.write_text(code.replace(field, f'    default_rule = "x.y:vote"\n{field}'))
    del sys.modules["early.stable"]
    with pytest.raises(ConfigError, match="'vote', which is shipped"):
        config_of(strategies=["early.stable:Stable"])


def test_a_run_without_own_rules_is_what_it_was(project):
    """The columns of outcomes, and the digest of a run that names none, are those of before; a
    rule, its name and its settings are part of the science."""
    plain = config_of()
    digests = {
        config_of(answer_rules=rules).science_digest()
        for rules in (
            [],
            [TWICE],
            [{"kind": TWICE, "label": "mine"}],
            [LATE],
            [{"kind": LATE, "start": 3}],
        )
    }
    names = hashlib.sha256(" ".join(SCHEMA.names).encode()).hexdigest()

    assert plain.science_digest() in digests
    assert len(digests) == 5
    assert schema_of(rules_of(plain.science)).equals(SCHEMA)
    assert names.startswith("66d1a258e7a2ed8c")
    assert plain.science_digest().startswith("36de979470a054f8")


def test_a_rule_sees_what_the_stop_rests_on_and_no_more(project):
    """Failures and texts are kept from it; so are completions without what it says it reads."""
    (project / "early" / "rules.py").write_text(
        "SEEN = []\n"
        "def r(c):\n    SEEN.append(c)\n    return 0\n"
        "def s(c):\n    return len(c) - 1\n"
        "s.needs_score = True\n"
        "def none(c):\n    return None\n"
        "def odd(c):\n    return 1 / 0\n"
    )
    drawn = [Failure(error="x"), completion("1", None), completion("2", 0.5), completion("3", None)]
    rest = Stop(reason=StopReason.BUDGET, rounds=(0, 1, 2))

    assert apply(OwnRule("r", "early.rules:r"), drawn, rest) == Chosen(answer="1", position=1)
    assert apply(OwnRule("s", "early.rules:s"), drawn, rest) == Chosen(answer="2", position=2)
    assert apply(OwnRule("s", "early.rules:s"), [drawn[1]], stop([1])) is None
    assert apply(OwnRule("n", "early.rules:none"), drawn, rest) == Chosen(
        answer=None, position=None
    )
    with pytest.warns(UserWarning, match="odd could not be applied: ZeroDivisionError"):
        broken = apply(OwnRule("odd", "early.rules:odd"), drawn, rest)
    assert broken is None
    seen = sys.modules["early.rules"].SEEN
    assert [[each.answer for each in one] for one in seen] == [["1", "2"]]
    assert {each.text for one in seen for each in one} == {""}


@given(pool=pools(rounds=5))
@settings(max_examples=20, deadline=None)
def test_arrays_and_state_machine_agree_on_own_rules(pool):
    """A sweep reads every setting by one's own rules as a replay of each question does, also where
    the stop rests on some rounds alone, and where the rule reads scores."""
    rules = (
        *RULES,
        OwnRule("mine", f"{__name__}:own_last"),
        OwnRule("late", f"{__name__}:own_late"),
    )
    settings_ = [
        ("mr", MRThinking(n=4)),
        ("asc", ChainASC(n=5, threshold=0.8)),
        ("agree", Agree(n=5, tau=0.9)),
    ]

    result = swept(pool, settings_, rules=rules)

    assert result.rules == rules
    for one in result.settings:
        exact = judged_by_state_machine(pool, one.strategy, rules=rules)
        np.testing.assert_array_equal(one.judged.verdict_RQ, exact.verdict_RQ)
        np.testing.assert_array_equal(rights(exact, rules[6]), rights(exact, AnswerRule.LAST))
        assert one.judged.applicable_R == exact.applicable_R


def own_last(completions):
    return len(completions) - 1


def lone(completions):
    return "x"


def own_late(completions):
    scored = range(len(completions) // 2, len(completions))
    return max(scored, key=lambda index: completions[index].score)


own_late.needs_score = True


def test_the_sweep_of_the_page_reads_its_rules(project, capsys):
    """Rules of the file stand in table and terminal at every setting, and in those of notebooks."""
    pool = str(project / "pool")
    write_synthetic_pool(pool, questions=24, rounds=4, samples=0)
    text = block("yaml", "## 4.").replace("n: [4, 8]", "n: [3, 4]").replace("n: 8", "n: 4")
    (project / "twice.yaml").write_text(text)
    files = ["--config", f"{project}/twice.yaml", "--out", f"{project}/twice.parquet"]

    assert sweep(["--pool", pool, *files]) == 0

    rows = pq.read_table(project / "twice.parquet").to_pylist()
    assert "first_twice" in capsys.readouterr().out
    counts = Counter(row["answer_rule"] for row in rows)
    assert counts["first_twice"] == counts["last"] > 0
    opened = api.open_pool(pool)
    own = [{"kind": TWICE, "label": "mine"}]
    table = api.replay({"kind": "mr_thinking", "n": 4}, opened, answer_rules=own).to_pylist()
    assert all(row["answer_mine"] in (*row["round_answers"], None) for row in table)
    setting = api.sweep(opened, [{"kind": "mr_thinking", "n": 4}], answer_rules=own)
    right = sum(row["verdict_mine"] == "right" for row in table)
    mine = [row["right"] for row in setting.to_pylist() if row["answer_rule"] == "mine"]
    assert sum(mine) == right
    fresh = api.replay("base", opened, answer_rules=[own_last]).to_pylist()
    assert all(row["answer_own_last"] == row["answer_last"] for row in fresh)
    for functions, says in (
        ([lambda c: 0], "write package.module:name, or give it a label"),
        ([own_last, own_last], "different labels, got 'own_last'"),
        ([lone], "must return an index or None, got 'x'"),
    ):
        with pytest.raises(ConfigError, match=says):
            api.sweep(opened, ["base"], answer_rules=functions)


@pytest.mark.ray
@pytest.mark.slow
def test_the_page_from_live_run_to_replay(project, tmp_path, monkeypatch, capsys):
    """The commands of the page, on scripted engines; then, without the package, the run can still
    be read, and what needs the code says so in a line."""
    runs = tmp_path / "runs"
    (project / "twice.yaml").write_text(block("yaml", "## 4.").replace("n: [4, 8]", "n: 4"))
    told = followed(PAGE, "twice", project, runs)

    assert "both by first_twice" in told

    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(project)])
    forget()
    _code.cache_clear()
    run = RunDir.open(str(runs / "twice"))
    entry = run.folder.read_json("summary.json")["strategies"][1]
    assert (entry["strategy"], entry["headline_rule"]) == ("mr_thinking", "first_twice")
    assert entry["accuracy"]["late"]["graded"] == entry["accuracy"]["first_twice"]["graded"] == 12
    table = api.open_run(run.address).outcomes()
    assert table["answer_first_twice"].null_count < 24
    for job, options in (
        (report, ["--out", str(tmp_path / "report.html")]),
        (export, ["--to", "csv", "--out", str(tmp_path / "csv")]),
        (export, ["--to", "hf_dataset", "--out", str(tmp_path / "hf")]),
        (export, ["--to", "inspect", "--out", str(tmp_path / "inspect")]),
    ):
        assert job([run.address, *options]) == 0
    assert "first_twice" in (tmp_path / "report.html").read_text("utf-8")
    header = (tmp_path / "csv" / "questions.csv").read_text().partition("\n")[0]
    assert {"answer_first_twice", "verdict_first_twice"} <= set(header.split(","))
    capsys.readouterr()
    assert replay_job([run.address]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: module early.rules must be importable")
    assert told.count("\n") == 1
