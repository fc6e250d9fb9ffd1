"""*Origin*: records what weights, calibrations, predictors and priors were fitted on.

It is stored with the numbers, so that a run recognises questions of the fit in any file, and
names another model, prompt or decoding.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

_DIGITS = 12


def text_digest(text: str) -> str:
    """The first 12 hex digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def value_digest(value: Any) -> str:
    """The same of a JSON value, its keys in order."""
    return text_digest(json.dumps(value, sort_keys=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where numbers come from; a field is empty where that was not recorded."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    model: str = ""
    """Generator and its revision."""
    verifier: str = ""
    """Verifier and its revision."""
    prompts: str = ""
    """Digest of the prompts."""
    decoding: str = ""
    """Digest of how the model samples."""
    questions: tuple[str, ...] = ()
    """Digests of the questions' texts, sorted."""

    @classmethod
    def parse(cls, values: Any) -> Origin | None:
        """The origin in a JSON file; None where there is none."""
        if not isinstance(values, Mapping):
            return None
        text = {name: str(values.get(name, "")) for name in _COMPARED}
        return cls(**text, questions=tuple(map(str, values.get("questions", ()))))

    def differing(self, here: Origin) -> list[str]:
        """What is known of both and differs, in words."""
        found = []
        for name in _COMPARED:
            ours, theirs = getattr(self, name), getattr(here, name)
            if ours and theirs and ours != theirs:
                found.append(f"{name} {ours}, here {theirs}")
        return found

    def shared(self, texts: Collection[str]) -> int:
        """How many of these texts they were fitted on."""
        known = set(self.questions)
        return sum(text_digest(text) in known for text in texts)


_COMPARED = ("model", "verifier", "prompts", "decoding")
