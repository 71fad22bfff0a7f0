"""The site over HTTP, beside a real API server in memory: who gets in, what is sent, and browsers that misbehave."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest
from yarl import URL

from kilauea.api.kinds import NODES
from kilauea.api.ports import ApiError, Key
from kilauea.api.times import SECOND
from kilauea.apiserver.admission.chain import admission_steps
from kilauea.apiserver.backend import Backend
from kilauea.apiserver.bootstrap import create_first_objects
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.resources.builtin import builtin_types
from kilauea.apiserver.resources.registry import Registry
from kilauea.apiserver.storage import Store
from kilauea.client import reflector
from kilauea.client.rest import Client
from kilauea.dashboard.pages import MOST_MANIFEST, Cluster, narrow_rights
from kilauea.dashboard.picture import Picture
from kilauea.dashboard.rows import READ_NODE
from kilauea.dashboard.series import Series
from kilauea.dashboard.tables import Table
from kilauea.history.records import Event, JobRecord, PodRecord
from kilauea.history.store import History
from kilauea.runtime.clock import SystemClock
from kilauea.runtime.cluster.direct import DirectClient
from kilauea.runtime.dashboard import streams
from kilauea.runtime.dashboard.commands import Commands, Done
from kilauea.runtime.dashboard.past import Past
from kilauea.runtime.dashboard.sessions import IDLE_SECONDS, MOST_SESSIONS, Sessions
from kilauea.runtime.dashboard.site import Site, Source
from kilauea.runtime.dashboard.watching import Watching
from support.virtual_time import LoopClock, VirtualLoop

ESTABLISHED = "01"
"""The state of a connection as the system lists it."""
PASSWORD = "the-servers-token"


@dataclass
class Running:
    """A site that answers."""

    base: str
    port: int
    sessions: Sessions
    cluster: Cluster
    client: Client
    browser: aiohttp.ClientSession
    """With cookies, and without redirects unless a test asks for them."""
    links: list[str]

    async def log_in(self) -> None:
        """Open the link that works next."""
        async with self.browser.get(f"{self.base}/login?token={self.sessions.token}") as answer:
            assert answer.status == 200

    async def text(self, path: str, status: int = 200, **headers: str) -> str:
        """What is at a path."""
        async with self.browser.get(self.base + path, allow_redirects=False, headers=headers) as answer:
            assert answer.status == status
            return await answer.text()


class Refusing(DirectClient):
    """A client of a user who may not list nodes."""

    async def list(self, resource: Any, *args: Any, **kwargs: Any) -> Any:
        if resource == NODES:
            raise ApiError(403, "Forbidden", 'nodes is forbidden: User "ann" cannot list resource "nodes"')
        return await super().list(resource, *args, **kwargs)


@asynccontextmanager
async def site(client_of: Callable[[ApiServer], Client] | None = None) -> AsyncIterator[Running]:
    """A site beside an API server of its own."""
    clock, rng = SystemClock(), Random(1)
    store = await Store.open(None, "memory")
    api = ApiServer(Backend(store, Registry(builtin_types()), clock.now, rng, admission_steps()))
    await create_first_objects(api)
    client = client_of(api) if client_of is not None else DirectClient(api, "tester", rng)
    cluster, links = Cluster(Picture(), Series()), list[str]()
    watching = Watching(client, cluster, clock, rng)
    sessions = Sessions(clock, PASSWORD, links.append)
    commands = Commands(Path("/nonexistent/kubeconfig"), {"PYTHONPATH": ":".join(sys.path)})
    source = Source(client, client.log, commands, Past(client, clock), "here", "Token")
    running = Site(source, cluster, watching, sessions, clock)
    watch = asyncio.create_task(watching.run())
    jar = aiohttp.CookieJar(unsafe=True)
    async with running.serving("127.0.0.1", 0) as port, aiohttp.ClientSession(cookie_jar=jar) as browser:
        yield Running(f"http://127.0.0.1:{port}", port, sessions, cluster, client, browser, links)
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)
    await store.close()


def run(test: Callable[[Running], Coroutine[Any, Any, None]], client_of: Any = None) -> None:
    """Run a test at a site."""

    async def main() -> None:
        async with asyncio.timeout(60), site(client_of) as running:
            await test(running)

    asyncio.run(main())


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something that is to become true."""
    while not await true():
        await asyncio.sleep(0.02)


def node(name: str) -> dict[str, Any]:
    status = {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def test_a_link_works_once_and_the_next_one_is_told() -> None:
    async def test(at: Running) -> None:
        first = at.sessions.token
        await at.log_in()
        assert at.links == [at.sessions.token]
        assert "<h1>Overview</h1>" in await at.text("/")
        async with aiohttp.ClientSession() as other, other.get(f"{at.base}/login?token={first}") as answer:
            assert answer.status == 403
            assert "has already been used" in await answer.text()

    run(test)


def test_the_servers_own_token_opens_the_site_too() -> None:
    async def test(at: Running) -> None:
        for token, status in (("wrong", 403), ("", 403), (PASSWORD, 200)):
            async with at.browser.post(f"{at.base}/login", data={"token": token}) as answer:
                assert answer.status == status
        assert "<h1>Jobs</h1>" in await at.text("/jobs")

    run(test)


def test_without_a_session_nothing_is_shown() -> None:
    async def test(at: Running) -> None:
        for path in ("/", "/jobs", "/live/", "/series", "/plan", "/jobs/Job/a/b/logs"):
            await at.text(path, 303)
            await at.text(path, 401, **{"Sec-Fetch-Mode": "cors"})
        async with at.browser.post(f"{at.base}/plan", data={"manifest": "a"}) as answer:
            assert answer.status == 401
        assert not at.cluster.picture.nodes.complete, "nothing is watched for strangers"

    run(test)


def test_the_cookie_is_not_for_scripts_nor_for_other_sites() -> None:
    async def test(at: Running) -> None:
        async with at.browser.get(f"{at.base}/login?token={at.sessions.token}", allow_redirects=False) as answer:
            cookie = answer.headers["Set-Cookie"]
        assert cookie.startswith(f"kilauea-dashboard-{at.port}=")
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))

    run(test)


def test_every_answer_forbids_foreign_scripts_and_frames() -> None:
    async def test(at: Running) -> None:
        await at.log_in()
        for path in ("/", "/login", "/static/dashboard.js", "/none", "/live/none"):
            async with at.browser.get(at.base + path) as answer:
                policy = answer.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy
                assert "frame-ancestors 'none'" in policy

    run(test)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:80", ""]
)
def test_a_name_that_resolves_to_this_machine_is_not_the_site(host: str) -> None:
    async def test(at: Running) -> None:
        await at.log_in()
        await at.text("/", 421, Host=host)
        await at.text("/", 200, Host=f"localhost:{at.port}")

    run(test)


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://127.0.0.1:1"}, {"Origin": "null"}, {"Sec-Fetch-Site": "same-site"}]
)
def test_work_is_not_done_for_pages_of_other_ports(headers: dict[str, str]) -> None:
    async def test(at: Running) -> None:
        await at.log_in()
        async with at.browser.post(f"{at.base}/plan", data={"manifest": "a"}, headers=headers) as answer:
            assert answer.status == 403

    run(test)


@pytest.mark.parametrize("fetched", [("no-cors", "image"), ("cors", "empty"), ("navigate", "iframe")])
@pytest.mark.parametrize("path", ["/", "/live/jobs", "/jobs/Job/default/train/explain", "/static/dashboard.js"])
def test_pages_of_other_ports_can_only_link_to_the_site(path: str, fetched: tuple[str, str]) -> None:
    headers = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": fetched[0], "Sec-Fetch-Dest": fetched[1]}

    async def test(at: Running) -> None:
        await at.log_in()
        async with at.browser.get(f"{at.base}{path}", headers=headers) as answer:
            assert answer.status == 403
        visit = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        async with at.browser.get(f"{at.base}/", headers=visit) as answer:
            assert answer.status == 200

    run(test)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data; boundary=x", b"no part"),
        ("multipart/form-data", b"no boundary"),
        ("multipart/form-data; boundary=x", b"--x\r\nContent-Type: text/plain\r\n\r\na\r\n--x--\r\n"),
        ("application/x-www-form-urlencoded; charset=nonsense", b"token=a"),
        ("application/x-www-form-urlencoded; charset=utf-16", b"t"),
        ("application/x-www-form-urlencoded", b"token=\xff"),
    ],
)
def test_a_broken_form_of_who_has_not_logged_in_is_refused(kind: str, body: bytes) -> None:
    async def test(at: Running) -> None:
        async with at.browser.post(f"{at.base}/login", data=body, headers={"Content-Type": kind}) as answer:
            assert answer.status in (400, 403)
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]

    run(test)


@pytest.mark.parametrize("charset", ["punycode", "unicode_escape", "utf-7"])
@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_a_form_in_an_encoding_that_can_take_long_is_not_decoded(kind: str, charset: str) -> None:
    async def test(at: Running) -> None:
        type, body = f"{kind}; charset={charset}", f"token={PASSWORD}".encode(charset)
        if kind.startswith("multipart"):
            head = f'Content-Disposition: form-data; name="token"\r\nContent-Type: text/plain; charset={charset}'
            type = kind
            body = b"--x\r\n%s\r\n\r\n%s\r\n--x--\r\n" % (head.encode(), PASSWORD.encode(charset))
        async with at.browser.post(f"{at.base}/login", data=body, headers={"Content-Type": type}) as answer:
            assert answer.status == 400  # with this password, it would be let in

    run(test)


def test_a_form_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kilauea.runtime.dashboard.site.FORM_SECONDS", 0.05)

    async def test(at: Running) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        head = f"POST /login HTTP/1.1\r\nHost: 127.0.0.1:{at.port}\r\nContent-Length: 99\r\n"
        writer.write(f"{head}Content-Type: application/x-www-form-urlencoded\r\n\r\ntoken=".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
        writer.close()

    run(test)


def test_a_change_comes_over_the_stream_as_the_part_of_the_page_that_shows_it() -> None:
    async def test(at: Running) -> None:
        await at.log_in()
        async with at.browser.get(f"{at.base}/live/nodes") as stream:
            assert stream.headers["Content-Type"] == "text/event-stream"
            await at.client.create(NODES, "", node("late"))
            found = b""
            while b'hx-target="#nodes"' not in found or b"late" not in found:
                found += await stream.content.readany()

    run(test)


def test_a_page_that_does_not_change_sends_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "SHORTEST_PAUSE", 0.02)

    async def test(at: Running) -> None:
        await at.log_in()

        async def complete() -> bool:
            return at.cluster.picture.complete

        await until(complete)
        async with at.browser.get(f"{at.base}/live/jobs") as stream:
            await stream.content.readuntil(b"\n\n")
            await stream.content.readuntil(b"\n\n")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await stream.content.readany()

    run(test)


@pytest.mark.slow
def test_a_browser_that_never_reads_is_dropped_and_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kilauea.runtime.dashboard.site.PATIENCE_SECONDS", 0.3)
    monkeypatch.setattr(streams, "SHORTEST_PAUSE", 0.01)

    async def test(at: Running) -> None:
        await at.log_in()
        for number in range(200):
            await at.client.create(NODES, "", node(f"n{number}"))
        cookies = at.browser.cookie_jar.filter_cookies(URL(at.base))
        cookie = "; ".join(f"{name}={morsel.value}" for name, morsel in cookies.items())
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", at.port))
        deaf.send(f"GET /live/nodes HTTP/1.1\r\nHost: 127.0.0.1:{at.port}\r\nCookie: {cookie}\r\n\r\n".encode())
        made = 0

        async def closed() -> bool:
            nonlocal made
            made += 1
            changed = node("n0") | {"spec": {"unschedulable": bool(made % 2)}}
            changed["metadata"] = {"name": "n0", "labels": {"turn": str(made)}}
            await at.client.patch(NODES, Key("", "n0"), {"metadata": changed["metadata"], "spec": changed["spec"]})
            assert "n199" in await at.text("/nodes?search=n199")
            port = f":{deaf.getsockname()[1]:04X}"
            rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()]
            return not [row for row in rows if row[2].endswith(port) and row[3] == ESTABLISHED]

        await until(closed)
        deaf.close()

    run(test)


def test_a_kind_that_the_user_may_not_list_is_named_and_the_rest_is_shown() -> None:
    async def test(at: Running) -> None:
        await at.log_in()

        async def told() -> bool:
            return "You may not list nodes" in await at.text("/")

        await until(told)
        text = await at.text("/")
        assert "User &#34;ann&#34; cannot list resource" in text
        assert "<h1>Overview</h1>" in text

    run(test, lambda api: Refusing(api, "ann"))


def test_nothing_is_watched_any_more_when_no_page_was_open_for_long_and_it_is_again_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kilauea.runtime.dashboard.watching.IDLE_SECONDS", 0.5)
    monkeypatch.setattr("kilauea.runtime.dashboard.watching.LOOK_SECONDS", 0.02)

    async def test(at: Running) -> None:
        nodes = at.cluster.picture.nodes

        async def shows() -> bool:
            return "late</a>" in await at.text("/nodes")

        async def rests() -> bool:
            return not nodes.complete

        await at.log_in()
        await at.client.create(NODES, "", node("late"))
        await until(shows)
        await until(rests)
        await at.client.delete(NODES, Key("", "late"))
        assert len(nodes) == 1, "the change was not seen"
        await at.text("/nodes")

        async def shows_no_more() -> bool:
            return not await shows()

        await until(shows_no_more)

    run(test)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        pytest.param("x" * (MOST_MANIFEST + 1), "give at most", id="too much"),
        pytest.param("kind: Job", "no such file", id="the command says what is wrong"),
    ],
)
def test_a_plan_that_cannot_be_made_says_why(manifest: str, words: str) -> None:
    async def test(at: Running) -> None:
        await at.log_in()
        async with at.browser.post(f"{at.base}/plan", data={"manifest": manifest}) as answer:
            assert answer.status == 200
            assert words in await answer.text()

    run(test)


def test_static_files_are_only_those_of_the_site() -> None:
    async def test(at: Running) -> None:
        for path in (
            "/static/../pages.py",
            "/static/%2e%2e/pages.py",
            "/static/vendor/MANIFEST",
            "/static//etc/passwd",
        ):
            async with at.browser.get(URL(at.base + path, encoded=True)) as answer:
                assert "import" not in await answer.text()
        async with at.browser.get(f"{at.base}/static/dashboard.css") as answer:
            tag = answer.headers["ETag"]
        await at.text("/static/dashboard.css", 304, **{"If-None-Match": tag})

    run(test)


def test_sessions_end_when_they_are_idle_and_the_oldest_for_too_many() -> None:
    loop = VirtualLoop()
    sessions = Sessions(LoopClock(loop), "password")
    first = sessions.enter("password")
    loop.seconds += IDLE_SECONDS - 1
    assert sessions.knows(first)
    loop.seconds += IDLE_SECONDS + 1
    assert not sessions.knows(first)
    kept = []
    for _ in range(MOST_SESSIONS + 1):
        loop.seconds += 1
        kept.append(sessions.enter("password"))
    assert [sessions.knows(each) for each in (kept[0], kept[1], kept[-1])] == [False, True, True]
    loop.close()


def test_commands_wait_for_their_turn_and_too_many_are_refused(tmp_path: Path) -> None:
    async def main() -> list[Done]:
        commands = Commands(tmp_path / "none", {"PYTHONPATH": ":".join(sys.path)})
        return await asyncio.gather(*(commands.run("version") for _ in range(6)))

    done = asyncio.run(main())
    assert [bool(each.fault) for each in done] == [False] * 4 + [True] * 2


def test_pages_of_the_past_say_that_there_is_no_history() -> None:
    async def test(at: Running) -> None:
        await at.log_in()
        for path in ("/history/jobs", "/history/usage?span=week", "/jobs/Job/a/b/past", "/history/a/b/past?uid=c"):
            assert "start the scheduler with --history" in await at.text(path)
        assert "Usage by queue" in await at.text("/history")

    run(test)


def test_a_folder_with_a_history_is_shown(tmp_path: Path) -> None:
    history = History.open(tmp_path)
    begin = SystemClock().now() - 3600 * SECOND
    history.put(
        [
            JobRecord(uid="j", namespace="a", name="<b>", kind="Job.batch.volcano.sh", queue="q", deleted=begin + 9),
            PodRecord(uid="p", namespace="a", name="p-0", job="j", queue="q", resources={"cpu": 4000}, bound=begin),
            Event(time=begin, what="Evicted", namespace="a", job="j", pod="p-0", by="b/urgent", action="reclaim"),
        ],
        begin + 1800 * SECOND,
    )
    history.close()

    async def test() -> None:
        past = Past(DirectClient.__new__(DirectClient), SystemClock(), folder=tmp_path)
        life = await past.job("a", "<b>", "")
        assert life is not None
        assert ["evicted for pod group b/urgent" in each.text for each in life["entries"]].count(True) == 1
        assert await past.job("a", "none", "") is None
        listed = await past.jobs({"queue": "q"})
        assert [each.path for each in listed["jobs"]] == ["/jobs/Job/a/%3Cb%3E?uid=j"]
        (chart,) = (await past.usage("day"))["charts"]
        (line,) = chart["chart"].lines
        assert (line.name, round(line.total * chart["hours"], 2)) == ("q", 2.0)

    asyncio.run(test())


@pytest.mark.parametrize(
    ("namespace", "refused", "words"),
    [
        ("", [], None),
        ("research", [], "this page only shows namespace research"),
        ("research", ["pods", "nodes"], "you may not list nodes, pods"),
    ],
)
def test_users_with_few_rights_learn_why_plans_fail(namespace: str, refused: list[str], words: str | None) -> None:
    said = narrow_rights(namespace, refused)
    assert said == "" if words is None else words in said


def test_others_run_between_the_steps_of_a_long_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "STEP", 10)

    async def test(at: Running) -> None:
        for number in range(40):
            await at.client.create(NODES, "", node(f"n{number}"))
        turns, seen = [0], set[int]()
        table = Table(READ_NODE, lambda old, new: seen.add(turns[0]))

        async def turn() -> None:
            while True:
                turns[0] += 1
                await asyncio.sleep(0)

        listing = reflector.Reflector(
            at.client, NODES, table, SystemClock(), Random(1), reduce=table.reduce, in_steps=True
        )
        tasks = [asyncio.create_task(turn()), asyncio.create_task(listing.run())]
        await listing.complete.wait()
        assert (len(table), len(seen)) == (40, 4)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(test)
