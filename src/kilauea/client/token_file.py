"""A token in a file that another program renews, as Kubernetes does for pods."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from kilauea.client.access import AccessError, Credentials

FRESH_SECONDS = 60.0
"""Seconds for which a token is used before the file is read again."""


class TokenFile:
    """Credentials from a file, read again periodically and after a rejection.

    Args:
        path: the path of the file.
        certificate: the client certificate as PEM, if any.
        key: the key of the certificate as PEM.
        elapsed: returns monotonic seconds.
    """

    def __init__(
        self, path: Path, certificate: bytes = b"", key: bytes = b"", elapsed: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._certificate = certificate
        self._key = key
        self._elapsed = elapsed
        self._token = ""
        self._read_at = 0.0

    async def __call__(self, renew: bool) -> Credentials:
        """Return the recently read token; the last one if the file cannot be read now.

        Raises:
            AccessError: the file could never be read.
        """
        if renew or not self._token or self._elapsed() - self._read_at > FRESH_SECONDS:
            self._read()
        return Credentials(f"Bearer {self._token}", self._certificate, self._key)

    def _read(self) -> None:
        try:
            token = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            token = ""
            if not self._token:
                raise AccessError(f"{self._path}: the token cannot be read: {error}") from error
        if not token and not self._token:
            raise AccessError(f"{self._path}: the token is empty: write a token into the file")
        self._token = token or self._token
        self._read_at = self._elapsed()
