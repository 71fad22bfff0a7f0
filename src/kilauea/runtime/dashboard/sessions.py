"""Access to the pages: single-use links, sessions in cookies, and the accepted host names of the site.

The site listens on a loopback address, which any program and any web page of this machine can reach. So a request needs
the cookie of a session, names the site as its own host (a page of another name that resolves to this machine does not),
and comes from the site itself unless it opens a page. To browsers, all its ports are one site: they send the
cookie also with what pages of other ports ask for.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping

from kilauea.api.ports import Clock
from kilauea.api.times import SECOND

IDLE_SECONDS = 12 * 3600
"""Seconds after which a session ends that is not used."""
MOST_SESSIONS = 100
"""Sessions at a time; the one that was used least recently ends for another."""


class Sessions:
    """Links and sessions of one site.

    Args:
        clock: the time.
        password: a secret that also lets its owner in, such as the server's token; empty for none.
        link_used: called with the next link's token when one was used.
    """

    def __init__(self, clock: Clock, password: str = "", link_used: Callable[[str], None] = lambda token: None) -> None:
        self._clock, self._password, self._link_used = clock, password, link_used
        self._sessions: dict[bytes, int] = {}
        """By hash of its secret: when a session was used last (monotonic)."""
        self._token = secrets.token_urlsafe(24)

    @property
    def token(self) -> str:
        """The token of the link that works next."""
        return self._token

    def enter(self, given: str) -> str:
        """Begin a session; return its secret, or the empty text if what was given is not valid."""
        if hmac.compare_digest(given.encode(), self._token.encode()):
            self._token = secrets.token_urlsafe(24)
            self._link_used(self._token)
        elif not (self._password and hmac.compare_digest(given.encode(), self._password.encode())):
            return ""
        secret = secrets.token_urlsafe(24)
        while len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[min(self._sessions, key=self._sessions.__getitem__)]
        self._sessions[_hash(secret)] = self._clock.monotonic()
        return secret

    def knows(self, secret: str) -> bool:
        """True if this is the secret of a session, which is used by that."""
        at, now = _hash(secret), self._clock.monotonic()
        used = self._sessions.get(at)
        if used is None:
            return False
        if now - used > IDLE_SECONDS * SECOND:
            del self._sessions[at]
            return False
        self._sessions[at] = now
        return True


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def is_own_host(host: str, port: int) -> bool:
    """True if a Host header names this machine's loopback address and the port of the site."""
    name, _, number = host.rpartition(":")
    return name in ("127.0.0.1", "localhost", "[::1]") and number == str(port)


def is_from_site(headers: Mapping[str, str]) -> bool:
    """True if a request that asks for work was made by a page of the site itself, or by a program without pages.

    Browsers always say where such a request comes from.
    """
    origin = headers.get("Origin")
    if origin is not None:
        return origin == f"http://{headers.get('Host', '')}"
    return headers.get("Sec-Fetch-Site", "none") in ("same-origin", "none")


def is_visit(headers: Mapping[str, str]) -> bool:
    """True if a browser opens a page of the site by a link, not in a frame or as a part of another page."""
    return headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest", "document") == "document"
