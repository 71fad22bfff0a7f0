"""The recorder of a history at an API server in the same process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kilauea.apiserver.request import ApiResponse, make_request
from kilauea.history.changes import Evicted
from kilauea.history.errors import HistoryError
from kilauea.history.records import PodRecord
from kilauea.history.store import History
from kilauea.runtime.clock import SystemClock
from kilauea.runtime.cluster.direct import DirectClient
from kilauea.runtime.history.recorder import Recorder
from kilauea.runtime.history.serving import ServedHistory
from support.api_core import ADMIN, PODS, Api


@pytest.fixture
def api() -> Iterator[Api]:
    made = Api()
    yield made
    made.close()


def pod(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "2"}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


def recorded(api: Api, folder: Path, work: Callable[[Recorder], Awaitable[None]]) -> None:
    """Do something while a recorder runs, which then ends as with its process."""

    async def running() -> None:
        recorder = Recorder(DirectClient(api.server, "history"), folder, SystemClock(), Random(1))
        task = asyncio.ensure_future(recorder.run())
        try:
            await work(recorder)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    api.run(running())


def pods_in(folder: Path) -> dict[str, str]:
    try:
        history = History.read(folder)
    except HistoryError:
        return {}
    try:
        return {each.name: each.state for each in history.pods()}
    finally:
        history.close()


async def shown(recorder: Recorder, folder: Path, wanted: dict[str, str]) -> None:
    """Wait until the history has these pods in these states."""
    for _ in range(1000):
        await recorder.flush()
        if pods_in(folder) == wanted:
            return
        await asyncio.sleep(0.02)
    assert pods_in(folder) == wanted


async def ask(api: Api, method: str, path: str, body: Any = None) -> None:
    data = json.dumps(body).encode() if body is not None else b""
    answer = await api.server.handle(make_request(method, path, {}, data, ADMIN))
    assert isinstance(answer, ApiResponse)
    assert answer.status in (200, 201), answer.body


def test_what_happens_is_in_the_file_and_a_restart_goes_on(api: Api, tmp_path: Path) -> None:
    folder = tmp_path / "history"

    async def first(recorder: Recorder) -> None:
        await ask(api, "POST", PODS, pod("a"))
        await ask(api, "POST", PODS, pod("b"))
        await shown(recorder, folder, {"a": "Pending", "b": "Pending"})
        await ask(api, "DELETE", f"{PODS}/a")
        await shown(recorder, folder, {"a": "Deleted", "b": "Pending"})

    async def second(recorder: Recorder) -> None:
        await ask(api, "POST", PODS, pod("c"))
        await shown(recorder, folder, {"a": "Deleted", "b": "Lost", "c": "Pending"})

    recorded(api, folder, first)
    api.good("DELETE", f"{PODS}/b")
    recorded(api, folder, second)
    history = History.read(folder)
    assert len(history.pods()) == 3
    history.close()


def test_damage_that_a_reader_finds_is_repaired_while_the_cluster_runs(
    api: Api, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "history"
    folder.mkdir()
    old = History.open(folder)
    old.put([PodRecord(uid=f"u{n}", namespace="a", name=f"old-{n}", job="j", ended=1) for n in range(4000)], seen=1)
    old.close()

    async def work(recorder: Recorder) -> None:
        await ask(api, "POST", PODS, pod("a"))
        for _ in range(500):
            await recorder.flush()
            if "a" in pods_in(folder):
                break
            await asyncio.sleep(0.02)
        with (folder / "history.db").open("r+b") as file:
            size = file.seek(0, 2)
            file.seek(size // 8192 * 4096)
            file.write(b"\xaa" * (size // 4))
        served = ServedHistory(recorder, SystemClock().now, lambda kind: 0)
        found = await served.answer("UsageReport", "usagereports", "", "", {})
        assert isinstance(found, bytes)
        await ask(api, "POST", PODS, pod("b"))
        await recorder.flush()

    recorded(api, folder, work)
    assert {"a", "b"} <= set(pods_in(folder))


def test_a_history_that_cannot_be_written_disturbs_nothing(
    api: Api, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "history").write_text("a file where the folder should be")

    async def work(recorder: Recorder) -> None:
        await ask(api, "POST", PODS, pod("a"))
        recorder.evicted(Evicted(1, "default/a", "u", "n", "", "", "", "preempt"))
        await recorder.flush()
        for _ in range(500):
            if "there is no history" in caplog.text:
                break
            await asyncio.sleep(0.02)

    recorded(api, tmp_path / "history", work)
    assert "there is no history" in caplog.text
    assert "the folder of the history must be writable" in caplog.text


def test_a_damaged_history_is_named_and_a_new_one_started(
    api: Api, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "history"

    async def begin(recorder: Recorder) -> None:
        await ask(api, "POST", PODS, pod("a"))
        await shown(recorder, folder, {"a": "Pending"})

    async def again(recorder: Recorder) -> None:
        await shown(recorder, folder, {"a": "Pending"})

    recorded(api, folder, begin)
    path = folder / "history.db"
    path.write_bytes(path.read_bytes()[:5000])
    recorded(api, folder, again)
    assert "the history was damaged" in caplog.text
    history = History.read(folder)
    assert [reason for _, _, reason in history.gaps] == ["the file was damaged, and records may be missing"]
    history.close()
