"""Credentials from the program in `users[].user.exec` of a kubeconfig (client.authentication.k8s.io)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from kilauea.api.times import SECOND, parse_time
from kilauea.client.access import AccessError, Credentials

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
PATIENCE = 60.0
"""Timeout of the program in seconds."""


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _Status | None = None


class ExecPlugin:
    """Runs the program if credentials are missing, expired or rejected.

    Args:
        version: the API version of the protocol.
        command: the program and its arguments.
        environment: its environment variables.
        hint: the installation hint.
        cluster: information about the cluster, if the program requires it.
        now: returns microseconds since 1970.
    """

    def __init__(
        self,
        version: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        hint: str = "",
        cluster: Mapping[str, Any] | None = None,
        now: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        if version not in VERSIONS:
            raise AccessError(f'exec: apiVersion: "{version}" is not supported: use one of {", ".join(VERSIONS)}')
        self._version = version
        self._command = command
        self._environment = {**environment, "KUBERNETES_EXEC_INFO": self._info(cluster)}
        self._hint = hint
        self._now = now
        self._credentials: Credentials | None = None
        self._expires: int | None = None
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self, renew: bool) -> Credentials:
        """Return the current credentials if valid; otherwise run the program, once for all waiting requests.

        Raises:
            AccessError: the program cannot be run, fails, or has invalid output.
        """
        before = self._credentials
        async with self._one_at_a_time:
            known = self._credentials
            expired = self._expires is not None and self._now() >= self._expires
            if known is None or expired or (renew and known is before):
                known = self._credentials = self._read(await self._run())
            return known

    def _info(self, cluster: Mapping[str, Any] | None) -> str:
        """Return the description of the cluster for the program."""
        spec = {"interactive": False, **({"cluster": cluster} if cluster else {})}
        return msgspec.json.encode({"apiVersion": self._version, "kind": "ExecCredential", "spec": spec}).decode()

    async def _run(self) -> bytes:
        pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=nothing, stdout=pipe, stderr=pipe, env=self._environment
            )
        except OSError as error:
            raise self._error(f"cannot be run: {error.strerror}. {self._hint}".strip()) from error
        try:
            async with asyncio.timeout(PATIENCE):
                said, stderr = await process.communicate()
        except TimeoutError:
            raise self._error(f"has not ended after {PATIENCE:.0f} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            words = stderr.decode(errors="replace").strip()[-500:]
            raise self._error(f"ended with code {process.returncode}: {words}")
        return said

    def _read(self, said: bytes) -> Credentials:
        """Parse the credentials in the output of the program."""
        try:
            found = msgspec.json.decode(said, type=_ExecCredential)
            expires = found.status.expiration_timestamp if found.status else None
            self._expires = parse_time(expires) - SECOND if expires else None
        except (msgspec.MsgspecError, ValueError) as error:
            raise self._error(f"has not written an ExecCredential: {error}") from error
        status = found.status or _Status()
        if found.api_version != self._version or not (status.token or status.client_certificate_data):
            raise self._error(f"must write an ExecCredential of {self._version} with a token or a certificate")
        authorization = f"Bearer {status.token}" if status.token else ""
        return Credentials(authorization, status.client_certificate_data.encode(), status.client_key_data.encode())

    def _error(self, words: str) -> AccessError:
        return AccessError(f"the credential plugin {self._command[0]} {words}")
