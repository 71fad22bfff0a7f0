"""Access to the pages: single-use links, sessions in cookies, and the accepted host names of the site.

The site listens on a loopback address, which any program and any web page on this machine can reach. So a request needs
the cookie of a session, the correct host name (which excludes other names that resolve to this machine), and must come
from the site itself unless it opens a page. To browsers, all ports of a host are one site: they send the cookie with
requests of pages on other ports, too.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping

from kilauea.api.ports import Clock
from kilauea.api.times import SECOND

IDLE_SECONDS = 12 * 3600
"""Seconds after which an unused session ends."""
MOST_SESSIONS = 100
"""Maximum number of sessions; beyond it, the least recently used one ends."""


class Sessions:
    """Links and sessions of one site.

    Args:
        clock: the time.
        password: a secret that is accepted as well, such as the server's token; empty for none.
        link_used: called with the next link's token when one was used.
    """

    def __init__(self, clock: Clock, password: str = "", link_used: Callable[[str], None] = lambda token: None) -> None:
        self._clock, self._password, self._link_used = clock, password, link_used
        self._sessions: dict[bytes, int] = {}
        """By hash of the secret: the time of the last use of a session (monotonic)."""
        self._token = secrets.token_urlsafe(24)

    @property
    def token(self) -> str:
        """The token of the next valid link."""
        return self._token

    def enter(self, given: str) -> str:
        """Start a session; return its secret, or empty text if the given token is not valid."""
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
        """Return True if this is the secret of a session; counts as its use."""
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
    """Return True if a Host header contains this machine's loopback address and the port of the site."""
    name, _, number = host.rpartition(":")
    return name in ("127.0.0.1", "localhost", "[::1]") and number == str(port)


def is_from_site(headers: Mapping[str, str]) -> bool:
    """Return True if a request for an action was made by a page of the site itself, or by a program.

    Browsers always send the origin of such a request.
    """
    origin = headers.get("Origin")
    if origin is not None:
        return origin == f"http://{headers.get('Host', '')}"
    return headers.get("Sec-Fetch-Site", "none") in ("same-origin", "none")


def is_visit(headers: Mapping[str, str]) -> bool:
    """Return True if a browser opens a page of the site by a link, not in a frame or as a part of another page."""
    return headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest", "document") == "document"
