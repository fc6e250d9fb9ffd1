"""Copy models from shared storage to a node's own disk, once a node, for every process on it.

    python deploy/model_cache.py --from s3://bucket/models --to /mnt/model-cache/huggingface
    python deploy/model_cache.py --from /mnt/markovscale/models --to $HF_HOME Qwen/QwQ-32B

Reads ``FROM/<organisation>/<name>/`` folders as ``hf download --local-dir`` leaves them. Writes
them into a Hugging Face cache, so that with HF_HOME pointing there models are found by their usual
ids, without the hub. A second call, or one at the same time, copies nothing twice: a lock file
makes it wait, and the reference that names a finished copy is written last.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlparse

import pyarrow.fs as pafs

logger = logging.getLogger("model_cache")


def main(argv: list[str] | None = None) -> int:
    """Copy the models that are named, or all that the source holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--from", dest="source", required=True, help="folder, s3:// or gs://")
    parser.add_argument("--to", dest="home", type=Path, required=True, help="HF_HOME of the node")
    parser.add_argument("models", nargs="*", help="ids, such as Qwen/QwQ-32B; none means all")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    fs, base = located(arguments.source)
    found = models_in(fs, base)
    missing = sorted(set(arguments.models) - set(found))
    if missing:
        logger.error("error: %s must hold %s, it has %s", arguments.source, missing, found)
        return 2
    for model in arguments.models or found:
        copied = cached(fs, f"{base}/{model}", model, arguments.home)
        logger.info("%s: %s", model, "copied" if copied else "already there")
    return 0


def located(address: str) -> tuple[pafs.FileSystem, str]:
    """The file system of an address, and the path on it without a slash at the end."""
    if urlparse(address).scheme in ("", "file"):
        return pafs.LocalFileSystem(), str(Path(address.removeprefix("file://")).resolve())
    fs, path = pafs.FileSystem.from_uri(address)
    return fs, path.rstrip("/")


def models_in(fs: pafs.FileSystem, base: str) -> list[str]:
    """Ids of the models below a folder: those that have a config.json; none where there is none."""
    infos = fs.get_file_info(pafs.FileSelector(base, recursive=True, allow_not_found=True))
    configs = (info.path for info in infos if info.base_name == "config.json")
    below = (path.removeprefix(f"{base}/").split("/") for path in configs)
    return sorted("/".join(parts[:2]) for parts in below if len(parts) == 3)


def cached(fs: pafs.FileSystem, source: str, model: str, home: Path) -> bool:
    """Whether a model had to be copied; waits while another process of the node copies it."""
    hub = home / "hub"
    target = hub / f"models--{model.replace('/', '--')}"
    files = [
        info
        for info in fs.get_file_info(pafs.FileSelector(source, recursive=True))
        if info.type == pafs.FileType.File
    ]
    listing = "".join(sorted(f"{info.path}\0{info.size}\0{info.mtime}\n" for info in files))
    revision = hashlib.sha1(listing.encode(), usedforsecurity=False).hexdigest()
    reference = target / "refs" / "main"
    with _locked(hub / ".locks" / f"{target.name}.model-cache"):
        if reference.is_file() and reference.read_text() == revision:
            return False
        snapshot = target / "snapshots" / revision
        for info in files:
            place = snapshot / info.path.removeprefix(f"{source}/")
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.is_file() or place.stat().st_size != info.size:
                pafs.copy_files(info.path, str(place), fs, pafs.LocalFileSystem())
        reference.parent.mkdir(parents=True, exist_ok=True)
        reference.write_text(revision)
    return True


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed, by a crash as well
        yield


if __name__ == "__main__":
    sys.exit(main())
