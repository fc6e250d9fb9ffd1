"""*Local files*: reads text, YAML fields, CSV rows and package data."""

from __future__ import annotations

import csv
import math
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from pipeline.core.errors import ConfigError


def read_fields(path: str, what: str) -> dict[str, Any]:
    """The fields of a YAML file.

    Args:
        path: of the file.
        what: it is, for the message: "a configuration".

    Raises:
        ConfigError: where it cannot be read, is no YAML, or holds no fields.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # no UTF-8, or no path
        where = "" if isinstance(error, OSError) else f" in {path!r}"
        raise ConfigError(f"{what} must be a readable YAML file, got {error}{where}") from error
    try:
        values = read_yaml(text)
    except ValueError as error:
        raise ConfigError(f"{path} must be YAML: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path} must hold fields, got {type(values).__name__}")
    return values


def read_csv_rows(folder: str, name: str) -> list[dict[str, str]]:
    """Rows of ``name`` in `folder` by column; [] where there is no such file."""
    path = Path(folder) / name
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def is_file(path: str) -> bool:
    """Whether there is a local file of that name."""
    return Path(path).is_file()


def read_text(path: str) -> str:
    """A UTF-8 file whole; OSError and UnicodeDecodeError as they come."""
    return Path(path).read_text(encoding="utf-8")


def package_text(package: str, *names: str) -> str:
    """A text file that lies in a package of ours."""
    return files(package).joinpath(*names).read_text(encoding="utf-8")


PROJECT = Path(__file__).resolve().parents[2]
"""The checkout; of an installed wheel the package `markovscale`."""

INSTALLED = __name__.startswith("markovscale.")
"""Whether this is an installed wheel (deploy/wheel.py), not a checkout."""


_FOLDERS = ("configs", "data", "models")


def shipped_path(path: str) -> str:
    """`path`, or what ships with the project under that name where nothing is at `path`:
    ``models/tiny-generator`` and ``data/pools/sums`` are found from every working directory."""
    if path.split("/")[0] not in _FOLDERS or Path(path).exists():
        return path
    own = PROJECT / path
    return str(own) if own.exists() else path


_MOST = 100_000
_LONGEST = 200_000
_LARGEST = 2**63 - 1
_DEEPEST = 100
_INT = "tag:yaml.org,2002:int"
_PLAIN = (str, int, float, type(None))  # a bool is an int


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader without the surprises of YAML 1.1.

    Refuses what it takes for something else than it looks: a key that stands twice (the last one
    would win), ``0400`` (256), ``4:16`` (256), ``.inf``, ``.nan``. A date stays text. An anchor's
    value is copied to each place that names it, so that changing one changes no other.
    """

    def compose_mapping_node(self, anchor: Any) -> Any:
        """See `yaml.composer.Composer`."""
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # no text: refused below
            if key.value in seen:
                raise _refusal(f"a key must stand once in a section, got {key.value} twice", key)
            seen.add(key.value)
        return node

    def construct_yaml_int(self, node: Any) -> int:
        """Decimal, ``0x`` and ``0b`` only."""
        text = node.value.replace("_", "")
        if ":" in text or re.match(r"[-+]?0[0-9]", text):
            raise _refusal(
                f"a number must be decimal, got {node.value}; in quotes it is text", node
            )
        value = super().construct_yaml_int(node)
        if abs(value) > _LARGEST:
            raise _refusal("a whole number must have at most 64 bits; in quotes it is text", node)
        return value

    def construct_yaml_float(self, node: Any) -> float:
        """Finite and decimal only."""
        value = math.inf if ":" in node.value else super().construct_yaml_float(node)
        if not math.isfinite(value):
            raise _refusal(
                f"a number must be finite and decimal, got {node.value}; in quotes it is text", node
            )
        return value


_Loader.add_constructor(_INT, _Loader.construct_yaml_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_yaml_float)
_Loader.yaml_implicit_resolvers = {
    first: [found for found in resolvers if found[0] != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")  # 0900 as well
_Loader.add_implicit_resolver(_INT, _LEADING_ZERO, list("-+0"))


class _Dumper(yaml.SafeDumper):
    """Quotes text that `_Loader` would take for a number."""


_Dumper.add_implicit_resolver(_INT, _LEADING_ZERO, list("-+0"))


def read_yaml(text: str) -> Any:
    """The value of a YAML text: None, numbers, text, lists, and sections with keys of text.

    Raises:
        ValueError: one line that says what must hold, what came, and in which line of several.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"it must have at most {_LONGEST:,} characters, got {len(text):,}")
    try:
        return _own(_Loader(text).get_single_data(), 0, [0])
    except yaml.MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        where = f" in line {place.line + 1}" if place and "\n" in text.strip() else ""
        raise ValueError(f"{error.problem or error.context}{where}") from error
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    except RecursionError as error:
        raise ValueError(f"sections must not be over {_DEEPEST} deep") from error
    except (AttributeError, LookupError, TypeError) as error:  # PyYAML, at a tag that does not fit
        raise ValueError("a tag must fit its value; leave it out") from error
    except OverflowError as error:
        raise ValueError("an escape must be a character's, up to \\U0010ffff") from error


def write_yaml(value: Any) -> str:
    """The YAML text of plain values, in their order; `read_yaml` gives them back."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))


def _refusal(problem: str, node: Any) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def _own(value: Any, depth: int, count: list[int]) -> Any:
    """A copy in which no list and no section stands in two places."""
    count[0] += 1
    if count[0] > _MOST or depth > _DEEPEST:
        raise ValueError(f"it must hold at most {_MOST:,} values, {_DEEPEST} deep, with anchors")
    if isinstance(value, list):
        return [_own(item, depth + 1, count) for item in value]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"a key must be text, got {key!r}; put it in quotes")
        return {key: _own(item, depth + 1, count) for key, item in value.items()}
    if not isinstance(value, _PLAIN):
        raise ValueError(f"a value must be text, a number, a list or a section, got {value!r}")
    return value
