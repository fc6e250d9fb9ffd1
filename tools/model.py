"""The Qwen2 of the shipped models, small enough to train from nothing: weights, sampling, files.

The architectures are those of DeepSeek-R1-Distill-Qwen and Qwen2.5-Math-PRM, so that the engines
which serve those serve these: `Qwen2ForCausalLM`, and `Qwen2ForProcessRewardModel` with the head
``Linear(h, h), ReLU, Linear(h, 2)``. The modules have the names of the saved weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from tools.tokens import BOS, CONTEXT_TOKENS, EOS, PAD, STEP, VOCABULARY_TOKENS, save_tokenizer

_EPSILON = 1e-6
_THETA = 10_000.0


class Shape(NamedTuple):
    """Sizes of a backbone."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    feed_forward: int


SHAPES = {
    "small": Shape(4, 128, 4, 2, 384),
    "medium": Shape(8, 320, 5, 5, 896),
    "large": Shape(10, 640, 10, 10, 1792),
}
"""0.8, 10.3 and 50.9 million weights."""


class _Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape, self.size = shape, shape.width // shape.heads
        self.q_proj = nn.Linear(shape.width, shape.width)
        self.k_proj = nn.Linear(shape.width, shape.kv_heads * self.size)
        self.v_proj = nn.Linear(shape.width, shape.kv_heads * self.size)
        self.o_proj = nn.Linear(shape.width, shape.width, bias=False)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor], cache: Any, mask: Any) -> Tensor:
        batch, length, _ = x.shape
        query = _turned(self.q_proj(x).view(batch, length, -1, self.size), turn).transpose(1, 2)
        key = _turned(self.k_proj(x).view(batch, length, -1, self.size), turn).transpose(1, 2)
        value = self.v_proj(x).view(batch, length, -1, self.size).transpose(1, 2)
        if cache is not None:
            key, value = cache.extended(self, key, value)
        groups = self.shape.heads // self.shape.kv_heads
        if groups > 1:
            key = key.repeat_interleave(groups, dim=1)
            value = value.repeat_interleave(groups, dim=1)
        mixed = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None
        )
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))


class _FeedForward(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.width, shape.feed_forward, bias=False)
        self.up_proj = nn.Linear(shape.width, shape.feed_forward, bias=False)
        self.down_proj = nn.Linear(shape.feed_forward, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class _Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.self_attn = _Attention(shape)
        self.mlp = _FeedForward(shape)
        self.input_layernorm = nn.RMSNorm(shape.width, _EPSILON)
        self.post_attention_layernorm = nn.RMSNorm(shape.width, _EPSILON)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor], cache: Any, mask: Any) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), turn, cache, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class _Backbone(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY_TOKENS, shape.width)
        self.layers = nn.ModuleList(_Layer(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width, _EPSILON)
        size = shape.width // shape.heads
        frequency = _THETA ** -(torch.arange(0, size, 2).float() / size)
        self.register_buffer("frequency", frequency, persistent=False)
        self.compiled: list[Any] = []
        """The layers compiled, for training alone."""

    def forward(
        self, ids: Tensor, positions: Tensor | None = None, cache: Any = None, mask: Any = None
    ) -> Tensor:
        """Last hidden states (B, T, width) of ids (B, T), right-padded unless masked."""
        if positions is None:
            positions = torch.arange(ids.shape[1], device=ids.device)[None]
        angle = positions[..., None].float() * self.frequency
        angle = torch.cat((angle, angle), -1)[:, :, None]
        x = self.embed_tokens(ids)
        turn = (angle.cos(), angle.sin())
        for place, layer in enumerate(self.layers):
            run = self.compiled[place] if self.training and self.compiled else layer
            x = run(x, turn, cache, mask)
        return self.norm(x)


class Model(nn.Module):
    """A generator (`score` is None) or a verifier."""

    def __init__(self, shape: Shape, *, verifier: bool = False) -> None:
        super().__init__()
        self.shape = shape
        self.model = _Backbone(shape)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
                if isinstance(module, nn.Linear) and module.bias is not None:
                    nn.init.zeros_(module.bias)
        self.score: nn.Sequential | None = None
        if verifier:
            width = shape.width
            self.score = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2))

    def forward(self, ids: Tensor) -> Tensor:
        """Logits (B, T, vocabulary), or (B, T, 2) of wrong and right, of right-padded ids."""
        hidden = self.model(ids)
        return self.head(hidden) if self.score is None else self.score(hidden)

    def head(self, hidden: Tensor) -> Tensor:
        """Logits of the next token; the weights are those of the embedding."""
        return functional.linear(hidden, self.model.embed_tokens.weight)

    def compile_layers(self) -> None:
        """Compile the layers for training; one compilation serves all of them."""
        self.model.compiled = [
            torch.compile(layer.forward, dynamic=True) for layer in self.model.layers
        ]

    @property
    def parameters_count(self) -> int:
        """How many weights there are; tied ones count once."""
        return sum(weight.numel() for weight in self.parameters())


class _Cache:
    """Keys and values of fixed length, filled from `at` on."""

    def __init__(self, model: Model, batch: int, length: int, device: str, dtype: Any) -> None:
        shape = model.shape
        size = (batch, shape.kv_heads, length, shape.width // shape.heads)
        attentions = [layer.self_attn for layer in model.model.layers]
        self.keys = {a: torch.zeros(size, device=device, dtype=dtype) for a in attentions}
        self.values = {a: torch.zeros(size, device=device, dtype=dtype) for a in attentions}
        self.at = torch.zeros(1, dtype=torch.long, device=device)

    def extended(self, attention: Any, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = self.keys[attention], self.values[attention]
        places = self.at + torch.arange(key.shape[2], device=key.device)
        keys.index_copy_(2, places, key.to(keys.dtype))
        values.index_copy_(2, places, value.to(values.dtype))
        return keys, values


@torch.inference_mode()
def sample(
    model: Model,
    prompts: Sequence[Sequence[int]],
    *,
    most: int,
    temperature: float = 1.0,
    at_once: int = 4096,
) -> list[list[int]]:
    """One sampled reply a prompt, in order: ids up to and without the end, `most` at most.

    Draws from torch's global generator, over the whole distribution (top_p 1).
    """
    device = next(model.parameters()).device.type
    if device == "cuda":
        model = _in_bfloat16(model)
    replies: list[list[int]] = []
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    for start in range(0, len(prompts), at_once):
        rows = [list(prompts[i]) for i in order[start : start + at_once]]
        replies += _Batch(model, rows, most, temperature, device).sampled()
    in_order: list[list[int]] = [[] for _ in prompts]
    for i, reply in zip(order, replies, strict=True):
        in_order[i] = reply
    return in_order


def _in_bfloat16(model: Model) -> Model:
    """A copy to sample with, as engines load it; positions stay in float32."""
    copied = Model(model.shape).to(next(model.parameters()).device)
    copied.load_state_dict(model.state_dict())
    frequency = copied.model.frequency.clone()
    copied = copied.bfloat16().eval()
    copied.model.frequency = frequency
    return copied


class _Batch:
    """Prompts that are continued together, one token a step, in tensors of fixed size."""

    def __init__(
        self, model: Model, rows: list[list[int]], most: int, temperature: float, device: str
    ) -> None:
        width, count = max(map(len, rows)), len(rows)
        dtype = next(model.parameters()).dtype
        self.model, self.most, self.temperature, self.device = model, most, temperature, device
        self.left = torch.tensor([width - len(row) for row in rows], device=device)
        self.cache = _Cache(model, count, width + most, device, dtype)
        self.places = torch.arange(width + most, device=device)[None]
        self.seen = self.places >= self.left[:, None]  # padding on the left is never attended
        self.output = torch.full((count, most), PAD, device=device)
        self.made = torch.zeros(1, dtype=torch.long, device=device)
        self.ended = torch.zeros(count, dtype=torch.bool, device=device)
        ids = torch.tensor([[PAD] * (width - len(row)) + row for row in rows], device=device)
        causal = self.places[:, :width, None] >= self.places[:, None]
        own = self.places[:, :width, None] == self.places[:, None]
        mask = (self.seen[:, None] & causal) | own
        positions = (self.places[:, :width] - self.left[:, None]).clamp(min=0)
        self.hidden = model.model(ids, positions, self.cache, mask[:, None])[:, -1:].clone()
        self.cache.at.fill_(width)

    def sampled(self) -> list[list[int]]:
        """The replies, without their ends."""
        step = self._step
        for turn in range(self.most):
            if turn == 4 and self.device == "cuda":
                step = self._recorded()
            step()
            if turn % 16 == 15 and bool(self.ended.all()):
                break
        rows = self.output.tolist()
        return [row[: row.index(EOS)] if EOS in row else row for row in rows]

    def _step(self) -> None:
        chances = (self.model.head(self.hidden).float()[:, 0] / self.temperature).softmax(-1)
        drawn = (chances / torch.empty_like(chances).exponential_()).argmax(-1)
        token = torch.where(self.ended, PAD, drawn)
        self.output.index_copy_(1, self.made, token[:, None])
        self.ended.logical_or_(token == EOS)
        mask = self.seen & (self.places <= self.cache.at)
        positions = (self.cache.at - self.left)[:, None]
        self.hidden.copy_(
            self.model.model(token[:, None], positions, self.cache, mask[:, None, None])
        )
        self.cache.at.add_(1)
        self.made.add_(1)

    def _recorded(self) -> Callable[[], None]:
        """The step as a CUDA graph: one launch in place of some hundred."""
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self._step()
        except RuntimeError as error:
            print(f"steps are not recorded: {error}"[:300], flush=True)
            return self._step
        return graph.replay


def save(model: Model, folder: Path) -> None:
    """Write bfloat16 weights, configuration and tokenizer, for vLLM and transformers to load."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        name: value.detach().to("cpu", torch.bfloat16).contiguous()
        for name, value in model.state_dict().items()
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config: dict[str, Any] = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "vocab_size": VOCABULARY_TOKENS,
        "hidden_size": model.shape.width,
        "intermediate_size": model.shape.feed_forward,
        "num_hidden_layers": model.shape.layers,
        "num_attention_heads": model.shape.heads,
        "num_key_value_heads": model.shape.kv_heads,
        "max_position_embeddings": CONTEXT_TOKENS,
        "max_window_layers": model.shape.layers,
        "layer_types": ["full_attention"] * model.shape.layers,
        "hidden_act": "silu",
        "rms_norm_eps": _EPSILON,
        "rope_parameters": {"rope_theta": _THETA, "rope_type": "default"},
        "tie_word_embeddings": True,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
        "dtype": "bfloat16",
        "torch_dtype": "bfloat16",
        "use_sliding_window": False,
    }
    if model.score is not None:
        config |= {
            "architectures": ["Qwen2ForProcessRewardModel"],
            "num_labels": 2,
            "step_token_id": STEP,
        }
    else:
        generation = {"bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD}
        _write_json(folder / "generation_config.json", generation)
    _write_json(folder / "config.json", config)
    save_tokenizer(folder, "generator" if model.score is None else "verifier")


def load(folder: Path, device: str = "cpu") -> Model:
    """The model of a folder, in float32 and evaluation mode."""
    from safetensors.torch import load_file

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    shape = Shape(
        layers=config["num_hidden_layers"],
        width=config["hidden_size"],
        heads=config["num_attention_heads"],
        kv_heads=config["num_key_value_heads"],
        feed_forward=config["intermediate_size"],
    )
    model = Model(shape, verifier="Reward" in config["architectures"][0])
    weights = load_file(folder / "model.safetensors")
    model.load_state_dict({name: value.float() for name, value in weights.items()})
    return model.to(device).eval()


def _turned(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary positions of x (B, T, heads, size)."""
    cosine, sine = (part.to(x.dtype) for part in turn)
    half = x.shape[-1] // 2
    return x * cosine + torch.cat((-x[..., half:], x[..., :half]), -1) * sine


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")
