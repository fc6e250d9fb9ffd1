"""Random verifiers of the architectures in use, small enough to load in seconds, with a tokenizer.

Heads of 32 dimensions are the smallest that vLLM's attention takes on a CPU. Weights are large, so
that scores spread over [0, 1].
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conftest import ROOT

TAGS = ("ки", "\n", "<|im_end|>", "Yes", "No", "<bos>")
CHAT = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
SIZES: dict[str, Any] = {
    "hidden_size": 128,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "initializer_range": 0.3,
}


def tokenizer() -> Any:
    """The tiny models' tokenizer, which knows characters, with tags and words besides."""
    from transformers import AutoTokenizer

    made = AutoTokenizer.from_pretrained(ROOT / "models" / "tiny-generator")
    made.add_tokens([tag for tag in TAGS if len(made.encode(tag, add_special_tokens=False)) != 1])
    made.chat_template = CHAT
    made.bos_token = "<bos>"
    return made


def save(folder: Path, architecture: str, **fields: Any) -> Any:
    """A random model in `folder` with its tokenizer; returned as transformers runs it.

    ``Qwen2ForPrmModel`` is Qwen2 with a value head, as Skywork-o1-PRM is stored.
    """
    import torch
    import transformers
    from safetensors.torch import save_file

    made = tokenizer()
    own = architecture.replace("ForPrmModel", "Model")
    kind = getattr(transformers, own)
    config = kind.config_class(vocab_size=len(made), **SIZES, **fields)
    torch.manual_seed(0)
    model = kind(config).float().eval()
    model.save_pretrained(folder)
    made.save_pretrained(folder)
    if own != architecture:
        model.v_head = torch.nn.Linear(config.hidden_size, 1)
        weights = {f"model.{n}": w for n, w in model.state_dict().items() if "v_head" not in n}
        head = {f"v_head.summary.{n}": w for n, w in model.v_head.state_dict().items()}
        save_file({**weights, **head}, folder / "model.safetensors", {"format": "pt"})
        told = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**told, "architectures": [architecture]}))
    return model
