"""Whether models fit GPUs: memory from shapes, against sums done another way."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.config.models import GeneratorModel
from pipeline.config.planning import GPUS
from pipeline.config.run import RunConfig
from pipeline.config.runtime import EngineConfig, PoolConfig
from pipeline.core.errors import ConfigError
from pipeline.planning.sizing import (
    GIB,
    check_shape,
    fitted,
    least_tensor_parallel,
    memory_of,
    weight_bytes,
)

PUBLISHED = {
    # intermediate size, biases of q, k and v, an output head; Qwen2 and Llama blocks alike
    "configs/qwen-7b.yaml": (18_944, True),
    "configs/llama-8b.yaml": (14_336, False),
    "configs/qwq-32b.yaml": (27_648, True),
}


def shape_in(path, part):
    return getattr(RunConfig.load(path).science, part).shape


def make_model(**fields):
    shape = {
        "layers": 64,
        "hidden": 5_120,
        "heads": 40,
        "kv_heads": 8,
        "vocab": 152_064,
        "positions": 40_960,
        "parameters": 32_763_876_352,
    }
    shape |= fields.pop("shape", {})
    return GeneratorModel(model="m", shape=shape, **{"max_model_len": 11_264, **fields})


def make_pool(parallel=1, **engine):
    return PoolConfig(engine=EngineConfig(tensor_parallel_size=parallel, **engine))


def fit(model, pool, gpu="L40S", call=fitted):
    return call(model, pool, GPUS[gpu], overhead_bytes=3 * GIB, where="science.generator")


@pytest.mark.parametrize("path", PUBLISHED)
def test_parameters_are_the_sum_over_the_architecture(path):
    """The parameters in a config are those of the blocks, embeddings and head they describe."""
    intermediate, biased = PUBLISHED[path]
    shape = shape_in(path, "generator")
    width = shape.hidden // shape.heads
    attention = 2 * shape.hidden * shape.hidden + 2 * shape.hidden * shape.kv_heads * width
    biases = shape.hidden + 2 * shape.kv_heads * width if biased else 0
    block = attention + biases + 3 * shape.hidden * intermediate + 2 * shape.hidden
    total = shape.layers * block + 2 * shape.vocab * shape.hidden + shape.hidden

    assert shape.parameters == total


def test_parameters_of_the_verifier_have_a_reward_head_for_the_output_head():
    """The verifier is the 7B Qwen2 with two linear layers where the vocabulary was."""
    verifier = shape_in("configs/qwen-7b.yaml", "verifier")
    generator = shape_in("configs/qwen-7b.yaml", "generator")
    head = verifier.hidden * verifier.hidden + verifier.hidden + 2 * verifier.hidden + 2

    assert verifier.parameters == generator.parameters - verifier.vocab * verifier.hidden + head


def test_weights_alone_do_not_make_a_replica():
    """A replica that holds its weights but not one sequence of the longest context is refused."""
    model, pool = make_model(), make_pool(gpu_memory_utilization=0.82)

    assert fit(model, pool, "H100", call=memory_of).free_bytes > 0
    with pytest.raises(ConfigError, match="got tensor_parallel_size 1; 2 can"):
        fit(model, pool, "H100")


def test_memory_of_a_known_case():
    """QwQ-32B over four L40S: the figures of a hand calculation."""
    memory = fit(make_model(), make_pool(4))

    assert memory.weight_bytes == 2 * 32_763_876_352 // 4
    assert memory.kv_bytes_per_token == 2 * 64 * 2 * 128 * 2
    assert memory.usable_bytes == int(46_068 * 2**20 * 0.9)
    assert memory.kv_tokens == memory.free_bytes // 65_536
    assert memory.full_sequences == memory.kv_tokens // 11_264


def test_copies_of_a_kv_head_cost_memory():
    """With more GPUs than KV heads, each GPU has a copy of one head: no more is saved."""
    shape = {"heads": 32, "kv_heads": 2, "hidden": 4_096}
    two, four = (fit(make_model(shape=shape), make_pool(n), call=memory_of) for n in (2, 4))

    assert two.kv_bytes_per_token == four.kv_bytes_per_token


@settings(max_examples=60, deadline=None)
@given(
    parameters=st.integers(10**8, 10**11),
    gpu=st.sampled_from(sorted(GPUS)),
    share=st.floats(0.3, 0.98),
)
def test_the_least_tensor_parallelism_fits_and_half_of_it_does_not(parameters, gpu, share):
    """What is named as enough is enough, and the next smaller is not."""
    model = make_model(shape={"parameters": parameters})
    pool = make_pool(gpu_memory_utilization=share)
    least = fit(model, pool, gpu, call=least_tensor_parallel)

    if least is None:
        with pytest.raises(ConfigError):
            fit(model, make_pool(8, gpu_memory_utilization=share), gpu)
        return
    assert fit(model, make_pool(least, gpu_memory_utilization=share), gpu).full_sequences >= 1
    if least > 1:
        with pytest.raises(ConfigError, match=f"; {least} can"):
            fit(model, make_pool(least // 2, gpu_memory_utilization=share), gpu)


@pytest.mark.parametrize(
    ("model", "pool", "message"),
    [
        (GeneratorModel(model="m"), make_pool(), "science.generator.shape must be given"),
        (make_model(), make_pool(3), "must split 40 heads and 8 KV heads of m evenly, got 3"),
        (make_model(shape={"kv_heads": 5}), make_pool(4), "must split 40 heads and 5 KV heads"),
        (
            make_model(max_model_len=50_000),
            make_pool(4),
            "science.generator.max_model_len must be at most 40,960",
        ),
        (make_model(quantization="awq"), make_pool(), "shape.weight_bytes must be given"),
        (make_model(shape={"parameters": 10**13}), make_pool(), "no tensor_parallel_size up to 16"),
    ],
)
def test_what_cannot_be_is_refused(model, pool, message):
    """Each error names what must hold and what came."""
    with pytest.raises(ConfigError, match=message):
        fit(model, pool)


def test_weights_follow_the_type_that_is_loaded():
    """A dtype of the configuration wins over the published one; stated bytes win over both."""
    assert weight_bytes(make_model(), "x") == 2 * 32_763_876_352
    assert weight_bytes(make_model(dtype="float32"), "x") == 4 * 32_763_876_352
    quantised = make_model(quantization="awq", shape={"weight_bytes": 19 * GIB})
    assert weight_bytes(quantised, "x") == 19 * GIB


HF_QWEN = {
    "num_hidden_layers": 28,
    "hidden_size": 3_584,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152_064,
    "max_position_embeddings": 131_072,
    "torch_dtype": "bfloat16",
}


def test_a_shape_that_is_the_models_passes():
    """Old and new names of the type are read, and a shape that says nothing holds."""
    shape = shape_in("configs/qwen-7b.yaml", "generator")
    newer = {k: v for k, v in HF_QWEN.items() if k != "torch_dtype"} | {"dtype": "torch.bfloat16"}

    check_shape(shape, HF_QWEN)
    check_shape(shape, newer)
    check_shape(None, {})


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_hidden_layers", 32, "layers 28 \\(the model has 32\\)"),
        ("num_key_value_heads", None, "kv_heads 4 \\(the model has 28\\)"),
        ("vocab_size", 151_646, "vocab 152064 \\(the model has 151646\\)"),
        ("torch_dtype", "float16", "dtype bfloat16 \\(the model has float16\\)"),
        ("head_dim", 64, "head_dim 128 \\(the model has 64\\)"),
        ("max_position_embeddings", 4_096, "positions 131072 \\(the model has 4096\\)"),
    ],
)
def test_a_shape_of_another_model_is_refused(field, value, message):
    """Every field that differs is named with both values."""
    with pytest.raises(ConfigError, match=message):
        check_shape(shape_in("configs/qwen-7b.yaml", "generator"), HF_QWEN | {field: value})
