"""Requests of the engine to external servers, which the program around it sends.

The engine does not open connections or encode data. A plugin opens a line for a session and sends requests over it;
requests and responses are plain data, as in JSON. Every failure is a reply, never an exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol


class Endpoint(NamedTuple):
    """A server, with time limits."""

    url: str
    timeout: int
    """Microseconds for one response."""
    budget: int
    """Microseconds for all responses of one session; later requests fail."""
    authority: str = ""
    """File with the certificates of authorities, PEM; those of the system if empty."""
    certificate: str = ""
    """File with the certificate of the client, PEM."""
    key: str = ""
    """File with its key."""
    insecure: bool = False
    """True to accept any certificate of the server."""


class Reply(NamedTuple):
    """A response, or the reason why there is none."""

    body: Any = None
    """Plain data; None if there is none."""
    error: str = ""
    """The reason why there is no response."""


class Line(Protocol):
    """A connection to a server for one session."""

    def ask(self, verb: str, bodies: Sequence[object], *, read: bool = True) -> list[Reply]:
        """Post each body to a path below the URL, and return the replies in the same order.

        Without `read`, the bodies of responses are ignored.
        """


class Outside(Protocol):
    """Sends requests."""

    def open(self, endpoint: Endpoint) -> Line | None:
        """Return a line to a server; None if this program does not send requests."""


class NoOutside:
    """Does not send requests."""

    def open(self, endpoint: Endpoint) -> Line | None:
        """Return None."""
        return None


NO_OUTSIDE = NoOutside()
