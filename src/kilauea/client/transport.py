"""Connections to an API server, and the errors that it returns.

Connections use HTTP (`kilauea.client.http`), or calls within the process (`kilauea.runtime.cluster.direct`).
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol

import msgspec

from kilauea.api.ports import ApiError

UNREACHABLE = "Unreachable"
"""The reason of an error without a response."""
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


class Answer(NamedTuple):
    """A complete response, with its headers as in `header_map`."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport(Protocol):
    """A connection to an API server. Targets are paths with their query, as in HTTP."""

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send a request and return the response, including rejections.

        Raises:
            ApiError: with code 0, the server did not respond.
        """
        ...

    def stream(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield the response to a long GET, as pieces of whole lines.

        Raises (at the first piece or later):
            ApiError: the request is rejected; with code 0, the connection is lost.
        """
        ...

    async def close(self) -> None:
        """End all connections."""
        ...


def header_map(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return headers by lower-case names; repeated ones are joined to a list, as in HTTP."""
    found: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        found[key] = f"{found[key]}, {value}" if key in found else value
    return found


def warnings_of(answer: Answer) -> list[str]:
    """Return the warnings of a server about a successful request, such as `unknown field "spec.foo"`."""
    return [_ESCAPED.sub(r"\1", text) for text in _WARNING.findall(answer.headers.get("warning", ""))]


def unreachable(words: str) -> ApiError:
    """Return the error of a request without a response."""
    return ApiError(0, UNREACHABLE, words)


def refusal(answer: Answer) -> ApiError:
    """Return the error of an unsuccessful response."""
    status = _status(answer.body)
    error = refusal_of(status, answer.status) if status else _bare(answer)
    with suppress(ValueError):  # a date, which API servers do not send
        error.retry_after = float(answer.headers.get("retry-after", error.retry_after))
    return error


def refusal_of(status: Mapping[str, Any], code: int = 500) -> ApiError:
    """Return the error in a `metav1.Status`; with this code if it has none."""
    details = status.get("details") or {}
    code = status.get("code") or code
    message = status.get("message") or f"the server answers {code}"
    reason = status.get("reason") or _reason(code)
    return ApiError(code, reason, message, details, float(details.get("retryAfterSeconds") or 0))


def _status(body: bytes) -> Mapping[str, Any] | None:
    """Return the `metav1.Status` in a body, if it is one."""
    try:
        found = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        return None
    return found if isinstance(found, dict) and found.get("kind") == "Status" else None


def _bare(answer: Answer) -> ApiError:
    """Return the error of a response without a `metav1.Status`, as from proxies and unknown paths."""
    text = answer.body[:500].decode(errors="replace").strip()
    return ApiError(answer.status, _reason(answer.status), text or f"the server answers {answer.status}")


_REASONS = {
    400: "BadRequest",
    405: "MethodNotAllowed",
    410: "Expired",
    413: "RequestEntityTooLarge",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    504: "Timeout",
}


def _reason(code: int) -> str:
    """Return the reason of a code: the name of the code if Kubernetes has no other."""
    try:
        return _REASONS.get(code) or HTTPStatus(code).phrase.replace(" ", "")
    except ValueError:
        return "Unknown"
