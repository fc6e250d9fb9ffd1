"""The cache of weights: once a node, under the models' usual ids, without a hub."""

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("model_cache", "deploy/model_cache.py")
model_cache = importlib.util.module_from_spec(spec)
spec.loader.exec_module(model_cache)


@pytest.fixture
def models(tmp_path):
    """A shared folder with one small model."""
    folder = tmp_path / "models" / "org" / "tiny"
    (folder / "extra").mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "qwen2", "hidden_size": 64}')
    (folder / "model.safetensors").write_bytes(b"w" * 100_000)
    (folder / "extra" / "notes.txt").write_text("n")
    return tmp_path / "models"


def copy(models, home, *names):
    return model_cache.main(["--from", str(models), "--to", str(home), *names])


def test_a_model_is_found_by_its_id_without_a_hub(models, tmp_path):
    """What was copied is what the hub's own client finds offline."""
    assert copy(models, tmp_path / "home") == 0
    code = "import huggingface_hub as h; print(h.snapshot_download('org/tiny'))"
    env = os.environ | {"HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    found = Path(done.stdout.strip())

    assert sorted(str(p.relative_to(found)) for p in found.rglob("*") if p.is_file()) == [
        "config.json",
        "extra/notes.txt",
        "model.safetensors",
    ]
    assert (found / "model.safetensors").read_bytes() == b"w" * 100_000


def test_a_second_call_copies_nothing(models, tmp_path):
    """A finished copy is left alone; a changed source is copied under a new revision."""
    fs, base = model_cache.located(str(models))
    arguments = (fs, f"{base}/org/tiny", "org/tiny", tmp_path / "home")

    assert [model_cache.cached(*arguments) for _ in range(2)] == [True, False]
    (models / "org" / "tiny" / "config.json").write_text("{}")
    assert model_cache.cached(*arguments) is True


def test_a_copy_that_was_cut_is_not_taken_for_whole(models, tmp_path):
    """The reference is written last: without it, and with half a file, the copy is finished."""
    copy(models, tmp_path / "home")
    cached = tmp_path / "home" / "hub" / "models--org--tiny"
    revision = (cached / "refs" / "main").read_text()
    weights = cached / "snapshots" / revision / "model.safetensors"
    (cached / "refs" / "main").unlink()
    weights.write_bytes(b"w" * 10)

    assert copy(models, tmp_path / "home") == 0
    assert weights.stat().st_size == 100_000


def test_processes_of_a_node_wait_for_the_one_that_copies(models, tmp_path):
    """While the lock is held a second process waits, and then finds the copy made."""
    home = tmp_path / "home"
    lock = home / "hub" / ".locks" / "models--org--tiny.model-cache"
    command = [sys.executable, "deploy/model_cache.py", "--from", str(models), "--to", str(home)]
    with model_cache._locked(lock):
        waiting = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        time.sleep(1.5)
        assert waiting.poll() is None
    _, said = waiting.communicate(timeout=30)

    assert waiting.returncode == 0
    assert "org/tiny: copied" in said


def test_a_missing_model_is_named(models, tmp_path, caplog):
    """Status 2, what must be there and what is."""
    assert copy(models, tmp_path / "home", "org/absent") == 2
    assert "must hold ['org/absent'], it has ['org/tiny']" in caplog.text
