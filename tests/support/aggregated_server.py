"""An API server of others over HTTPS, behind a service without a selector, and an API in memory that hands on to it."""

from __future__ import annotations

import asyncio
import base64
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

from kilauea.apiserver.aggregator.services import Aggregator
from kilauea.apiserver.api_services.availability import Availability
from kilauea.apiserver.api_services.registration import Registration
from kilauea.apiserver.http import aggregated_servers
from kilauea.apiserver.http.aggregated_servers import AggregatedServers
from support.api_core import Api
from support.ending import cancel_rest, stop_accepting

GROUP, VERSION = "wardle.example.com", "v1alpha1"
PATH = f"/apis/{GROUP}/{VERSION}"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
NAME = f"{VERSION}.{GROUP}"
FLUNDERS = {
    "name": "flunders", "singularName": "flunder", "namespaced": True, "kind": "Flunder", "shortNames": ["fl"],
    "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
}  # fmt: skip
STATUS = {"name": "flunders/status", "singularName": "", "namespaced": True, "kind": "Flunder", "verbs": ["get"]}
GOODBYE = 0.05

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AggregatedServer:
    """Serves in a thread; `requests` (method, path, headers) are of users, `checks` of the server in front."""

    def __init__(self, front_proxy: trustme.CA | None = None) -> None:
        self.requests: list[tuple[str, str, list[tuple[str, str]]]] = []
        self.checks: list[tuple[str, str, list[tuple[str, str]]]] = []
        self.handlers: dict[str, Handler] = {}
        """By path, in the place of what it serves otherwise."""
        self.resources: list[dict[str, Any]] = [FLUNDERS, STATUS]
        self.clients: list[str] = []
        """The names in the certificates of clients."""
        self._authority = trustme.CA()
        self._front_proxy = front_proxy
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port: int = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)

    @property
    def bundle(self) -> str:
        """The authority as an APIService names it."""
        return base64.b64encode(self._authority.cert_pem.bytes()).decode()

    def close(self) -> None:
        """End it."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def call(self, work: Callable[[], object]) -> None:
        """Do something in its thread."""
        self._loop.call_soon_threadsafe(work)

    def stop_listening(self) -> None:
        """Refuse connections."""
        asyncio.run_coroutine_threadsafe(stop_accepting(self._listening), self._loop).result(10)

    async def _end(self) -> None:
        await stop_accepting(self._listening)
        await self._runner.cleanup()
        await asyncio.sleep(2 * GOODBYE)
        await cancel_rest()

    async def _start(self) -> int:
        self._runner = web.ServerRunner(web.Server(self._answer), shutdown_timeout=0.1)
        await self._runner.setup()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._authority.issue_cert("api.default.svc").configure_cert(context)
        if self._front_proxy is not None:
            self._front_proxy.configure_trust(context)
            context.verify_mode = ssl.CERT_OPTIONAL
        assert self._runner.server is not None
        self._listening = await self._loop.create_server(
            self._runner.server, "127.0.0.1", 0, ssl=context, ssl_shutdown_timeout=GOODBYE
        )
        return int(self._listening.sockets[0].getsockname()[1])

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = [(name.lower(), value) for name, value in request.headers.items()]
        asked = (request.method, request.raw_path, headers)
        (self.checks if ("x-remote-user", "system:kube-aggregator") in headers else self.requests).append(asked)
        certificate = request.transport.get_extra_info("peercert") if request.transport is not None else None
        if certificate:
            self.clients += [value for part in certificate["subject"] for key, value in part if key == "commonName"]
        handler = self.handlers.get(request.path)
        if handler is not None:
            return await handler(request)  # type: ignore[arg-type]
        if request.path == PATH:
            listed = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/{VERSION}"}
            return web.json_response({**listed, "resources": self.resources})
        if request.path == f"/openapi/v3{PATH}":
            return web.json_response({"openapi": "3.0.0", "info": {"title": "wardle"}, "paths": {}})
        if request.path == "/openapi/v2":
            operation = {"get": {"responses": {"200": {"schema": {"$ref": "#/definitions/Flunder"}}}}}
            paths = {f"{PATH}/flunders": operation, "/apis/other/v1/": {}}
            definitions = {"Flunder": {"type": "object"}, "Other": {"type": "object"}}
            return web.json_response({"swagger": "2.0", "paths": paths, "definitions": definitions})
        if request.path.startswith(f"{PATH}/"):
            body = (await request.read()).decode()
            return web.json_response({"kind": "Echo", "path": request.raw_path, "body": body})
        return web.Response(status=404, text="404 page not found\n")


class Aggregation:
    """An API in memory that hands on to a server."""

    def __init__(self, api: Api, folder: Path, front_proxy: trustme.CA) -> None:
        self.api = api
        issued = front_proxy.issue_cert(common_name="front-proxy-client")
        files = folder / "front-proxy.crt", folder / "front-proxy.key"
        files[0].write_bytes(issued.cert_chain_pems[0].bytes())
        files[1].write_bytes(issued.private_key_pem.bytes())
        self.aggregator = Aggregator(api.backend, AggregatedServers(files))
        self.availability = Availability(api.server, self.aggregator, again=0.05)
        self.registration = Registration(api.server)
        api.server.aggregate(self.aggregator)

    def service(self, port: int, **more: Any) -> None:
        """Make the service `api`, which leads to a port of this machine."""
        self.api.good("POST", "/api/v1/namespaces/default/services", service(**more))
        self.api.good("POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", piece(port))

    def register(self, server: AggregatedServer, *, described: bool = True, **more: Any) -> None:
        """Make the service and the APIService, and wait until it is checked and, if it is, described."""
        self.service(server.port)
        self.api.good("POST", API_SERVICES, api_service(server.bundle, **more))
        self.wait("True")
        end = time.monotonic() + 30.0
        while [path for _, path, _ in server.checks].count("/openapi/v2") < 2 and described:  # one check is over
            assert time.monotonic() < end, server.checks
            self.api.run(asyncio.sleep(0.01))

    def open_connections(self, name: tuple[str, str] = (GROUP, VERSION)) -> int:
        """Connections of users to a server."""
        return self.aggregator.sessions(self.aggregator.services[name]).total

    def condition(self, name: str = NAME) -> dict[str, Any]:
        """The condition Available of an APIService; nothing while there is none."""
        conditions = self.api.good("GET", f"{API_SERVICES}/{name}").get("status", {}).get("conditions") or [{}]
        found: dict[str, Any] = conditions[0]
        return found

    def wait(self, status: str, reason: str = "", name: str = NAME, seconds: float = 30.0) -> dict[str, Any]:
        """Check until the condition has a status and a reason."""
        end = time.monotonic() + seconds
        while (found := self.condition(name)).get("status") != status or reason not in ("", found["reason"]):
            assert time.monotonic() < end, found
            self.api.run(asyncio.sleep(0.01))
        return found


def service(**more: Any) -> dict[str, Any]:
    """A service without a selector."""
    return {"metadata": {"name": "api"}, "spec": {"ports": [{"port": 443}], **more}}


def piece(port: int, address: str = "127.0.0.1") -> dict[str, Any]:
    """Its endpoints."""
    labels = {"kubernetes.io/service-name": "api"}
    ports = [{"name": "", "port": port}]
    endpoints = [{"addresses": [address], "conditions": {"ready": True}}]
    return {"metadata": {"name": "api-1", "labels": labels}, "addressType": "IPv4", "ports": ports,
            "endpoints": endpoints}  # fmt: skip


def api_service(bundle: str = "", group: str = GROUP, version: str = VERSION, **more: Any) -> dict[str, Any]:
    """An APIService; without an authority it accepts any certificate."""
    trust = {"caBundle": bundle} if bundle else {"insecureSkipTLSVerify": True}
    spec = {"group": group, "version": version, "groupPriorityMinimum": 2000, "versionPriority": 200, **trust,
            "service": {"name": "api", "namespace": "default"}, **more}  # fmt: skip
    return {"metadata": {"name": f"{version}.{group}"}, "spec": spec}


@contextmanager
def aggregation(folder: Path, front_proxy: trustme.CA) -> Iterator[Aggregation]:
    """An API in memory whose services are checked."""
    api = Api(service_range=IPv4Network("127.96.0.0/16"))
    made = Aggregation(api, folder, front_proxy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aggregated_servers, "GOODBYE_SECONDS", 0.01)
        with made.aggregator.following():
            task = api.loop.create_task(made.availability.run())
            yield made
            task.cancel()
            api.run(asyncio.wait((task,)))
        api.run(asyncio.sleep(0.05))  # by then, connections end that a server without processor time left open
    api.close()
