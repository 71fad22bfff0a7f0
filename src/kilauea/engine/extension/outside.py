"""Requests of the engine to external servers, which the program around it sends.

The engine opens no connections and encodes nothing. A plugin opens a line for a session and asks over it; what it asks
and is told is plain data, as JSON has it. Whatever goes wrong is an answer, never an exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol


class Endpoint(NamedTuple):
    """A server, and the time it has."""

    url: str
    timeout: int
    """Microseconds for one answer."""
    budget: int
    """Microseconds for all answers of one session; what is asked later fails."""
    authority: str = ""
    """File with the certificates of authorities, PEM; the system's without."""
    certificate: str = ""
    """File with the certificate of the client, PEM."""
    key: str = ""
    """File with its key."""
    insecure: bool = False
    """The server's certificate is not checked."""


class Reply(NamedTuple):
    """An answer."""

    body: Any = None
    """Plain data; None if there is none."""
    error: str = ""
    """The reason why there is none."""


class Line(Protocol):
    """A connection to a server for one session."""

    def ask(self, verb: str, bodies: Sequence[object], *, read: bool = True) -> list[Reply]:
        """Post each body to a path below the URL, and return the answers in the same order.

        Without `read` a body of an answer is not looked at.
        """


class Outside(Protocol):
    """Carries requests."""

    def open(self, endpoint: Endpoint) -> Line | None:
        """Return a line to a server; None if this program makes no requests."""


class NoOutside:
    """Makes no requests."""

    def open(self, endpoint: Endpoint) -> Line | None:
        """Always None."""
        return None


NO_OUTSIDE = NoOutside()
