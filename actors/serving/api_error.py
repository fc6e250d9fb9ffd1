"""Errors of the endpoint, in the format in which OpenAI's API gives them."""

from __future__ import annotations

from typing import Any

from pipeline.core.text import encodable


class ApiError(Exception):
    """A request that is answered with an error.

    Args:
        status: of HTTP.
        message: what must hold, and what came.
        code: a word for programs, such as ``model_not_found``.
        param: the field of the request that is at fault.
        retry_after_s: after how long another try may succeed.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        *,
        param: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param
        self.retry_after_s = retry_after_s

    @property
    def body(self) -> dict[str, Any]:
        """The error as JSON; the openai client makes its exceptions of it."""
        return {
            "error": {
                "message": encodable(self.message),
                "type": _type_of(self.status),
                "param": self.param and encodable(self.param),
                "code": self.code,
            }
        }

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the answer."""
        return {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}


def _type_of(status: int) -> str:
    if status == 401:
        return "authentication_error"
    if status == 429:
        return "rate_limit_error"
    return "invalid_request_error" if status < 500 else "server_error"
