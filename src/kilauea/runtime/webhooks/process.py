"""The webhooks as a process: caches, certificate, server and registration."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

from kilauea.admission.lookups import INTERESTS
from kilauea.admission.registry import HOOKS
from kilauea.admission.resource_groups import read_resource_groups
from kilauea.admission.review import Hook, Settings
from kilauea.api.ports import Api, ApiError, Clock, Key
from kilauea.api.times import SECOND
from kilauea.client.advice import FORBIDDEN
from kilauea.client.view import Cache
from kilauea.connections import REQUEST_SECONDS, Bounded
from kilauea.runtime.daemon import Daemon, DaemonOptions, StartError, cannot_listen
from kilauea.runtime.settings import plain
from kilauea.runtime.webhooks.certificates import SECRET, CertificateError, Files, FileSource, SecretSource, Source
from kilauea.runtime.webhooks.configurations import Where, register
from kilauea.runtime.webhooks.credentials import Credentials
from kilauea.runtime.webhooks.reviews import answer_in_time
from kilauea.runtime.webhooks.serving import Tls, application, check
from kilauea.telemetry.serving import MOST_CONNECTIONS as MOST_WATCHING
from kilauea.telemetry.serving import pages
from kilauea.telemetry.webhook_metrics import ANSWERED, FAILED, WebhookMetrics

COMPONENT = "vc-webhook-manager"
"""Name of the component in requests."""
NAMESPACE = "volcano-system"
"""Namespace of the Secret, if none is configured."""
LOOK_SECONDS = 2.0
"""Seconds between checks of the files."""
REGISTER_SECONDS = 60
"""Seconds after which the registration is written again, although nothing has changed here."""
COMPLAIN_SECONDS = 10.0
MOST_CONNECTIONS = 1024
"""Connections to the webhooks at a time; API servers have one for each request that waits for an answer."""
TWO = "if the webhooks are installed twice, remove one installation; `kilauea doctor` shows both"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WebhookOptions:
    """Selection and address of the hooks.

    Attributes:
        daemon: how to reach the cluster; its pages serve only health.
        where: how the API server reaches the webhooks.
        host: address to listen on; empty for all.
        port: port to listen on.
        paths: paths of the hooks to serve.
        settings: settings of the hooks; resource groups come from `admission_conf`.
        admission_conf: file with resource groups.
        secret: name of the Secret with the certificate, if there are no files.
        files: certificate files; None to issue a certificate and keep it in a Secret.
        grace: seconds that requests have to end when the process stops.
    """

    daemon: DaemonOptions
    where: Where
    host: str = ""
    port: int = 8443
    paths: Sequence[str] = tuple(hook.path for hook in HOOKS)
    settings: Settings = field(default_factory=Settings)
    admission_conf: Path | None = None
    secret: str = SECRET
    files: Files | None = None
    grace: float = 30.0


async def run_webhooks(options: WebhookOptions, stop: asyncio.Event, ready: Callable[[str], None]) -> None:
    """Serve until told to stop.

    Args:
        options: the hooks to serve.
        stop: ends the server when it is set.
        ready: called with the address once the webhooks are registered with the API server.

    Raises:
        AccessError: no usable description of the cluster.
        StartError: it cannot start.
    """
    async with Daemon(COMPONENT, options.daemon) as daemon:
        webhooks = Webhooks(options, daemon.client, daemon.clock)
        await daemon.run(stop, [webhooks.watch(daemon.rng), webhooks.serve(ready)])


class Webhooks:
    """A running server.

    Args:
        options: the hooks to serve.
        api: the cluster.
        clock: the time.

    Raises:
        StartError: the file of resource groups cannot be used.
    """

    def __init__(self, options: WebhookOptions, api: Api, clock: Clock) -> None:
        self._options = options
        self._api = api
        self._clock = clock
        self._hooks = [hook for hook in HOOKS if hook.path in options.paths]
        self._cache = Cache()
        for interest in INTERESTS:
            self._cache.declare(interest.resource, interest.labels, interest.indexes)
        self._conf = b""
        self._settings = options.settings
        fault = self._read_conf()
        if fault:
            raise StartError(fault)
        self._source = self._certificates()
        self._tls = Tls(options.files.authority if options.files else None)
        self._credentials: Credentials | None = None
        self._registered: int | None = None
        self._metrics = WebhookMetrics()
        self._said = ""

    def _certificates(self) -> Source:
        if self._options.files:
            return FileSource(self._options.files)
        where = self._options.where
        namespace = where.namespace or NAMESPACE
        return SecretSource(self._api, Key(namespace, self._options.secret), names_of(where), self._clock)

    async def watch(self, rng: Random) -> None:
        """Keep the caches of queues, pod groups, jobs and namespaces up to date."""
        await self._cache.run(self._api, self._clock, rng)

    async def serve(self, ready: Callable[[str], None]) -> None:
        """Serve once the caches are complete, until cancelled."""
        await self._complete()
        while not await self._has_certificate():
            await self._clock.sleep(LOOK_SECONDS)
        async with self._listening() as port:
            log.info("%d webhooks on port %d", len(self._hooks), port)
            while not await self._keep():
                await self._clock.sleep(LOOK_SECONDS)
            ready(f"https://{self._options.host or '127.0.0.1'}:{port}")
            while True:
                await self._clock.sleep(LOOK_SECONDS)
                await self._keep()

    async def _has_certificate(self) -> bool:
        """Read or issue the first certificate; return False if the API server refuses it for now.

        Raises:
            StartError: the certificate cannot be used.
        """
        try:
            await self._renew()
        except (CertificateError, ValueError) as error:
            raise StartError(f"no certificate to serve with: {error}") from error
        except ApiError as error:
            self._warn(f"waiting for a certificate: {_explained(error)}", error)
            return False
        return True

    def _warn(self, words: str, error: ApiError) -> None:
        """Log a problem that the process waits out, each once in a row."""
        level = logging.DEBUG if error.reported or words == self._said else logging.WARNING
        self._said = words
        log.log(level, "%s", words)

    async def _complete(self) -> None:
        """Wait for the caches: jobs in a queue that is not known yet would be refused."""
        while True:
            try:
                async with asyncio.timeout(COMPLAIN_SECONDS):
                    await self._cache.complete()
                return
            except TimeoutError:
                log.warning("waiting for: %s", self._missing())

    def _missing(self) -> str:
        return ", ".join(resource.plural for resource in self._cache.missing())

    def _not_ready(self) -> str:
        return (
            f"reading {self._missing()}"
            if self._missing()
            else "not registered yet"
            if self._registered is None
            else ""
        )

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[int]:
        """Answer requests, and serve the pages at their own addresses; yield the port of the webhooks."""
        options = self._options
        answers = {hook.path: partial(self._answer, hook) for hook in self._hooks}
        watched = pages(self._not_ready, self._metrics.registry, self._settings_in_use)
        async with AsyncExitStack() as stack:
            made = application(answers, self._not_ready)
            hooks = await stack.enter_async_context(Bounded(made, MOST_CONNECTIONS, REQUEST_SECONDS, options.grace))
            about = await stack.enter_async_context(Bounded(watched, MOST_WATCHING, REQUEST_SECONDS, options.grace))
            bound = await self._listen(hooks, options.host, options.port, "--listen-address or --port")
            for host, port in options.daemon.pages:
                await self._listen(about, host, port, "--healthz-address")
            yield bound

    async def _listen(self, server: Bounded, host: str, port: int, option: str) -> int:
        """Listen on an address; returns the port.

        Raises:
            StartError: it is taken.
        """
        try:
            return await server.listen(host or None, port, self._tls.context)
        except OSError as error:
            raise cannot_listen(host, port, error, f"choose another address with {option}") from error

    async def _answer(self, hook: Hook, body: bytes) -> bytes:
        started, result = self._clock.monotonic(), FAILED
        try:
            answer = await answer_in_time(hook, body, self._cache, self._settings, self._clock)
            result = ANSWERED
        finally:
            self._metrics.request(hook.path, (self._clock.monotonic() - started) / SECOND, result)
        return answer

    def _settings_in_use(self) -> dict[str, Any]:
        """The settings, for the page `/configz`."""
        options = dataclasses.replace(self._options, settings=self._settings)
        return {COMPONENT: {"options": plain(options)}}

    # --- what changes while it serves

    async def _keep(self) -> bool:
        """Reload changed files, and register the webhooks; return True if they are registered."""
        fault = self._read_conf()
        if fault:
            log.warning("%s: the previous resource groups remain active", fault)
        try:
            await self._renew()
        except ApiError as error:
            self._warn(f"the webhooks cannot be registered: {_explained(error)}", error)
        except (CertificateError, ValueError) as error:
            log.warning("%s: the previous certificate remains active", error)
        return self._registered is not None

    async def _renew(self) -> None:
        """Use the credentials of the source; clients get new authorities first.

        Raises:
            CertificateError, ValueError, ApiError: they cannot be used, or the webhooks cannot be registered.
        """
        found = await self._source.look()
        if found is not self._credentials:
            check(found)
        if self._credentials is None:
            self._tls.use(found)
            self._credentials = found
            return
        now = self._clock.monotonic()
        if (
            found is self._credentials
            and self._registered is not None
            and now - self._registered < REGISTER_SECONDS * SECOND
        ):
            return
        changed = await register(self._api, self._hooks, self._options.where, found.bundle)
        if changed and self._registered is not None and found is self._credentials:
            names = ", ".join(changed)
            log.warning("another process has changed %s, which this process had written: %s", names, TWO)
        self._registered = now
        self._said = ""
        if found is not self._credentials:
            self._tls.use(found)
            self._credentials = found
            log.info("the server has a new certificate")

    def _read_conf(self) -> str:
        """Reload the file of resource groups if it has changed; return the error if it is invalid."""
        path = self._options.admission_conf
        if path is None:
            return ""
        try:
            data = path.read_bytes()
            if data == self._conf:
                return ""
            self._conf = data
            groups = read_resource_groups(data)
        except (OSError, ValueError) as error:
            return f"{path}: {error}"
        self._settings = dataclasses.replace(self._options.settings, resource_groups=groups)
        return ""


def _explained(error: ApiError) -> str:
    """Return the message of a refusal, and the right that is missing."""
    details = error.details
    if error.code != FORBIDDEN or not details.get("kind"):
        return str(error)
    name = f"{details['kind']}.{details['group']}" if details.get("group") else details["kind"]
    return f"{error}: grant the webhooks get, list, create and update on {name}"


def names_of(where: Where) -> list[str]:
    """Host names and addresses by which an API server reaches the webhooks."""
    if where.url:
        return [urlsplit(where.url).hostname or ""]
    service, namespace = where.service, where.namespace
    return [f"{service}.{namespace}.svc", f"{service}.{namespace}", service]
