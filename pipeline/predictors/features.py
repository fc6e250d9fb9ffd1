"""Features of questions under a frozen backbone, cached by backbone and prompt.

A cache folder holds one folder a backbone, revision and pooling, with Parquet parts of
``(digest, features)``; the digest is of the prompt's messages. Parts are only ever added, so heads
are fitted and applied again in seconds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.core.errors import DataError
from pipeline.core.prompts import Prompts
from pipeline.predictors.heads import Backbone
from pipeline.store.storage import Folder

SCHEMA = pa.schema(
    [
        pa.field("digest", pa.string(), nullable=False),
        pa.field("features", pa.list_(pa.float32()), nullable=False),
    ]
)


def messages_of(prompts: Prompts, text: str) -> str:
    """The messages that a question is first asked with, as JSON."""
    return json.dumps([asdict(message) for message in prompts.ask(text)], ensure_ascii=True)


def digest_of(messages: str) -> str:
    """SHA-256 (hex) of messages."""
    return hashlib.sha256(messages.encode()).hexdigest()


def template_digest(prompts: Prompts) -> str:
    """SHA-256 (hex) of what surrounds a question in its first prompt."""
    return digest_of(json.dumps([prompts.system, prompts.first], ensure_ascii=True))


@dataclass(frozen=True, slots=True)
class FeatureCache:
    """The cached features of one backbone under one pooling."""

    folder: Folder

    @classmethod
    def of(cls, address: str, backbone: Backbone, pooling: str) -> FeatureCache:
        """The part of a cache that holds this backbone's features; nothing is written."""
        key = [backbone.model, backbone.revision, pooling]
        if backbone.prompting:
            key.append(backbone.prompting)
        name = digest_of(json.dumps(key))[:16]
        return cls(Folder(address).child(name))

    def begin(self, backbone: Backbone, pooling: str) -> None:
        """Write down whose features are here, before the first of them."""
        if not self.folder.has("backbone.json"):
            self.folder.write_json("backbone.json", {**asdict(backbone), "pooling": pooling})

    def read(self, digests: Iterable[str]) -> dict[str, NDArray[np.float32]]:
        """Features by digest, of those that are there.

        A part that is torn, or that somebody is just writing, is none: its features are made anew.

        Raises:
            DataError: naming a part whose features are no numbers.
        """
        wanted = set(digests)
        found: dict[str, NDArray[np.float32]] = {}
        for name in self.folder.names():
            if not name.endswith(".parquet"):
                continue
            try:
                table = self.folder.read_table(name)
            except DataError:
                continue
            for digest, features in zip(table["digest"], table["features"], strict=True):
                if digest.as_py() in wanted and digest.as_py() not in found:
                    values = np.asarray(features.values, dtype=np.float32)
                    if not np.all(np.isfinite(values)):
                        raise DataError(
                            f"features must be finite, got others in {self.folder.address}/{name}"
                        )
                    found[digest.as_py()] = values
        return found


def table_of(digests: list[str], features: NDArray[Any]) -> pa.Table:
    """Rows of a cache."""
    rows = list(np.asarray(features, dtype=np.float32))
    return pa.table({"digest": digests, "features": rows}, schema=SCHEMA)
