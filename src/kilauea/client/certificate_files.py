"""A client certificate in files that another program renews."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable
from pathlib import Path

from kilauea.client.access import AccessError, Credentials, load_pair

log = logging.getLogger(__name__)

FRESH_SECONDS = 60.0
"""Seconds for which a certificate is used before the files are read again."""


class CertificateFiles:
    """Credentials from two files, read again periodically and after a rejection.

    Args:
        credentials: the initial credentials.
        certificate: the file of the certificate.
        key: the file of its key.
        elapsed: returns monotonic seconds.
    """

    def __init__(
        self, credentials: Credentials, certificate: Path, key: Path, elapsed: Callable[[], float] = time.monotonic
    ) -> None:
        self._credentials = credentials
        self._certificate = certificate
        self._key = key
        self._elapsed = elapsed
        self._read_at = elapsed()
        self._said = ""
        """The last logged error of the files, which is not repeated."""

    async def __call__(self, renew: bool) -> Credentials:
        """Return the recently read certificate; the last valid one while the files do not match."""
        if renew or self._elapsed() - self._read_at > FRESH_SECONDS:
            self._read()
        return self._credentials

    def _read(self) -> None:
        self._read_at = self._elapsed()
        try:
            found = Credentials("", self._certificate.read_bytes(), self._key.read_bytes())
            load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), str(self._certificate), found)
        except (OSError, AccessError) as error:  # they may be partly written
            if str(error) != self._said:
                self._said = str(error)
                log.warning(
                    "the client certificate in use stays the previous one, as its files cannot be read: %s", error
                )
            return
        self._credentials, self._said = found, ""
