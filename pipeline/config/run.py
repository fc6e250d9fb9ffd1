"""A whole run's configuration: one YAML file, with any field overridden by name."""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from pydantic import Field, ValidationError

from pipeline.config.collection import is_further_chain
from pipeline.config.errors import described
from pipeline.config.runtime import RuntimeConfig
from pipeline.config.schema import Section, former_fields
from pipeline.config.science import ScienceConfig
from pipeline.config.strategies import (
    POOL_OF,
    check_own_rules,
    former_of,
    require_same_decisions,
    strategies_of,
)
from pipeline.core.decoding import Sampling
from pipeline.core.errors import ConfigError
from pipeline.store.local import read_fields, read_yaml

_EXTENDABLE = ("benchmarks",)
_LATER: dict[str, dict[str, Any]] = {
    "decoding": {field.name: field.default for field in fields(Sampling)},
    "generator": {
        "reasoning": None,
        "chat_template_kwargs": {},
        "extra_body": {},
        "logprobs": False,
        "stop_flag": None,
    },
    "verifier": {"kind": "qwen_prm", "profile": None},
}
"""Fields that came after the first runs, by section, with their defaults: no part of the digest
where they are at them, so that the digests of those runs stay as they were."""


class RunConfig(Section):
    """Everything that a run needs to know."""

    name: str = Field("run", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    """Start of the run directory's name."""
    science: ScienceConfig
    runtime: RuntimeConfig = RuntimeConfig()
    _former: tuple[str, ...] = ()

    @classmethod
    def load(cls, path: str, overrides: Sequence[str] = ()) -> RunConfig:
        """Read a YAML file and apply ``dotted.field=value`` overrides, values being YAML.

        Raises:
            ConfigError: naming the field, what must hold and what came.
        """
        return cls.parse(cls.read(path, overrides), path)

    @staticmethod
    def read(path: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
        """The values of a YAML file over what it extends, with overrides; not checked yet."""
        values = read_extended(path)
        for override in overrides:
            override_field(values, override)
        return values

    @classmethod
    def parse(cls, values: dict[str, Any], where: str = "", *, recorded: bool = False) -> RunConfig:
        """Check a configuration that was already read; also builds its strategies once.

        Args:
            where: file or run folder that the values are of, for the message.
            recorded: whether a run has been made of it: its own answer rules are not imported,
                and it may have decided otherwise than strategies do now.
        """
        if "strategies" in values and "science" not in values:
            raise ConfigError(f"{where or 'this'} is the file of a sweep: give it to jobs.sweep")
        try:
            config = cls.model_validate(values)
            config._former = (*former_fields(config, values), *former_of(config.science))
            strategies_of(config.science)
            if not recorded:
                require_same_decisions(config.science)
                check_own_rules(config.science)
            config._check_endpoint()
        except (ValidationError, ConfigError) as error:
            text = described(error, root=cls) if isinstance(error, ValidationError) else str(error)
            sign = "\n" if "\n" in text else "; "
            raise ConfigError(f"{text}{sign}in {place_of(where)}" if where else text) from error
        return config

    def _check_endpoint(self) -> None:
        self._check_judge()
        generator, endpoint = self.science.generator, self.runtime.generator.endpoint
        if endpoint is None and generator.extra_body:
            raise ConfigError(
                "science.generator.extra_body must come with runtime.generator.endpoint"
            )
        if endpoint is not None and generator.chat_template is not None:
            raise ConfigError(
                "science.generator.chat_template must be given to the server itself "
                "(vllm serve --chat-template) where runtime.generator.endpoint is set"
            )

    def _check_judge(self) -> None:
        """A judge where one is configured, behind an endpoint, and a checker for feedback."""
        science, runtime = self.science, self.runtime
        graders = {source.name: source.graded_by for source in science.benchmarks}
        shows = any(s.prompts.shows_feedback for s in strategies_of(science).values())
        judged = [name for name, grader in graders.items() if grader.kind == "judge"]
        if judged and science.judge is None:
            raise ConfigError(f"science.judge must be given: benchmark {judged[0]} is graded by it")
        if science.judge and runtime.judge.endpoint is None and runtime.scripted is None:
            raise ConfigError("science.judge must come with runtime.judge.endpoint")
        for name, grader in graders.items():
            if shows and not grader.gives_feedback:
                raise ConfigError(
                    "science.prompts.revise must not hold {feedback} where nothing gives it: name "
                    f"a grader of {name} with kind command or judge, or with check"
                )

    def science_digest(self) -> str:
        """SHA-256 (hex) of the science part, without what a resume may extend."""
        return hashlib.sha256(_canonical(_fixed_science(self)).encode()).hexdigest()

    def warnings(self) -> tuple[str, ...]:
        """What of the configuration has no effect."""
        generator, extra = self.science.generator, self.runtime.generator.engine.extra
        named = generator.reasoning or extra.keys() & {"reasoning_parser", "reasoning_config"}
        found = [f"{name} is ignored: it is no field any more" for name in self._former]
        if self.science.decoding.thinking_budget is not None and not named:
            found.append(
                "science.decoding.thinking_budget will be ignored: vLLM does not know what ends "
                "the thinking; name it in science.generator.reasoning, or set reasoning_parser in "
                "runtime.generator.engine.extra"
            )
        here = self.science.origin()
        for label, strategy in strategies_of(self.science).items():
            for name in ("weights", "calibration"):
                origin = getattr(getattr(strategy, name, None), "origin", None)
                if origin is not None and (differing := origin.differing(here)):
                    found.append(
                        f"{name} of {label} should be fitted on completions like this run's, got "
                        f"another {'; another '.join(differing)}: fit it again on a pool of its own"
                    )
        compiled = extra.get("compilation_config")
        if isinstance(compiled, dict) and str(compiled.get("cudagraph_mode")).upper() == "FULL":
            found.append(
                "runtime.generator.engine.extra asks for cudagraph_mode FULL, with which vLLM 0.26 "
                "wrote completions of other lengths on an H200 (docs/performance.md): compare a "
                "few hundred with those of its default before results rest on it"
            )
        return tuple(found)

    def differing_science(self, other: RunConfig) -> list[str]:
        """Dotted names of science fields that differ, ``ours -> theirs`` beside them."""
        ours, theirs = _flat(_fixed_science(self)), _flat(_fixed_science(other))
        names = sorted(n for n in ours.keys() | theirs.keys() if ours.get(n) != theirs.get(n))
        return [f"science.{n}: {ours.get(n)!r} -> {theirs.get(n)!r}" for n in names]


def override_field(values: dict[str, Any], override: str) -> None:
    """Set one dotted field of a configuration before it is checked; list items by number."""
    name, sign, text = override.partition("=")
    if not sign or not name:
        raise ConfigError(f"--set must be field.name=value, got {override!r}")
    try:
        value = read_yaml(text)
    except ValueError as error:
        raise ConfigError(
            f"the value of --set {name} must be YAML, got {text!r}: {error}"
        ) from error
    *parents, last = name.split(".")
    place: Any = values
    for depth, parent in enumerate(parents, start=1):
        key: Any = _key(place, parent, name)
        held = place.get(key) if isinstance(place, dict) else place[key]
        if held is None:
            held = place[key] = {}
        if not isinstance(held, dict | list):
            raise ConfigError(
                f"--set {name}: {'.'.join(parents[:depth])} must be a section or a list, "
                f"got {held!r}; set it whole"
            )
        place = held
    place[_key(place, last, name)] = value


def _key(place: Any, part: str, name: str) -> str | int:
    """Of a section, or of a list."""
    if isinstance(place, dict):
        return part
    if not part.isdecimal() or int(part) >= len(place):
        raise ConfigError(
            f"--set {name}: {part!r} must be the number of one of {len(place)} list items"
        )
    return int(part)


def _fixed_science(config: RunConfig) -> dict[str, Any]:
    science = config.science.model_dump(mode="json")
    entries = science["strategies"]
    science["strategies"] = [entry for entry in entries if not is_further_chain(entry)]
    for entry in science["strategies"]:
        if entry["kind"] in POOL_OF:
            entry["fields"].pop("n", None)  # how deep a pool is
    if science["priors"]["predictor"] is None:  # nothing reads it then, and its default changed
        science["priors"]["transitions"] = "average"
    for section, later in _LATER.items():
        for name, default in later.items():
            if science[section] is not None and science[section][name] == default:
                del science[section][name]
    for role in ("generator", "verifier"):
        if science[role] is not None and science[role].get("shape") is not None:
            science[role]["shape"].pop("of", None)
    for name in ("answer_rules", "judge"):  # they came later too
        if not science[name]:
            del science[name]
    return {name: value for name, value in science.items() if name not in _EXTENDABLE}


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, dict) and value:
        return {
            k: v for name, item in value.items() for k, v in _flat(item, f"{prefix}{name}.").items()
        }
    if isinstance(value, list) and value:
        pairs = enumerate(value)
        return {
            k: v for number, item in pairs for k, v in _flat(item, f"{prefix}{number}.").items()
        }
    return {prefix.rstrip("."): value}


def read_extended(path: str) -> dict[str, Any]:
    """Returns the fields of a YAML file, merged over those of the file that it extends.

    ``extends`` names a file relative to the folder of `path`; that file may extend another one.
    Mappings merge field by field; lists and single values, null among them, replace.

    Raises:
        ConfigError: naming file and key, also where files extend each other in a circle.
    """
    values, seen, what = read_fields(path, "a configuration"), [path], path
    while "extends" in values:
        name = values.pop("extends")
        if not isinstance(name, str) or not name:
            raise ConfigError(f"extends in {what} must name a file, got {name!r}")
        place = posixpath.normpath(_relative(what, name))
        if place in map(posixpath.normpath, seen):
            raise ConfigError(f"extends must not form a circle, got {' -> '.join([*seen, place])}")
        values = merged(read_fields(place, f"the file that {what} extends"), values)
        seen.append(place)
        what = place
    return values


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` put over `base`: mappings field by field, all else whole."""
    found = dict(base)
    for name, value in over.items():
        before = base.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            value = merged(before, value)
        found[name] = value
    return found


def place_of(where: str) -> str:
    """Returns the places that fields were read from, for error messages."""
    try:
        name = read_fields(where, "a configuration").get("extends")
    except ConfigError:  # a run's folder
        return where
    return where if name is None else f"{where}, which extends {_relative(where, name)}"


def _relative(path: str, name: str) -> str:
    return posixpath.join(posixpath.dirname(path), name)
