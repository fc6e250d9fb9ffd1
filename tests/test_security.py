"""What strangers may send in: model output, data sets, run directories, configuration."""

import ast
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.journals import read_journal
from pipeline.config.models import GeneratorModel
from pipeline.config.run import RunConfig
from pipeline.core.errors import ConfigError, DataError
from pipeline.records.run_dir import RunDir, rows_of
from tests.attempts import attempt, config_of, new_run
from tests.live import Engines

ROOT = Path(__file__).resolve().parent.parent
OURS = [
    p for name in ("pipeline", "actors", "jobs", "benchmarks") for p in ROOT.glob(f"{name}/**/*.py")
]

NEVER_CALLED = {
    "eval", "exec", "compile", "os.system", "os.popen", "pickle.load", "pickle.loads",
    "dill.load", "dill.loads", "cloudpickle.load", "cloudpickle.loads", "joblib.load",
    "marshal.load", "marshal.loads", "shelve.open", "yaml.load", "yaml.unsafe_load",
    "yaml.full_load", "torch.load", "np.load", "numpy.load", "extractall",
}  # fmt: skip


THROUGH_RAY = {"actors/routing/bundles.py"}
"""Bundles of calls come out of Ray's own messages, which Ray unpickles as well."""


def calls(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), {k.arg: k.value for k in node.keywords}


def bad_calls(text, place):
    """Calls that run what they read."""
    found = []
    for name, keywords in calls(ast.parse(text)):
        value = keywords.get("weights_only")
        allowed = name == "torch.load" and value is not None and ast.unparse(value) == "True"
        allowed |= name in ("np.load", "numpy.load") and "allow_pickle" not in keywords
        allowed |= name == "pickle.loads" and place in THROUGH_RAY
        if (name in NEVER_CALLED or name.split(".")[-1] == "extractall") and not allowed:
            found.append(name)
        for option in ("shell", "trust_remote_code", "allow_pickle"):
            value = keywords.get(option)
            if isinstance(value, ast.Constant) and value.value is True:
                found.append(f"{name}({option}=True)")
    return found


def test_no_code_runs_what_it_reads():
    """No eval, no pickle from files, no unsafe YAML, no shell, no code of strangers by default; the
    check finds each of them."""
    bad = "eval(x)\nyaml.load(f)\nsubprocess.run(c, shell=True)\nz.extractall()\n"
    found = {str(p.relative_to(ROOT)): p.read_text() for p in OURS}

    assert bad_calls(bad, "x.py") == [
        "eval", "yaml.load", "subprocess.run(shell=True)", "z.extractall"
    ]  # fmt: skip
    assert {
        place: names for place, text in found.items() if (names := bad_calls(text, place))
    } == {}


def test_code_that_comes_with_a_model_does_not_run_by_default():
    """trust_remote_code must be asked for."""
    assert GeneratorModel(model="x").trust_remote_code is False


@pytest.mark.parametrize(
    "text", ["!!python/object/apply:os.system ['true']", "a: !!python/name:os.system"]
)
def test_yaml_makes_no_objects(tmp_path, text):
    """A configuration with Python tags is refused."""
    path = tmp_path / "c.yaml"
    path.write_text(text)

    with pytest.raises(ConfigError, match="must be YAML"):
        RunConfig.load(str(path))
    with pytest.raises(ConfigError, match="must be YAML"):
        RunConfig.load(str(ROOT / "configs" / "laptop.yaml"), [f"name={text}"])


HOSTILE_IDS = ["../../x", "a/b", "..", "/etc/passwd", "a\x00b", "x" * 5_000,
               "<script>alert(1)</script>", "'; DROP TABLE q; --", "%2e%2e%2f", "con",
               "ä\u202eb", " ", "*", "~"]  # fmt: skip


async def test_no_question_id_names_a_file(tmp_path):
    """Whatever ids a data set has, files appear below the run directory alone, under our names."""
    path = tmp_path / "set.jsonl"
    path.write_text(
        "".join(
            json.dumps({"id": f"{i}", "question": f"{n}+1?", "answer": str(n + 1)}) + "\n"
            for n, i in enumerate(HOSTILE_IDS)
        )
    )
    before = {p for p in tmp_path.rglob("*") if "runs" not in p.parts}
    values = config_of(tmp_path / "runs").model_dump(mode="json")
    values["science"]["benchmarks"] = [{"name": "mine", "path": str(path), "skip_bad_rows": True}]
    run = new_run(RunConfig.parse(values))
    await attempt(run, Engines())
    names = {p.name for p in (tmp_path / "runs").rglob("*")}

    assert {p for p in tmp_path.rglob("*") if "runs" not in p.parts} == before
    assert not any(hostile in name for hostile in HOSTILE_IDS[:9] for name in names)
    kept = {r["question_id"] for r in rows_of(run.outcomes())}
    assert {"../../x", "<script>alert(1)</script>", "ä\u202eb"} <= kept


@pytest.mark.parametrize("name", ["../x", "/abs", "a/b", "", ".", "..", "x\n", "-x"])
def test_names_of_runs_stay_in_their_folder(tmp_path, name):
    """A run's name is one plain component."""
    with pytest.raises(DataError, match="a run's name must be"):
        RunDir.create(config_of(tmp_path), name)
    assert list(tmp_path.iterdir()) == []


def test_benchmark_and_strategy_names_are_plain(tmp_path):
    """They are parts of file names and keys."""
    for place, value in (
        ("benchmarks", [{"name": "../x"}]),
        ("strategies", [{"kind": "base", "label": "../x"}]),
    ):
        values = config_of(tmp_path).model_dump(mode="json")
        values["science"][place] = value
        with pytest.raises((ConfigError, DataError)):
            RunConfig.parse(values)


def test_a_hostile_benchmark_file_is_refused_by_its_unpacked_size(tmp_path):
    """max_file_bytes bounds what a benchmark unpacks to as well."""
    from pipeline.store.row_files import read_rows

    path = tmp_path / "set.parquet"
    pq.write_table(
        pa.table({"question": ["a" * (1 << 20)] * 64}),
        path,
        use_dictionary=False,
        compression="zstd",
    )

    with pytest.raises(DataError, match="must unpack to at most"):
        list(read_rows(path, max_row_bytes=1 << 20, max_file_bytes=1 << 20))


SECRETS = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID",
           "OPENAI_API_KEY", "DB_PASSWORD", "hf_token"]  # fmt: skip
PLAIN = ["TOKENIZERS_PARALLELISM", "VLLM_CPU_KVCACHE_SPACE", "max_num_batched_tokens", "KEYBOARD"]


@pytest.mark.parametrize("place", ["env", "extra"])
@pytest.mark.parametrize("name", SECRETS)
def test_secrets_are_refused_and_not_repeated(tmp_path, name, place):
    """A configuration with a field that is named like a secret is refused without its value."""
    values = config_of(tmp_path).model_dump(mode="json")
    pool = values["runtime"]["generator"]
    (pool if place == "env" else pool["engine"])[place] = {name: "hunter2"}

    with pytest.raises(ConfigError) as refused:
        RunConfig.parse(values)
    assert name in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("name", PLAIN)
def test_plain_variables_are_taken(tmp_path, name):
    """Only names that say so are secrets."""
    values = config_of(tmp_path).model_dump(mode="json")
    values["runtime"]["generator"]["env"] = {name: "1"}

    assert RunConfig.parse(values).runtime.generator.env == {name: "1"}


@pytest.mark.parametrize(
    "address", ["s3://id:hunter2@bucket/runs", "s3://bucket/runs?secret_key=hunter2"]
)
def test_keys_in_an_address_are_refused_and_not_repeated(tmp_path, address):
    """Keys belong in the environment, not in the address of the run directories."""
    values = config_of(tmp_path).model_dump(mode="json")
    values["runtime"]["runs"] = address

    with pytest.raises(ConfigError) as refused:
        RunConfig.parse(values)
    assert "must hold no keys" in str(refused.value)
    assert "hunter2" not in str(refused.value)


async def test_no_secret_of_the_environment_reaches_the_run_directory(tmp_path, monkeypatch):
    """Tokens of the process's environment are in no file that a run writes."""
    monkeypatch.setenv("HF_TOKEN", "hunter2-token")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2-key")
    run = new_run(config_of(tmp_path))
    await attempt(run, Engines())
    written = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())

    assert b"arithmetic" in written
    assert b"hunter2" not in written


async def test_model_output_is_data(tmp_path):
    """Whatever a model writes, and however a question reads, the run ends with its rows."""
    from actors.routing.calls import GenerateCall, Generated

    replies = ["\x00\x01", "\ud800 lone", "<extra_0>" * 50, "</think>" * 9,
               "__import__('os').abort()", "\\boxed{" * 200,
               "\\boxed{__import__('os').system('x')}", "🧮" * 999, ""]  # fmt: skip

    class Hostile(Engines):
        async def call(self, call):
            if not isinstance(call, GenerateCall):
                return await super().call(call)
            self.served.append(call.request)
            return Generated(
                text=replies[len(self.served) % len(replies)],
                finish_reason="stop",
                prompt_tokens=1,
                cached_prompt_tokens=0,
                completion_tokens=1,
                thinking_tokens=0,
                replica="r",
            )

    run = new_run(config_of(tmp_path, size=12))
    outcomes = await attempt(run, Hostile())

    assert len(outcomes) == 12
    assert [row["error"] for row in outcomes] == [None] * 12
    assert read_journal(run.journal).table.num_rows == 48
