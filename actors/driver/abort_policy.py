"""The rules that abort a run: journal not writable, no progress, too many failures."""

from __future__ import annotations

from typing import Any

from pipeline.config.runtime import RuntimeConfig
from pipeline.core.errors import MarkovScaleError


class RunFailedError(MarkovScaleError, RuntimeError):
    """The run was ended because going on would only cost."""


class AbortPolicy:
    """Judges a run by the totals of its run monitor.

    Args:
        runtime: its limits.
        address: of the run directory, for the message.
    """

    def __init__(self, runtime: RuntimeConfig, address: str) -> None:
        self._runtime = runtime
        self._resume = f"resume with --resume {address}"

    def reason(self, totals: dict[str, Any], seconds: float) -> RunFailedError | None:
        """Why the run must end now: its journal cannot be written, nothing moves, or all fails.

        Args:
            totals: of the run's monitor.
            seconds: since the phase began; before that engines loaded, or the driver counted.
        """
        if totals["fatal"] is not None:
            return RunFailedError(f"{totals['fatal']}; {self._resume}")
        idle_s = min(totals["idle_s"], seconds)
        if idle_s > self._runtime.no_progress_timeout_s:
            return RunFailedError(
                f"a round must end every {self._runtime.no_progress_timeout_s:g} s, none did for "
                f"{idle_s:.0f} s; {self._resume}"
            )
        return self.failures(totals, least=self._runtime.min_questions_before_giving_up)

    def failures(self, totals: dict[str, Any], *, least: int) -> RunFailedError | None:
        """Why the run must end, where too many of at least `least` finished questions failed."""
        share = self._runtime.max_failed_share
        finished, failed = sum(totals["stops"].values()), totals["stops"].get("failed", 0)
        if finished < least or failed <= share * finished:
            return None
        return RunFailedError(
            f"failed questions must be at most {share:.0%} of those finished, got {failed} of "
            f"{finished}, the last with: {totals['last_error']}; once that is mended, "
            f"{self._resume} --retry-failed"
        )
