"""docs/write-a-strategy.md, as a user follows it: a class of their own, run and replayed."""

import json
import re
import zipfile

import pytest
import yaml

from jobs.results import write_summary
from jobs.sweep import main as sweep
from pipeline.benchmarks import BenchmarkSource, load
from pipeline.config.models import VerifierModel
from pipeline.config.run import RunConfig
from pipeline.config.strategies import strategies_of
from pipeline.core import plugins
from pipeline.core.errors import ConfigError, DataError, MarkovScaleError
from pipeline.replay.contract import check
from tests import own_pages
from tests.export_runs import exported
from tests.own_pages import ROOT, forget
from tests.report_runs import made_up_config, question_rows, write_run

PAGE = (ROOT / "docs" / "write-a-strategy.md").read_text("utf-8")


def block(language, after=""):
    return own_pages.block(PAGE, language, after)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The user's folder as the page makes it, importable as by PYTHONPATH."""
    package = tmp_path / "early"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "stable.py").write_text(block("python"))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    forget()


def config_of(kind, **science):
    values = {
        "benchmarks": [{"name": "arithmetic", "size": 4}],
        "strategies": [kind],
        "generator": {"model": "models/tiny-generator"},
    }
    return RunConfig.parse({"science": {**values, **science}})


def built(**fields):
    """The user's strategy as a configuration builds it."""
    verifier = {"model": "models/tiny-verifier"}
    science = config_of({"kind": "early.stable:Stable", **fields}, verifier=verifier).science
    (strategy,) = strategies_of(science).values()
    return strategy


def test_the_example_of_the_page_keeps_the_contract(project):
    """What the page shows passes its own check."""
    check(built(times=1))


MORE = "while len(chain.completions) < self.n:"
RULE = 'default_rule: ClassVar[str] = "best"'
TRUE = "ClassVar[bool] = True"


@pytest.mark.parametrize(
    ("was", "instead", "says"),
    [
        (MORE, "while random.random() < 0.5:", "decide alike when asked again"),
        (MORE, "while len(chain.completions) <= self.n:", "a question may cost"),
        (MORE, f"{MORE}\n            chain.completions[:] = []", "once"),
        ("        while", "        yield 'go'\n        while", "must yield Generate, got 'go'"),
        ("return Stop", "return 'go' or Stop", "must return a Stop, got 'go'"),
        ("StopReason.BUDGET", "'done'", "a stop must have a StopReason, got 'done'"),
        ("raise ValueError", "print", "n = 0 must raise ValueError"),
        ("    n: int = 8", f"    needs_score: {TRUE}\n    n: int = 8", "it took it"),
        ("Revisions(question", "Revisions(odd(question)", "it says pool_replayable"),
        ("frozen=True, ", "", "cannot inherit non-frozen dataclass from a frozen one"),
        ("@dataclass(frozen=True, slots=True, kw_only=True)", "", r"a dataclass\(frozen=True\)"),
        ("def decide", "def step", r"must be a strategy: it must have decide\(question"),
        ("    n: int = 8\n", "", "must be a strategy: it must have n"),
        ('kind: ClassVar[str] = "stable"', 'kind: ClassVar[str] = "base"', "a name of its own"),
        ("    n: int = 8", f"    {RULE}\n    n: int = 8", "must be one of last"),
        ("import dataclass", "import dataklass", "module early.stable must be importable"),
    ],
)
def test_what_breaks_the_contract_is_named(project, was, instead, says):
    """A strategy with a fault of each kind is refused, by its configuration or by the check, with
    one line that names the fault."""
    file = project / "early" / "stable.py"
    text = file.read_text()
    assert was in text
    future = "from __future__ import annotations\n"
    file.write_text(text.replace(was, instead).replace(future, future + EXTRA))

    with pytest.raises(MarkovScaleError, match=says) as caught:
        check(built())

    assert "\n" not in str(caught.value)


EXTRA = """
import random
from dataclasses import replace

def odd(question):
    return replace(question, text=question.text + "!")


"""


OLD = """

@dataclass(frozen=True)
class Old:
    kind: ClassVar[str] = "old"
    n: int = 8

    def start(self, question, statistics=None): ...
    def step(self, state, observations): ...
"""


def test_its_fields_are_checked_as_those_of_any_strategy(project):
    """Values from both places reach it; a field that it lacks and a bad value are refused."""
    config = config_of({"kind": "early.stable:Stable", "times": 1}, strategy={"n": 5, "tau": 0.9})
    ((label, built),) = strategies_of(config.science).items()

    assert (label, built.n, built.times, built.kind) == ("Stable", 5, 1, "stable")
    for fields, says in (
        ({"tiems": 2}, "Stable.tiems must be a field of early.stable:Stable, which has n, times"),
        ({"times": 0}, "times must be >= 1, got 0"),
        ({"times": "two"}, "times"),
    ):
        with pytest.raises(ConfigError, match=says):
            config_of({"kind": "early.stable:Stable", **fields})


def test_what_is_no_strategy_is_refused_before_anything_starts(project):
    """A missing module, a missing name, a function, another class, one of the form that strategies
    had before, a misspelt kind: one line."""
    with (project / "early" / "stable.py").open("a") as file:
        file.write(OLD)
    for kind, says in (
        ("nowhere:X", "module nowhere must be importable"),
        ("early.stable:Other", "module early.stable must have Other"),
        ("early.stable:dataclass", "must be a strategy: a class, got function"),
        ("early.stable:Question", "it must derive from pipeline.core.protocol.Strategy"),
        ("early.stable:Old", "replace start and step by one generator decide"),
        ("early.stable:", "must be written package.module:Name"),
        ("chain_acs", r"did you mean chain_asc\?"),
    ):
        with pytest.raises(ConfigError, match=says) as caught:
            config_of(kind)
        assert "\n" not in str(caught.value)


def test_a_strategy_without_a_field_n_is_known_by_what_it_may_cost(project, monkeypatch):
    """Its N in summary and plans is a property; a log of inspect is JSON also where one of its
    settings has no end."""
    file = project / "early" / "stable.py"
    bound = "    @property\n    def n(self):\n        return self.most\n\n"
    text = file.read_text().replace("    def decide(", f"{bound}    def decide(", 1)
    text = text.replace("n: int = 8", "most: int = 8\n    far: float = float('inf')")
    file.write_text(text.replace('("n", "times")', '("times",)'))
    config = made_up_config(project, strategies=["early.stable:Stable"])
    run = write_run(config, "run", question_rows(2, ["made-up"]), metrics=False)
    log = exported(run, "inspect", project / "logs") / "made-up-Stable.eval"

    check(built(most=3))
    assert [entry["n"] for entry in write_summary(run)["strategies"]] == [8]
    with zipfile.ZipFile(log) as members:
        header = json.loads(members.read("header.json"), parse_constant=pytest.fail)
    assert header["eval"]["solver_args"] == {"most": 8, "far": "Infinity", "times": 2}


def test_a_package_may_name_its_strategy(project, monkeypatch):
    """An entry point's name stands for its class."""
    text = '[project.entry-points."markovscale.strategies"]'
    assert text in PAGE
    folder = project / "early-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: early\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        "[markovscale.strategies]\n" + block("toml").partition("]\n")[2].replace('"', "")
    )

    (built,) = strategies_of(config_of("stable").science).values()

    assert type(built).__name__ == "Stable"
    assert plugins.names_of("markovscale.strategies") == ["stable"]
    other = project / "late-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: late\nVersion: 1.0\n")
    for value, says in (
        ("late.stable:Stable", "'stable' is early.stable:Stable and late.stable:Stable"),
        ("early.stable:Stable\nmodule = early.stable", "got 'early.stable' of the entry point"),
        ("early.stable:Stable\nmodule = early.stable:A.B", "got 'early.stable:A.B' of the entry"),
    ):
        (other / "entry_points.txt").write_text(f"[markovscale.strategies]\nstable = {value}\n")
        with pytest.raises(ConfigError, match=says):
            config_of("module" if "module" in value else "stable")


def test_the_sweep_of_the_page_runs_over_a_pool(project, capsys):
    """The grids of the page give a row a setting; longer patience costs more tokens."""
    (project / "stable.yaml").write_text(block("yaml", "## 4."))
    command = re.search(r"python -m jobs\.sweep (.*)", PAGE)[1].replace(
        "stable.", f"{project}/stable."
    )
    pool = str(ROOT / "tests" / "data" / "pool")

    assert sweep(command.replace("data/pools/sums", pool).split()) == 0

    told = capsys.readouterr().out
    assert "Stable (last)" in told
    assert (project / "stable.parquet").exists()


def test_a_loader_gives_rows_like_a_file(project):
    """Rows of a function are read by the same fields; what is no row or raises is named."""
    source = yaml.safe_load(block("yaml", "## Your own loader"))["science"]["benchmarks"][0]
    rows = project / "early" / "rows.py"
    rows.write_text(
        "def questions():\n"
        "    yield {'ask': '1 + 1?', 'key': 2}\n"
        "    yield {'ask': '2 + 1?', 'key': '3'}\n"
        "def bad():\n    yield 3\n"
        "def late():\n    yield {'question': '1?', 'answer': 1}\n    raise OSError('away')\n"
        "LIST = 3\n"
    )
    config = config_of("base", benchmarks=[source])

    items = load(config.science.benchmarks[0]).items

    assert [(item.text, item.gold) for item in items] == [("1 + 1?", "2"), ("2 + 1?", "3")]
    for name, says in (
        ("bad", "a row must be a mapping, got int in early.rows:bad, row 1"),
        ("late", "early.rows:late must give rows, got OSError after row 1: away"),
        ("LIST", "loader must be a function"),
    ):
        with pytest.raises((DataError, ConfigError), match=says):
            load(BenchmarkSource(name="mine", loader=f"early.rows:{name}"))
    with pytest.raises(ValueError, match="one of path, hf_dataset"):
        BenchmarkSource(name="mine", loader="a:b", path="c.csv")


def test_a_profile_of_ones_own_becomes_part_of_the_configuration(project):
    """Its fields stand in the configuration, so that no later reader has to import it."""
    (project / "early" / "profiles.py").write_text(
        "MINE = {'tag': 'ки', 'good': '+', 'bad': '-'}\nODD = 3\n"
    )
    given = yaml.safe_load(block("yaml", "A verifier's profile is"))["science"]["verifier"]

    model = VerifierModel.model_validate(given)

    assert VerifierModel.model_validate_json(model.model_dump_json()) == model
    assert model.profile.tag == "ки"
    with pytest.raises(ValueError, match="ODD must be a mapping of a profile's fields, got 3"):
        VerifierModel.model_validate({**given, "profile": "early.profiles:ODD"})
