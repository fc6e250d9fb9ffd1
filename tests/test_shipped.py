"""What comes with the project is found from any folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.records.questions import read_priors
from pipeline.store.local import shipped_path
from tests.conftest import ROOT

PRIORS = "models/tiny-generator/priors.json"


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_files_and_folders_of_the_project_are_found_from_anywhere() -> None:
    """A worker's working directory is not the project's; ids of a hub stay as they are."""
    assert shipped_path("configs") == str(ROOT / "configs")
    assert shipped_path("Qwen/Qwen2.5-Math-PRM-7B") == "Qwen/Qwen2.5-Math-PRM-7B"
    assert set(read_priors(PRIORS)[None, None]) == {"a", "b"}


def test_what_is_there_goes_first(tmp_path: Path) -> None:
    """A user's own file of that name is theirs."""
    (tmp_path / PRIORS).parent.mkdir(parents=True)
    (tmp_path / PRIORS).write_text('{"a": 0.5, "b": 0.25}')

    assert shipped_path(PRIORS) == PRIORS
    assert read_priors(PRIORS) == {(None, None): {"a": 0.5, "b": 0.25}}
