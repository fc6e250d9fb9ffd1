"""Features: the state of the very prompt that the generator is given, cached by backbone."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from actors.engines.feature_actor import FeatureActor
from actors.training.backbone_features import (
    backbone_of,
    cache_address,
    cached_features,
)
from pipeline.config.models import GeneratorModel
from pipeline.config.run import RunConfig
from pipeline.config.runtime import PoolConfig
from pipeline.core.errors import ConfigError
from pipeline.core.prompts import Prompts
from pipeline.predictors.features import (
    FeatureCache,
    digest_of,
    messages_of,
    table_of,
)
from pipeline.predictors.heads import Backbone

TINY = "models/tiny-generator"
PROMPTS = Prompts(first="{question}", revise="{question} was {answer}")
TEXTS = ("23*45+6-7?", "912*11-400+3?", "10*10+1-1?")
BACKBONE = Backbone(model="m", revision="r")


def batch() -> pa.Table:
    """Prompts of three questions."""
    messages = [messages_of(PROMPTS, text) for text in TEXTS]
    return pa.table({"digest": [digest_of(m) for m in messages], "messages": messages})


def actor(pooling: str) -> FeatureActor:
    """The actor's class in this process, on the tiny generator."""
    model = GeneratorModel(model=TINY, dtype="float32", max_model_len=512)
    pool = PoolConfig.model_validate(
        {"num_gpus": 0, "num_cpus": 1, "engine": {"max_num_batched_tokens": 512}}
    )
    return FeatureActor(model.model_dump(mode="json"), pool.model_dump(mode="json"), pooling)


def features(table: pa.Table) -> np.ndarray:
    return np.array(table["features"].to_pylist())


def one_by_one(pooling: str) -> np.ndarray:
    """The same states without batch and padding."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(TINY)
    model = AutoModel.from_pretrained(TINY, dtype=torch.float32).eval()
    found = []
    for text in TEXTS:
        turns = [{"role": "user", "content": text}]
        prompt = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        ids = tokenizer.encode(prompt, add_special_tokens=False, return_tensors="pt")
        with torch.inference_mode():
            states = model(input_ids=ids).last_hidden_state[0]
        found.append((states.mean(dim=0) if pooling == "mean" else states[-1]).numpy())
    return np.array(found)


@pytest.mark.vllm
@pytest.mark.parametrize("pooling", ["last", pytest.param("mean", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_the_last_layers_states_of_the_prompt(
    pooling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM's pooling runner agrees with transformers, neither normalised nor cut."""
    from actors.engines.vllm_setup import environment

    for name, value in environment(PoolConfig(num_gpus=0, num_cpus=1)).items():
        monkeypatch.setenv(name, value)
    made = actor(pooling)(batch())

    assert made["digest"].to_pylist() == batch()["digest"].to_pylist()
    np.testing.assert_allclose(features(made), one_by_one(pooling), atol=1e-3)


def test_a_cache_is_kept_by_backbone_and_pooling(tmp_path: Path) -> None:
    """What was made for one is not found for another; several parts are read as one."""
    cache = FeatureCache.of(str(tmp_path), BACKBONE, "last")
    cache.folder.write_table("a.parquet", table_of(["x"], np.array([[1.0, 2.0]])))
    cache.folder.write_table("b.parquet", table_of(["y", "z"], np.array([[3.0, 4.0], [5, 6]])))

    assert {k: v.tolist() for k, v in cache.read(["x", "y", "w"]).items()} == {
        "x": [1.0, 2.0],
        "y": [3.0, 4.0],
    }
    assert FeatureCache.of(str(tmp_path), BACKBONE, "mean").read(["x"]) == {}
    other = Backbone(model="m", revision="r2")
    assert FeatureCache.of(str(tmp_path), other, "last").read(["x"]) == {}
    assert FeatureCache.of(str(tmp_path), BACKBONE, "last").folder == cache.folder


def test_a_part_that_is_torn_or_just_being_written_is_made_anew(tmp_path: Path) -> None:
    """A killed features phase blocks no resume, nor does one of another run beside it."""
    cache = FeatureCache.of(str(tmp_path), BACKBONE, "last")
    for name, digest in (("a.parquet", "x"), ("b.parquet", "y")):
        cache.folder.write_table(name, table_of([digest], np.array([[1.0, 2.0]])))
    place = Path(cache.folder.address) / "b.parquet"
    whole = place.read_bytes()
    for torn in (b"", whole[:4], whole[:-1]):
        place.write_bytes(torn)

        assert cache.read(["x", "y"]).keys() == {"x"}


def test_offline_use_needs_cached_features(tmp_path: Path) -> None:
    """Without a backbone nothing is made up; the message says how to make them."""
    config = RunConfig.parse(
        {
            "science": {
                "benchmarks": [{"name": "arithmetic", "size": 1}],
                "strategies": ["base"],
                "prompts": {"first": "{question}", "revise": "{question} was {answer}"},
                "generator": {"model": TINY},
            },
            "runtime": {"runs": str(tmp_path)},
        }
    )
    rows = [{"benchmark": "b", "question_id": str(i), "text": t} for i, t in enumerate(TEXTS)]
    backbone, address = backbone_of(config.science.generator), cache_address(config)

    assert address == str(tmp_path / "features")
    with pytest.raises(ConfigError, match=r"3 of 3 questions have none in .*: run jobs.features"):
        cached_features(address, PROMPTS, backbone, rows, "last")
    assert not Path(address).exists()  # such as beside a pool that may only be read
    cache = FeatureCache.of(address, backbone, "last")
    digests = batch()["digest"].to_pylist()
    cache.folder.write_table("a.parquet", table_of(digests, np.eye(3)))
    found = cached_features(address, PROMPTS, backbone, rows, "last")
    assert {key: value.tolist() for key, value in found.items()} == {
        ("b", str(i)): np.eye(3)[i].tolist() for i in range(3)
    }


def test_another_chat_template_or_another_variable_of_it_is_another_backbone(
    tmp_path: Path,
) -> None:
    """The same question is another prompt under them: neither its features nor heads on those are
    taken for the other's. Without any the identity, and so every cache, is what it was."""
    template = tmp_path / "chat.jinja"
    template.write_text("{{ messages[0].content }}")
    plain = backbone_of(GeneratorModel(model=TINY))
    others = [
        backbone_of(GeneratorModel(model=TINY, chat_template_kwargs={"enable_thinking": on}))
        for on in (True, False)
    ]
    others.append(backbone_of(GeneratorModel(model=TINY, chat_template=str(template))))
    template.write_text("{{ messages[0].content }}!")
    others.append(backbone_of(GeneratorModel(model=TINY, chat_template=str(template))))
    template.unlink()

    caches = {FeatureCache.of(str(tmp_path), each, "last").folder for each in (plain, *others)}
    assert len(caches) == len({plain, *others}) == 5
    assert plain.prompting == ""
    known = "95887e8e71b052de"
    assert FeatureCache.of(str(tmp_path), BACKBONE, "last").folder.address.endswith(known)
    with pytest.raises(ConfigError, match="chat_template must be a file"):
        backbone_of(GeneratorModel(model=TINY, chat_template=str(template)))


def test_a_folders_identity_is_its_files(tmp_path: Path) -> None:
    """A copy is the same backbone; other weights under the same name are another one."""
    first, copy = tmp_path / "a" / "tiny", tmp_path / "b" / "tiny"
    shutil.copytree(TINY, first)
    shutil.copytree(TINY, copy)
    before = backbone_of(GeneratorModel(model=str(first)))

    assert before == backbone_of(GeneratorModel(model=str(copy)))
    assert before.model == "tiny"
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    assert backbone_of(GeneratorModel(model=str(copy))) != before
