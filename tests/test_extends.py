"""A configuration that extends another file is that file with what it says itself put over it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config.run import RunConfig, read_extended
from pipeline.core.errors import ConfigError

ROOT = Path(__file__).parents[1]
DIGESTS = json.loads((Path(__file__).parent / "data" / "config_digests.json").read_text())
"""Of the paper's configurations as commit 387e40f resolved them, defaults left out; AIME on four
nodes with the wider generators that it has since."""

LEAVES = st.none() | st.integers(0, 3) | st.lists(st.integers(0, 3), max_size=2)
FIELDS = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(LEAVES, lambda inner: st.dictionaries(st.sampled_from("abc"), inner, min_size=1)),
)
"""Sections of sections; an inner section holds something."""


@pytest.mark.parametrize("name", DIGESTS)
def test_shipped_configurations_keep_their_science(name: str) -> None:
    """A run that began with an earlier version of the file can be resumed."""
    config = RunConfig.load(str(ROOT / "configs" / name))

    assert config.science_digest()[:16] == DIGESTS[name]


def flat(value: Any, place: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Every value that is no filled section, by its place."""
    if isinstance(value, dict) and value:
        return {k: v for name, item in value.items() for k, v in flat(item, (*place, name)).items()}
    return {place: value}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for examples, one after the other."""
    return tmp_path_factory.mktemp("extends")


@given(base=FIELDS, over=FIELDS)
def test_sections_merge_and_all_else_replaces(
    folder: Path, base: dict[str, Any], over: dict[str, Any]
) -> None:
    """Every value of the overlay is there; of the base's, those that no value of the overlay stands
    over or beneath; and nothing else."""
    write(folder / "base.yaml", base)
    write(folder / "over.yaml", {"extends": "base.yaml", **over})
    found = {k: v for k, v in flat(read_extended(str(folder / "over.yaml"))).items() if v != {}}
    above = {k: v for k, v in flat(over).items() if v != {}}

    def hidden(place: tuple[str, ...]) -> bool:
        return any(place[: len(k)] == k or k[: len(place)] == place for k in above)

    below = {k: v for k, v in flat(base).items() if v != {} and not hidden(k)}
    assert found == above | below


def write(path: Path, values: dict[str, Any]) -> str:
    """A YAML file; returns its path."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(values))
    return str(path)


BASE = {
    "science": {
        "benchmarks": [{"name": "arithmetic", "size": 4}],
        "strategies": ["base"],
        "strategy": {"n": 4},
        "generator": {"model": "none"},
    }
}


def test_the_base_is_found_beside_the_file_and_overrides_come_last(tmp_path: Path) -> None:
    """`extends` is relative to the file that has it, from whatever folder the job is started."""
    write(tmp_path / "base" / "b.yaml", BASE)
    path = write(tmp_path / "a.yaml", {"extends": "base/b.yaml", "science": {"strategy": {"n": 5}}})
    again = write(tmp_path / "base" / "c.yaml", {"extends": "b.yaml", "name": "c"})

    assert RunConfig.load(path).science.strategy == {"n": 5}
    assert RunConfig.load(path, ["science.strategy.n=6"]).science.strategy == {"n": 6}
    assert RunConfig.load(again).science == RunConfig.parse(BASE).science


@pytest.mark.parametrize(
    ("base", "over", "message"),
    [
        (BASE, {"extends": ["base.yaml"]}, r"extends in .*over.yaml must name a file, got \['base"),
        (
            BASE,
            {"extends": "none.yaml"},
            r"the file that .*over.yaml extends must be a readable",
        ),
        (
            {**BASE, "extends": "over.yaml"},
            {"extends": "base.yaml"},
            r"must not form a circle, got .*over.yaml -> .*base.yaml -> .*over.yaml",
        ),
        (
            {**BASE, "naem": "x"},
            {"extends": "base.yaml"},
            r"^naem is not a field of this section.*; in .*over.yaml, which extends .*base.yaml$",
        ),
        (
            BASE,
            {"extends": "base.yaml", "science": {"strategy": {"tua": 1}}},
            r"^science.strategy.tua must be a field of .*; in .*over.yaml, which extends .*$",
        ),
    ],
)
def test_faults_are_named_with_file_and_key(
    tmp_path: Path, base: dict[str, Any], over: dict[str, Any], message: str
) -> None:
    """Whatever is wrong, and in whichever of the two files."""
    write(tmp_path / "base.yaml", base)

    with pytest.raises(ConfigError, match=message):
        RunConfig.load(write(tmp_path / "over.yaml", over))
