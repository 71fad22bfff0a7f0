"""The site: from requests to pages, streams and responses on demand. It does not change the cluster."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any
from urllib.parse import unquote

import msgspec
from aiohttp import web

from kilauea.api.kinds import EVENTS
from kilauea.api.ports import Api, ApiError, Clock, Key
from kilauea.api.quantity import Unit, unit_of
from kilauea.connections import Bounded
from kilauea.dashboard.pages import MOST_MANIFEST, Cluster, narrow_rights, plan_page
from kilauea.dashboard.picture import Entry
from kilauea.dashboard.plan_outcome import outcome, pasted_names, shown_messages
from kilauea.dashboard.rendering import Renderer
from kilauea.dashboard.rows import READ_EVENT, Event
from kilauea.runtime.dashboard.commands import Commands
from kilauea.runtime.dashboard.past import Past, Unavailable
from kilauea.runtime.dashboard.sessions import IDLE_SECONDS, Sessions, is_from_site, is_own_host, is_visit
from kilauea.runtime.dashboard.streams import MOST_VIEWERS, PATIENCE_SECONDS, Pages, stream
from kilauea.runtime.dashboard.watching import Watching

STATIC = {
    "dashboard.css": "text/css",
    "dashboard.js": "text/javascript",
    "icon.svg": "image/svg+xml",
    "vendor/htmx.min.js": "text/javascript",
    "vendor/hx-sse.min.js": "text/javascript",
    "vendor/uPlot.iife.min.js": "text/javascript",
    "vendor/uPlot.min.css": "text/css",
}
"""Served files, with their types."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
PAGE_HEADERS = {"Cache-Control": "no-store"}
FORM = "application/x-www-form-urlencoded"
"""The type of the body of a form."""
FORM_SECONDS = 10.0
"""Seconds until it must have arrived: clients without a session must not block connections of others."""
OPEN = ("/login", "/static/")
"""Paths that do not need a session."""
EVENTS_SHOWN, PODS_WITH_EVENTS = 100, 10
"""Maximum number of events of a job to show, and of pods whose events are read."""
LOG_LINES, LOG_BYTES = 200, 256 * 1024
SEND_BYTES = 64 * 1024
"""Bytes that the system buffers for a stream whose browser does not read."""
MOST_CONNECTIONS = 2 * MOST_VIEWERS
"""Maximum number of connections: an open page has one for its stream, and others briefly."""
GRACE_SECONDS = 0.5
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Source:
    """The cluster of a site, with the rights of one user.

    Attributes:
        api: the API.
        read_log: returns the last lines of a pod's log, given its key and maximum numbers of lines and bytes.
        commands: plans and explanations.
        past: the history.
        namespace: the only namespace to show; empty for all.
        server: the address to show.
        secret: the secret that the login page requests, in words.
    """

    api: Api
    read_log: Callable[[Key, int, int], Awaitable[bytes]]
    commands: Commands
    past: Past
    server: str
    secret: str
    namespace: str = ""


class Site:
    """The pages of one cluster.

    Args:
        source: the cluster.
        cluster: the picture that pages show.
        watching: updates the picture.
        sessions: the sessions of its users.
        clock: the time.
    """

    def __init__(self, source: Source, cluster: Cluster, watching: Watching, sessions: Sessions, clock: Clock) -> None:
        self._source, self._cluster, self._watching = source, cluster, watching
        self._sessions = sessions
        self._renderer = Renderer(clock.now, source.server)
        self._pages = Pages(cluster, self._renderer, watching.refresh)
        self._viewers = 0
        self._port = 0
        self._files = {name: files("kilauea.dashboard").joinpath("static", name).read_bytes() for name in STATIC}
        self._tags = {name: f'"{hashlib.sha256(data).hexdigest()[:20]}"' for name, data in self._files.items()}

    @asynccontextmanager
    async def serving(self, host: str, port: int) -> AsyncIterator[int]:
        """Serve for the length of a block; yields the port, a free one for 0.

        Raises:
            OSError: it cannot listen on the address.
        """
        application = web.Application(client_max_size=2 * MOST_MANIFEST, middlewares=[self._guard])
        application.add_routes(
            [
                web.get("/login", self._login_page, allow_head=False),
                web.post("/login", self._login),
                web.get("/static/{name:.+}", self._static),
                web.get("/live{path:/.*}", self._live),
                web.get("/series", self._series),
                web.get("/plan", self._plan_page),
                web.post("/plan", self._plan),
                web.get("/jobs/{kind}/{namespace}/{name}/explain", self._explain),
                web.get("/jobs/{kind}/{namespace}/{name}/events", self._events),
                web.get("/jobs/{kind}/{namespace}/{name}/logs", self._logs),
                web.get("/jobs/{kind}/{namespace}/{name}/past", self._past),
                web.get("/history/usage", self._usage),
                web.get("/history/jobs", self._earlier),
                web.get("/history/{namespace}/{name}/past", self._past),
                web.get("/{path:.*}", self._page),
            ]
        )
        async with Bounded(application, MOST_CONNECTIONS, math.inf, GRACE_SECONDS) as server:
            self._port = await server.listen(host, port)
            yield self._port

    @property
    def _cookie(self) -> str:
        """The name of the cookie: browsers send the cookies of a host to all its ports."""
        return f"kilauea-dashboard-{self._port}"

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Accept only requests to the site, from its own pages, within a session."""
        try:
            response = await self._guarded(request, handler)
        except web.HTTPException as error:
            response = error
        if not response.prepared:
            response.headers.update(HEADERS)
            if not request.path.startswith("/static/"):
                response.headers.update(PAGE_HEADERS)
        if isinstance(response, web.HTTPException):
            raise response
        return response

    async def _guarded(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if not is_own_host(request.headers.get("Host", ""), self._port):
            raise web.HTTPMisdirectedRequest(text="This site is only available at 127.0.0.1, localhost and [::1].\n")
        if not (is_from_site(request.headers) or (request.method == "GET" and is_visit(request.headers))):
            raise web.HTTPForbidden(text="Requests from other sites are refused. Open the page itself.\n")
        if not request.path.startswith(OPEN):
            if not self._sessions.knows(request.cookies.get(self._cookie, "")):
                if request.method == "GET" and request.headers.get("Sec-Fetch-Mode", "navigate") == "navigate":
                    raise web.HTTPSeeOther("/login")
                raise web.HTTPUnauthorized(text="Log in first.\n")
            self._watching.look()
        return await handler(request)

    # --- login

    async def _login_page(self, request: web.Request) -> web.StreamResponse:
        token = request.query.get("token", "")
        return self._enter(request, token) if token else self._ask("")

    async def _login(self, request: web.Request) -> web.StreamResponse:
        return self._enter(request, str((await _form(request)).get("token", "")).strip())

    def _enter(self, request: web.Request, token: str) -> web.StreamResponse:
        secret = self._sessions.enter(token)
        if not secret:
            return self._ask("This token is invalid, or its link has already been used.", 403)
        response = web.HTTPSeeOther("/")
        response.set_cookie(self._cookie, secret, max_age=IDLE_SECONDS, httponly=True, samesite="Strict", path="/")
        return response

    def _ask(self, error: str, status: int = 200) -> web.Response:
        return _html(self._renderer.login(self._source.secret, error), status)

    # --- pages

    async def _page(self, request: web.Request) -> web.StreamResponse:
        text = self._pages.whole(request.rel_url.raw_path, _query(request), f"/live{request.rel_url.raw_path_qs}")
        if text is None:
            raise web.HTTPNotFound(text="This page does not exist.\n")
        response = _html(text)
        response.enable_compression()
        return response

    async def _static(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name not in self._files:
            raise web.HTTPNotFound(text="This file does not exist.\n")
        headers = {"ETag": self._tags[name], "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == self._tags[name]:
            return web.Response(status=304, headers=headers)
        return web.Response(body=self._files[name], content_type=STATIC[name], charset="utf-8", headers=headers)

    async def _live(self, request: web.Request) -> web.StreamResponse:
        path = request.rel_url.raw_path.removeprefix("/live")
        if self._viewers >= MOST_VIEWERS:
            raise web.HTTPServiceUnavailable(text=f"{MOST_VIEWERS} pages are open already: close one.\n")
        if self._pages.rendered(path, _query(request)) is None:
            raise web.HTTPNotFound(text="This page does not exist.\n")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **HEADERS, **PAGE_HEADERS})
        self._viewers += 1
        try:
            _bound(request)
            await response.prepare(request)
            await stream(self._pages, path, _query(request), _sender(request, response))
        except ConnectionError:
            response.force_close()
        finally:
            self._viewers -= 1
        return response

    async def _series(self, request: web.Request) -> web.StreamResponse:
        query = _query(request)
        queue, resource = query.get("queue", ""), query.get("resource", "")
        series = self._cluster.series
        scale = 1 / 1000 if unit_of(resource) is Unit.MILLI else 1
        used, deserved = (_scaled(line, scale) for line in series.of(queue, resource))
        unit = "bytes" if unit_of(resource) is Unit.BYTES else ""
        found = {"times": series.times(), "used": used, "deserved": deserved, "unit": unit}
        return web.Response(text=json.dumps(found), content_type="application/json")

    # --- on demand

    @property
    def _narrow(self) -> str:
        """The reason why plans may fail with the permissions of the user; empty for none."""
        return narrow_rights(self._source.namespace, self._cluster.picture.refusals)

    async def _plan_page(self, request: web.Request) -> web.StreamResponse:
        return _html(self._renderer.page(plan_page("", None, self._narrow)))

    async def _plan(self, request: web.Request) -> web.StreamResponse:
        manifest = str((await _form(request)).get("manifest", ""))
        given = manifest.encode()
        if len(given) > MOST_MANIFEST:
            model = outcome(None, "", f"the objects have {len(given)} bytes: give at most {MOST_MANIFEST}")
        else:
            done = await self._source.commands.run("plan", "-f", "-", "-o", "json", given=given)
            model = outcome(_object_in(done.output), done.errors, done.fault, pasted_names(given))
        if "HX-Request" in request.headers:
            return _html(self._renderer.template("outcome.html", model))
        return _html(self._renderer.page(plan_page(manifest, model, self._narrow)))

    async def _explain(self, request: web.Request) -> web.StreamResponse:
        entry = self._entry(request)
        kind = "job" if entry.kind == "Job" else "podgroup"
        words = ("explain", kind, entry.key.name, "-n", entry.key.namespace)
        done = await self._source.commands.run(*words)
        messages = shown_messages(done.errors)
        text = done.output.decode(errors="replace")
        error = done.fault or ("\n".join(messages) if done.code else "")
        if error and self._narrow:
            error = f"{error}\n{self._narrow}"
        model = {
            "text": text,
            "start": next((line for line in text.splitlines() if line.startswith("Expected start: ")), ""),
            "error": error,
            "label": "Explanation",
            "empty": "nothing to explain",
            "command": f"kilauea {' '.join(words)}",
        }
        return _html(self._renderer.template("text.html", model))

    async def _past(self, request: web.Request) -> web.StreamResponse:
        *_, namespace, name, _ = (unquote(each) for each in request.rel_url.raw_path.split("/"))
        try:
            model = await self._source.past.job(namespace, name, request.query.get("uid", ""))
        except Unavailable as error:
            return self._nothing(str(error))
        return (
            self._nothing("The history does not contain this job.")
            if model is None
            else self._fragment("past.html", model)
        )

    async def _usage(self, request: web.Request) -> web.StreamResponse:
        try:
            return self._fragment("usage.html", await self._source.past.usage(request.query.get("span", "")))
        except Unavailable as error:
            return self._nothing(str(error))

    async def _earlier(self, request: web.Request) -> web.StreamResponse:
        query = _query(request)
        try:
            return self._fragment("earlier.html", {**await self._source.past.jobs(query), "query": query})
        except Unavailable as error:
            return self._nothing(str(error))

    def _fragment(self, template: str, model: Mapping[str, Any]) -> web.Response:
        return _html(self._renderer.template(template, model))

    def _nothing(self, why: str) -> web.Response:
        return self._fragment("text.html", {"text": "", "error": "", "empty": why, "command": ""})

    async def _events(self, request: web.Request) -> web.StreamResponse:
        entry = self._entry(request)
        names = [entry.key.name, *([entry.group.name] if entry.group is not None else [])]
        pods = self._cluster.picture.pods_of(entry)
        names += [pod.key.name for pod in pods[:PODS_WITH_EVENTS]]
        uids = {pod.uid for pod in pods}
        try:
            lists = await asyncio.gather(*(self._events_about(entry.key.namespace, name) for name in names))
        except ApiError as error:
            return _html(self._renderer.template("events.html", {"error": str(error), "events": [], "more": 0}))
        found = {each.key: each for events in lists for each in events if _concerns(each, entry, uids)}
        newest = sorted(found.values(), key=lambda each: (-each.at, each.key))
        model = {"error": "", "events": newest[:EVENTS_SHOWN], "more": max(0, len(newest) - EVENTS_SHOWN)}
        return _html(self._renderer.template("events.html", model))

    async def _events_about(self, namespace: str, name: str) -> list[Event]:
        listed = await self._source.api.list(EVENTS, namespace, fields=f"involvedObject.name={name}")
        return [READ_EVENT(item) for item in listed.items]

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        entry, name = self._entry(request), request.query.get("pod", "")
        model = {"text": "", "error": "", "label": f"Log of {name}", "empty": "The log is empty.", "command": ""}
        if any(pod.key.name == name for pod in self._cluster.picture.pods_of(entry)):
            model["command"] = f"kubectl logs {name} -n {entry.key.namespace} --tail={LOG_LINES}"
            try:
                found = await self._source.read_log(Key(entry.key.namespace, name), LOG_LINES, LOG_BYTES)
                model["text"] = found[-LOG_BYTES:].decode(errors="replace")
            except ApiError as error:
                model["error"] = str(error)
        else:
            model["error"] = f"The job has no pod {name}." if name else "No pod of the job has started."
        return _html(self._renderer.template("text.html", model))

    def _entry(self, request: web.Request) -> Entry:
        """The job of a request.

        Raises:
            HTTPNotFound: it does not exist.
        """
        parts = [unquote(each) for each in request.rel_url.raw_path.split("/")[2:5]]
        found = self._cluster.picture.find(*parts) if len(parts) == 3 else None
        if found is None:
            raise web.HTTPNotFound(text="This job does not exist.\n")
        return found


def _bound(request: web.Request) -> None:
    """Limit the system's buffer for a browser that does not read."""
    connection = request.transport.get_extra_info("socket") if request.transport is not None else None
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)


def _sender(request: web.Request, response: web.StreamResponse) -> Callable[[bytes], Awaitable[None]]:
    """Send to a browser; disconnects it if it does not read for too long."""

    async def send(data: bytes) -> None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await response.write(data)
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError("the browser does not read") from None

    return send


def _concerns(event: Event, entry: Entry, uids: set[str]) -> bool:
    """Return True if an event is about a job, its pod group, or one of its pods."""
    kind, key, uid = event.about
    return uid in uids if kind == "Pod" else key == (entry.key if kind == entry.kind else entry.group)


async def _form(request: web.Request) -> Mapping[str, object]:
    """The fields of a form, as browsers send those of the pages.

    Others are rejected unread: decoding some of them (punycode) takes quadratic time.

    Raises:
        HTTPBadRequest: the body is not such a form.
        HTTPRequestTimeout: it did not arrive in time.
    """
    try:
        if request.content_type != FORM or (request.charset or "utf-8").lower() != "utf-8":
            raise ValueError("another form")
        async with asyncio.timeout(FORM_SECONDS):
            return await request.post()
    except ValueError as error:
        raise web.HTTPBadRequest(text="The form cannot be read.\n") from error
    except TimeoutError as error:
        raise web.HTTPRequestTimeout(text="The form did not arrive in time.\n") from error


def _query(request: web.Request) -> Mapping[str, str]:
    return {name: request.query[name] for name in request.query}


def _html(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, status=status, content_type="text/html")


def _object_in(text: bytes) -> Mapping[str, object] | None:
    """The JSON object in an output; None if there is none."""
    try:
        found: dict[str, object] = msgspec.json.decode(text, type=dict)
    except msgspec.MsgspecError:
        return None
    return found


def _scaled(values: list[float | None], scale: float) -> list[float | None]:
    return [None if value is None else round(value * scale, 3) for value in values]
