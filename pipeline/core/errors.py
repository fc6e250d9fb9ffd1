"""Exceptions of the project, by whose fault they are.

Messages say what must hold, what came and where: ``tau must be in (0, 1], got 1.5``.
No class adds an ``__init__``: an exception must survive pickling between processes.
"""

from enum import StrEnum


class ErrorKind(StrEnum):
    """Why a model call failed: what a `Failure`'s text begins with, in journals as well."""

    BAD_REQUEST = "bad_request"
    """The request itself is at fault."""
    DEADLINE = "deadline"
    ABORTED = "aborted"
    """The engine ended it before it was complete."""
    ENGINE = "engine"
    """The engine raised an error."""
    VERIFIER = "verifier"
    """There are no scores, or none that can be scores."""
    REPLICA_LOST = "replica_lost"
    """The replica went away with the request in it."""
    NO_REPLICA = "no_replica"
    """No replica lived for as long as the client waits for one."""

    NOT_TAKEN = "not_taken"
    """The server took no request at this moment (rate limit, overload, no connection): nothing was
    spent, and it counts as no try."""

    @property
    def final(self) -> bool:
        """Whether no other try can mend it."""
        return self in (ErrorKind.BAD_REQUEST, ErrorKind.NO_REPLICA)


class MarkovScaleError(Exception):
    """Any error this project raises on purpose."""

    status = 1
    """Exit status of a job that ends with it."""
    ending = "failed"
    """Begins the line that the job prints then."""


class ConfigError(MarkovScaleError, ValueError):
    """The run's configuration asks for something that cannot be."""

    status, ending = 2, "error"


class DataError(MarkovScaleError, ValueError):
    """A file of questions, priors or completions holds something that cannot be read."""

    status, ending = 2, "error"


class ProtocolError(MarkovScaleError, ValueError):
    """A strategy received what does not answer its requests; its state is unchanged."""


class ReplayMissError(MarkovScaleError, LookupError):
    """A replay needs a completion that was not recorded."""

    status, ending = 2, "error"


class EngineError(MarkovScaleError, RuntimeError):
    """An engine could not serve one request; others may go on."""


class EngineDeadError(EngineError):
    """An engine cannot serve any request any more; its process must be replaced."""


class VerifierError(EngineError):
    """A verifier answered with scores that cannot be scores."""
