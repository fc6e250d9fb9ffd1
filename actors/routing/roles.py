"""The roles that models play in a run, as data: each a kind of call, and who serves it.

A role's name is that of its pool section (``runtime.<role>``) and of its model section
(``science.<role>``). Hosts, clients, admission and metrics go through this table; none of them
knows a role by name but ``generator``, whose KV cache bounds how many chains are at work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from actors.routing.calls import Call, GenerateCall, ScoreCall
from pipeline.config.runtime import RequestConfig

GENERATOR, VERIFIER = "generator", "verifier"


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A kind of model call and the engines that serve it."""

    call: type[Call[Any]]
    deadline_s: Callable[[RequestConfig], float]
    """Which setting limits one try."""
    engine: str
    """``module:class``, made with the fields of its model and of its `PoolConfig`
    (`actors.engines.engine_host.Engine`); imported in the replica alone."""
    scripted: str
    """``module:class`` of the scripted engine, made with ``runtime.scripted``."""


ROLES = {
    GENERATOR: Role(
        call=GenerateCall,
        deadline_s=lambda requests: requests.deadline_s,
        engine="actors.engines.generator:GeneratorEngine",
        scripted="actors.engines.scripted:ScriptedGenerator",
    ),
    VERIFIER: Role(
        call=ScoreCall,
        deadline_s=lambda requests: requests.score_deadline_s,
        engine="actors.engines.verifier:VerifierEngine",
        scripted="actors.engines.scripted:ScriptedVerifier",
    ),
}
"""By name, in the order in which pools are started."""
