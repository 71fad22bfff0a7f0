"""Discovers HyperNodes through UFM: periodically reads the ports of the fabric, and updates the HyperNodes.

Controllers are pure, so code that queries a server is separate. If UFM does not return a valid response, the HyperNodes
stay unchanged; the reason is logged and recorded as an event of the ConfigMap, once.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import ssl
from collections.abc import Callable
from typing import NamedTuple

import aiohttp
import msgspec

from kilauea.api.kinds import CONFIG_MAPS, HYPER_NODES, SECRETS
from kilauea.api.ports import Api, ApiError, Clock, Key, Obj, Record, key_of
from kilauea.api.times import SECOND
from kilauea.client.view import Cache
from kilauea.controllers.hypernodes.configuration import UfmSource, read_configuration
from kilauea.controllers.hypernodes.discovery import written
from kilauea.controllers.hypernodes.labels import SOURCE
from kilauea.controllers.hypernodes.ufm import UFM, Fabric, Port, fabric_of, hypernodes_of_fabric
from kilauea.controllers.objects import labels_of, name_of
from kilauea.runtime.manager.operations import carry_out

COMPONENT = "hyperNode-controller"
PATH = "/ufmRest/resources/ports"
ANSWER_SECONDS = 30.0
"""Seconds within which UFM must have answered."""
LARGEST = 100 * 1024 * 1024
"""Maximum size of a response in bytes."""
RETRY = 60 * SECOND
"""Maximum microseconds until the next query after a failure."""

log = logging.getLogger(__name__)


class FabricUnavailable(Exception):
    """UFM did not return a valid response; the message gives the reason, and never contains credentials."""


class Credentials(NamedTuple):
    """Name and password at UFM, and the authority that signed its certificate (PEM; empty for those of the system)."""

    username: str
    password: str
    authority: str = ""


class FabricDiscovery:
    """Maintains the HyperNodes of UFM.

    Args:
        api: the cluster.
        cache: cache of the ConfigMap and the HyperNodes, which are declared here.
        clock: for pauses between queries.
        record: receives events, with the name of the component.
        configuration: the ConfigMap.
    """

    def __init__(
        self, api: Api, cache: Cache, clock: Clock, record: Callable[[str, Record], None], configuration: Key
    ) -> None:
        self._api = api
        self._cache = cache
        self._clock = clock
        self._record = record
        self._configuration = configuration
        self._changed = asyncio.Event()
        cache.declare(CONFIG_MAPS).listeners.append(self._configured)
        cache.declare(HYPER_NODES, (SOURCE,)).listeners.append(self._deleted)
        self._source: UfmSource | None = None
        self._fabric: Fabric | None = None
        """The last response of this source."""
        self._due = 0
        """Monotonic time of the next query."""
        self._unanswered = ""
        """The reason why there is no newer response."""
        self._faults: tuple[str, ...] = ()

    def _configured(self, old: Obj | None, new: Obj | None) -> None:
        if key_of(new or old or {}) == self._configuration:
            self._changed.set()

    def _deleted(self, old: Obj | None, new: Obj | None) -> None:
        if new is None and old is not None and labels_of(old).get(SOURCE) == UFM:
            self._changed.set()

    async def run(self) -> None:
        """Discover until cancelled."""
        await self._cache.complete()
        while True:
            self._changed.clear()
            config_map = self._cache.get(CONFIG_MAPS, self._configuration)
            source = read_configuration(config_map).ufm if config_map is not None else None
            if source != self._source:
                self._source, self._fabric, self._due = source, None, 0
                self._unanswered, self._faults = "", ()
            if source is None or config_map is None:
                await self._changed.wait()
                continue
            await self._round(source, config_map)
            await self._changed_within((self._due - self._clock.monotonic()) / SECOND)

    async def _round(self, source: UfmSource, config_map: Obj) -> None:
        """Query UFM if it is time to, and update the HyperNodes to the last response."""
        now = self._clock.monotonic()
        if now >= self._due:
            try:
                self._fabric = await self._ask(source)
                self._due, self._unanswered = now + source.interval, ""
            except FabricUnavailable as error:
                self._due = now + min(source.interval, RETRY)
                self._unanswered = f"UFM {source.endpoint}: {error}; its HyperNodes remain unchanged"
        faults = await self._write(self._fabric) if self._fabric is not None else []
        self._tell(config_map, (*filter(None, [self._unanswered]), *faults))

    async def _ask(self, source: UfmSource) -> Fabric:
        """The fabric according to UFM.

        Raises:
            FabricUnavailable: the response is invalid, or contains no computers.
        """
        data = await fetch_ports(source, await self._credentials(source.secret))
        try:
            fabric = await asyncio.to_thread(_decoded, data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise FabricUnavailable(f"the response is not a list of ports: {error}") from error
        if not fabric.groups:
            raise FabricUnavailable("the response has no port that connects a computer to a leaf")
        return fabric

    async def _credentials(self, secret: Key) -> Credentials:
        try:
            data = (await self._api.get(SECRETS, secret)).get("data") or {}
        except ApiError as error:
            raise FabricUnavailable(f"Secret {secret} cannot be read: {error}") from error
        found: list[str] = []
        for name in ("username", "password", "ca.crt"):
            try:
                found.append(base64.b64decode(data.get(name, ""), validate=True).decode())
            except (binascii.Error, UnicodeDecodeError, TypeError) as error:
                raise FabricUnavailable(f"Secret {secret}: {name} is not text in base64") from error
            if not found[-1] and name != "ca.crt":
                raise FabricUnavailable(f"Secret {secret} has no {name}: add the credentials of a user of UFM")
        return Credentials(*found)

    async def _write(self, fabric: Fabric) -> list[str]:
        """Update the HyperNodes to a fabric; return failures."""
        faults = [f"computer {name}: invalid node name; left out" for name in fabric.odd[:3]]
        wanted, foreign = hypernodes_of_fabric(fabric), []
        for each in wanted:
            known = self._cache.get(HYPER_NODES, Key("", name_of(each)))
            if known is not None and labels_of(known).get(SOURCE) != UFM:
                foreign.append(name_of(each))
                faults.append(
                    f"HyperNode {name_of(each)} exists but does not come from UFM: rename it; it remains unchanged"
                )
        ours = [each for each in wanted if name_of(each) not in foreign]
        try:
            for operation in written(ours, self._cache.labelled(HYPER_NODES, SOURCE, UFM)):
                await carry_out(self._api, operation, COMPONENT)
        except ApiError as error:
            self._due = min(self._due, self._clock.monotonic() + RETRY)
            faults.append(f"the HyperNodes of UFM cannot be written: {error}")
        return faults

    def _tell(self, config_map: Obj, faults: tuple[str, ...]) -> None:
        """Log and record new faults."""
        for fault in faults:
            if fault not in self._faults:
                log.warning("discovery of HyperNodes: %s", fault)
                self._record(COMPONENT, Record(config_map, "Warning", "Discovery", fault))
        if self._faults and not faults:
            log.info("discovery of HyperNodes: UFM works again without problems")
            self._record(COMPONENT, Record(config_map, "Normal", "Discovery", "UFM works again without problems"))
        self._faults = faults

    async def _changed_within(self, seconds: float) -> None:
        sleeping = asyncio.ensure_future(self._clock.sleep(max(seconds, 0.0)))
        changing = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({sleeping, changing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            changing.cancel()


def _decoded(data: bytes) -> Fabric:
    return fabric_of(msgspec.json.decode(data, type=list[Port]))


async def fetch_ports(source: UfmSource, credentials: Credentials) -> bytes:
    """The response of UFM, not decoded.

    Raises:
        FabricUnavailable: it is missing, an error, too large or too late.
    """
    tls = _tls_context(source, credentials.authority)
    user = f"{credentials.username}:{credentials.password}".encode()
    headers = {"Authorization": f"Basic {base64.b64encode(user).decode()}"}
    pieces, size = [], 0
    try:
        async with (
            asyncio.timeout(ANSWER_SECONDS),
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
            # A redirect could send the password elsewhere.
            session.get(source.endpoint + PATH, headers=headers, ssl=tls, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise FabricUnavailable(f"status {answer.status} for GET {PATH}")
            async for piece in answer.content.iter_chunked(1 << 16):
                pieces.append(piece)
                size += len(piece)
                if size > LARGEST:
                    raise FabricUnavailable(f"the response is larger than {LARGEST >> 20} MiB")
    except TimeoutError as error:
        raise FabricUnavailable(f"no answer within {ANSWER_SECONDS:g} s") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise FabricUnavailable(str(error) or type(error).__name__) from error
    return b"".join(pieces)


def _tls_context(source: UfmSource, authority: str) -> ssl.SSLContext:
    """TLS as a client.

    Raises:
        FabricUnavailable: the authority of the Secret is not a certificate.
    """
    try:
        context = ssl.create_default_context(cadata=authority or None)
    except (ssl.SSLError, ValueError) as error:
        raise FabricUnavailable("ca.crt in the Secret is not a PEM certificate") from error
    if source.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
