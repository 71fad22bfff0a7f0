"""Sources of the server's certificate: files that others maintain, or a Secret that this process maintains."""

from __future__ import annotations

import base64
import datetime
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kilauea.api.kinds import SECRETS
from kilauea.api.ports import Api, ApiError, Clock, Key
from kilauea.api.times import SECOND
from kilauea.client.namespaces import create_in_namespace
from kilauea.runtime.webhooks.credentials import Credentials, renewed

SECRET = "volcano-admission-secret"
LOOK_SECONDS = 60
"""Seconds after which the Secret is read again, because another replica may have renewed it."""
TRIES = 5
"""Attempts to write the Secret if other clients change it."""
_FIELDS = {"bundle": "ca.crt", "certificate": "tls.crt", "key": "tls.key", "authority_key": "ca.key"}
"""Keys of the Secret; all except the last are the same as Volcano's."""

log = logging.getLogger(__name__)


class CertificateError(Exception):
    """There is no usable certificate; the message gives the reason and the fix."""


class Source(Protocol):
    """A source of the server's credentials."""

    async def look(self) -> Credentials:
        """The current credentials; the same object as before if nothing has changed.

        Raises:
            CertificateError: there are none.
            ApiError: the cluster does not answer, or refuses.
        """
        ...


@dataclass(frozen=True)
class Files:
    """Paths of a certificate, its key, and the authorities that clients trust."""

    certificate: Path
    key: Path
    authority: Path


class FileSource:
    """Credentials in files, reloaded when one of them changes."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._last: Credentials | None = None

    async def look(self) -> Credentials:
        """Return the content of the files; they are small, so comparing them is cheap."""
        files = self._files
        found = Credentials(_content(files.authority), _content(files.certificate), _content(files.key))
        if self._last is None or found != self._last:
            self._last = found
        return self._last


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path}: cannot be read: {error.strerror}") from error


class SecretSource:
    """Credentials that are created on demand, renewed in time, and kept in a Secret for all replicas.

    Args:
        api: the cluster.
        key: the Secret; its namespace is created if necessary.
        names: host names and addresses of the server.
        clock: the time.
    """

    def __init__(self, api: Api, key: Key, names: Sequence[str], clock: Clock) -> None:
        self._api = api
        self._key = key
        self._names = names
        self._clock = clock
        self._last: Credentials | None = None
        self._looked = 0

    async def look(self) -> Credentials:
        """Return the content of the Secret, renewed if necessary."""
        moment = self._clock.monotonic()
        if self._last is not None and moment - self._looked < LOOK_SECONDS * SECOND:
            return self._last
        found = await self._renewed(datetime.datetime.fromtimestamp(self._clock.now() // SECOND, datetime.UTC))
        self._looked = moment
        if self._last is None or found != self._last:
            self._last = found
        return self._last

    async def _renewed(self, now: datetime.datetime) -> Credentials:
        for _ in range(TRIES):
            secret = await self._secret()
            old = None if secret is None else _credentials(secret.get("data") or {})
            new = renewed(old, self._names, now)
            if new is old or await self._write(secret, new):
                return new
        raise CertificateError(f"Secret {self._key}: other clients keep changing it: stop them, or set --tls-cert-file")

    async def _secret(self) -> dict[str, Any] | None:
        try:
            return await self._api.get(SECRETS, self._key)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    async def _write(self, secret: dict[str, Any] | None, new: Credentials) -> bool:
        """Write the Secret; False if another client has changed it."""
        data = {name: base64.b64encode(getattr(new, field)).decode() for field, name in _FIELDS.items()}
        try:
            if secret is not None:
                await self._api.update(SECRETS, {**secret, "data": {**(secret.get("data") or {}), **data}})
            else:
                await self._create(data)
        except ApiError as error:
            if error.code == 409:
                return False
            raise
        log.info("Secret %s has a new certificate for %s", self._key, ", ".join(self._names))
        return True

    async def _create(self, data: Mapping[str, str]) -> None:
        namespace, name = self._key
        body = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": {"name": name}, "data": dict(data)}
        await create_in_namespace(self._api, SECRETS, namespace, body)


def _credentials(data: Mapping[str, str]) -> Credentials | None:
    """Return the credentials in a Secret; None if a part is missing."""
    try:
        found = {field: base64.b64decode(data.get(name, "")) for field, name in _FIELDS.items()}
    except ValueError:
        return None
    credentials = Credentials(**found)
    return credentials if credentials.bundle and credentials.certificate and credentials.key else None
