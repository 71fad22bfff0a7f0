"""The embedded API server as a process: storage, core and transport."""

from __future__ import annotations

import asyncio
import datetime
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from random import Random

from kilauea.api.ports import ApiError
from kilauea.api.times import SECOND
from kilauea.apiserver.account_tokens import AccountTokens
from kilauea.apiserver.admission.chain import admission_steps
from kilauea.apiserver.authentication import Authenticator
from kilauea.apiserver.backend import Backend
from kilauea.apiserver.bootstrap import create_first_objects
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.custom_resources.bundled import install_bundled
from kilauea.apiserver.dynamic.admission import DynamicAdmission
from kilauea.apiserver.event_expiry import expire_events
from kilauea.apiserver.http.credentials import ADMIN, Credentials, CredentialsError, load_credentials
from kilauea.apiserver.http.kubeconfig import write_kubeconfig
from kilauea.apiserver.http.transport import Transport
from kilauea.apiserver.http.webhook_client import WebhookClient
from kilauea.apiserver.large_writes import LargeWrites
from kilauea.apiserver.own_address import HTTPS, publish_address
from kilauea.apiserver.request import GROUP_MASTERS, User
from kilauea.apiserver.resources.builtin import builtin_types
from kilauea.apiserver.resources.registry import Registry
from kilauea.apiserver.server_state import SERVICE_RANGE
from kilauea.apiserver.storage import Durability, StorageError, Store, remedy
from kilauea.kubelet.machine import read_memory, read_storage
from kilauea.runtime.clock import SystemClock
from kilauea.runtime.cluster.addresses import advertised_address, local_address, may_listen
from kilauea.runtime.cluster.aggregating import aggregating
from kilauea.runtime.cluster.in_process import Definitions, standalone
from kilauea.runtime.cluster.workers import Workers
from kilauea.runtime.daemon import StartError, cannot_listen
from kilauea.runtime.tasks import collect_seldom, give_memory_back, trimming

ADMINISTRATOR = User(ADMIN, groups=(GROUP_MASTERS,))


@dataclass(frozen=True)
class ServerOptions:
    """Options of the server. Port 0 selects a free port; without a seed, uids and generated names are random.

    The range of services may be one of loopback addresses; then endpoints may have these, too: all pods of the cluster
    are on this machine.
    """

    host: str
    port: int
    data_dir: Path
    kubeconfig: Path
    durability: Durability
    seed: int | None = None
    service_range: IPv4Network = SERVICE_RANGE


def _now() -> int:
    return int(time.time() * SECOND)


Beside = Callable[[ApiServer, str], AbstractAsyncContextManager[None]]
"""Components in the same process, which start before the server listens and stop after it.

They get the server, and the certificate of its authority as PEM.
"""


async def serve(
    options: ServerOptions,
    ready: Callable[[str], None],
    stop: asyncio.Event,
    beside: Beside = standalone,
) -> None:
    """Serve until told to stop.

    Args:
        options: options of the server.
        ready: called with the address once the server answers and the kubeconfig is written.
        stop: ends the server when it is set.
        beside: other components in this process; by default, the controllers that complete deletions.

    Raises:
        StartError: it cannot start.
    """
    async with AsyncExitStack() as ending:  # in reverse: components, own work, the store with its watches, connections
        store = await _open_store(options)
        ending.push_async_callback(store.close)
        rng = Random(secrets.randbits(256) if options.seed is None else f"{options.seed} {store.revision}")
        workers = Workers()
        ending.push_async_callback(workers.close)
        registry = Registry(builtin_types(loopback=options.service_range.is_loopback))
        addresses = options.service_range
        large_writes = LargeWrites()
        ending.callback(large_writes.close)
        backend = Backend(
            store,
            registry,
            _now,
            rng,
            admission_steps(),
            heavy=workers,
            large_writes=large_writes,
            service_range=addresses,
        )
        api = ApiServer(backend)
        client = WebhookClient()
        ending.push_async_callback(client.close)
        try:
            await create_first_objects(api)
            await install_bundled(api)
        except RuntimeError as error:
            raise StartError(f"{options.data_dir}: {error}") from error
        credentials = _credentials(options, api)
        transport = Transport(
            api, Authenticator({credentials.token: ADMINISTRATOR}, api.backend.accounts), credentials.server_context()
        )
        ending.push_async_callback(transport.close)
        ending.push_async_callback(store.close)  # ends the watches, which would delay the end of connections
        collect_seldom()
        try:
            await ending.enter_async_context(_own_work(api))
        except (ApiError, StorageError) as error:
            raise StartError(f"{options.data_dir}: {error}") from error
        try:
            await ending.enter_async_context(aggregating(api, credentials))
        except RuntimeError as error:
            raise StartError(f"{options.data_dir}: {error}") from error
        # Only now: a webhook that does not answer must not reject the server's own objects, or it could never start.
        api.backend.dynamic = DynamicAdmission(store, client)
        await ending.enter_async_context(beside(api, credentials.ca.decode()))
        if not stop.is_set():
            ready(await _listen(options, api, transport, credentials))
            await stop.wait()


def _credentials(options: ServerOptions, api: ApiServer) -> Credentials:
    """Load the certificates, the administrator's token, and the key of service accounts."""
    folder = options.data_dir / "credentials"
    try:
        service = str(options.service_range[1]) if options.service_range.is_loopback else ""
        credentials = load_credentials(folder, options.host, datetime.datetime.now(datetime.UTC), service)
    except OSError as error:
        raise StartError(f"{error.filename or folder}: {error.strerror}; {remedy(error)}") from error
    except CredentialsError as error:
        raise StartError(str(error)) from error
    api.backend.sign = credentials.authority.sign
    api.backend.accounts = AccountTokens(credentials.account_key, api.backend.store, _now)
    return credentials


async def _listen(options: ServerOptions, api: ApiServer, transport: Transport, credentials: Credentials) -> str:
    """Start to answer requests over HTTPS; return the address, which the kubeconfig names."""
    try:
        port = await transport.listen(options.host, options.port)
    except OSError as error:
        advice = "choose another port with --listen, or 0 for any free port"
        raise cannot_listen(options.host, options.port, error, advice) from error
    host = f"[{options.host}]" if ":" in options.host else options.host
    address = f"https://{host}:{port}"
    try:
        await _publish(options, api, port)
    except RuntimeError as error:
        raise StartError(f"{options.data_dir}: {error}") from error
    try:
        write_kubeconfig(options.kubeconfig, address, credentials)
    except OSError as error:
        message = "choose another file with --kubeconfig"
        raise StartError(f"{options.kubeconfig}: cannot be written ({error.strerror}): {message}") from error
    return address


async def _publish(options: ServerOptions, api: ApiServer, port: int) -> None:
    """Write the service of the server: for pods of other machines, or for those of this one.

    Raises:
        RuntimeError: it cannot be stored.
    """
    if options.service_range.is_loopback:
        service_port = HTTPS if may_listen(str(options.service_range[1]), HTTPS) else port
        await publish_address(api, local_address(options.host), port, service_port)
    else:
        await publish_address(api, advertised_address(options.host), port)


@asynccontextmanager
async def _own_work(api: ApiServer) -> AsyncIterator[None]:
    """Serve custom resources, expire old events and return unused memory while the server runs."""
    definitions, clock = Definitions(api), SystemClock()
    await definitions.start()
    work = [expire_events(api.backend, clock), give_memory_back(clock, trimming())]
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await definitions.stop()


async def _open_store(options: ServerOptions) -> Store:
    """The stored objects of earlier runs. They may take half of the memory, and of the disk if they are kept there."""
    sizes = [read_memory()] if options.durability == "memory" else [read_memory(), read_storage(options.data_dir)]
    try:
        return await Store.open(options.data_dir / "store", options.durability, limit=min(sizes) // 2)
    except StorageError as error:
        raise StartError(str(error)) from error
