"""How fast one engine writes, by sequences in its batch and tokens that each holds.

    python -m benchmarks.decode_speed --shape 7b --gpu [--tensor-parallel 2]
    python -m benchmarks.decode_speed --quick                # the tiny model on a CPU

What `--dry-run` knows of speed is fitted to these figures (docs/performance.md). Weights are
random. A step is timed as the difference between long and short completions of the same prompts,
which the prefix cache holds, so that reading prompts is not in it. The last line is one JSON
object: rows of tensor parallelism, sequences, tokens held, milliseconds a step.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import described
from benchmarks.workload import model_of

_SHORT, _LONG = 16, 144
_UNFUSED: dict[str, Any] = {"compilation_config": {"pass_config": {"fuse_allreduce_rms": False}}}
_ALL_REDUCE: dict[str, dict[str, Any]] = {
    "default": {},
    "custom": _UNFUSED,
    "nccl": {**_UNFUSED, "disable_custom_all_reduce": True},
}
"""How tensor parallelism sums: as vLLM chooses, by its own kernel without fusing it with the
norm after it, or by NCCL."""


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--shape", choices=["tiny", "7b"], default="tiny")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--tensor-parallel", type=int, default=1)
    parser.add_argument(
        "--all-reduce", choices=["custom", "nccl"], default="custom", help="of vLLM"
    )
    parser.add_argument("--sequences", default="1,8,32,64,128,256")
    parser.add_argument("--held", default="256,4096,16384", help="tokens of each prompt")
    parser.add_argument("--most-held", type=int, default=400_000, help="of a batch, else skipped")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="few and short, for a CPU")
    return parser


def main() -> None:
    """Measure and print."""
    options = _options().parse_args()
    if options.quick:
        options.sequences, options.held, options.repeats = "1,8", "16,128", 1
    sequences = [int(count) for count in options.sequences.split(",")]
    held = [int(count) for count in options.held.split(",")]
    print(described(), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(options, sequences, held, Path(folder))
    print(json.dumps(rows))


def measure(
    options: argparse.Namespace, sequences: list[int], held: list[int], folder: Path
) -> list[dict[str, Any]]:
    """Milliseconds a step at every size of batch and context; the least of the repeats."""
    from actors.engines import vllm_setup
    from pipeline.config.models import GeneratorModel
    from pipeline.config.runtime import PoolConfig

    pool = PoolConfig.model_validate(
        {
            "num_gpus": None if options.gpu else 0,
            "engine": {
                "tensor_parallel_size": options.tensor_parallel,
                "max_num_seqs": max(sequences),
                "max_num_batched_tokens": 16_384 if options.gpu else 2_048,
                "enforce_eager": not options.gpu,
                "extra": _ALL_REDUCE[options.all_reduce],
            },
        }
    )
    context = max(held) + _LONG + 8
    model = GeneratorModel.model_validate(
        {**model_of(options.shape, folder, "generator"), "max_model_len": context}
    )
    os.environ.update(vllm_setup.environment(pool))
    from vllm import LLM, SamplingParams, TokensPrompt

    arguments = vllm_setup.engine_args(model, pool, enable_prefix_caching=True)
    llm = LLM(**arguments)
    vocabulary = 1_000 if options.shape != "tiny" else 20
    rng = np.random.default_rng(0)
    rows = []
    for length in held:
        for count in sequences:
            if count * length > options.most_held:
                continue
            ids = rng.integers(3, vocabulary, (count, length)).tolist()
            prompts = [TokensPrompt(prompt_token_ids=row) for row in ids]

            def seconds(tokens: int, prompts: list[Any] = prompts) -> float:
                params = SamplingParams(max_tokens=tokens, temperature=0.7, top_p=0.95)
                params.ignore_eos = True
                began = time.perf_counter()
                llm.generate(prompts, params, use_tqdm=False)
                return time.perf_counter() - began

            seconds(_SHORT)  # fills the prefix cache
            step_s = min(
                (seconds(_LONG) - seconds(_SHORT)) / (_LONG - _SHORT)
                for _ in range(options.repeats)
            )
            rows.append(
                {
                    "tensor_parallel": options.tensor_parallel,
                    "sequences": count,
                    "held": length + (_LONG + _SHORT) // 2,
                    "ms_a_step": 1_000 * step_s,
                }
            )
            print(json.dumps(rows[-1]), flush=True)
    return rows


if __name__ == "__main__":
    main()
