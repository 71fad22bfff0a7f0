"""The supervisor as a program: what it loads, and clients that it does not know."""

from __future__ import annotations

import asyncio
import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kilauea.kubelet.processes import connection
from kilauea.kubelet.processes import runtime as runtimes
from kilauea.kubelet.processes.connection import connect
from kilauea.kubelet.processes.runtime import ProcessRuntime
from support.containers import container, run, runtime

SOURCES = Path(__file__).resolve().parents[3] / "src"


def test_the_supervisor_loads_nothing_but_itself() -> None:
    program = (
        f"import sys; sys.path.append({str(SOURCES)!r}); import kilauea.kubelet.processes.supervisor.program\n"
        "print(*sorted(name for name in sys.modules if name.startswith('kilauea') or name in ('asyncio', 'logging')))"
    )
    loaded = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    others = [name for name in loaded.stdout.split() if "supervisor" not in name]
    assert others == ["kilauea", "kilauea.kubelet", "kilauea.kubelet.processes"]


def test_only_the_user_reaches_the_supervisor(tmp_path: Path) -> None:
    async def story() -> None:
        async with runtime(tmp_path):
            folder = tmp_path / "processes"
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert stat.S_IMODE((folder / "supervisor.sock").stat().st_mode) == 0o600

    asyncio.run(story())


def test_unknown_fields_are_ignored_and_unknown_calls_are_errors(tmp_path: Path) -> None:
    def ask(text: bytes) -> dict[str, object]:
        with connect(tmp_path / "processes") as link:
            link.sendall(text + b"\n")
            with link.makefile("rb") as file:
                reply: dict[str, object] = json.loads(file.readline())
                return reply

    async def story() -> None:
        async with runtime(tmp_path):
            later = {"id": 7, "call": "usage", "containers": [], "new": 1}
            assert ask(json.dumps(later).encode()) == {"id": 7, "result": {}}
            wanted = {"id": "one", "pod": "p", "name": "n", "attempt": 0, "argv": ["true"], "later": {"x": 1}}
            start = {"id": 8, "call": "start", "container": {**wanted, "log": str(tmp_path / "log")}}
            assert ask(json.dumps(start).encode())["id"] == 8
            for text, reason in [
                (b'{"id": 1, "call": "dance"}', "NotSupported"),
                (b"nonsense", "InvalidRequest"),
                (b"[1]", "InvalidRequest"),
                (b'{"id": 1, "call": "start"}', "InvalidRequest"),
                (b'{"id": 1, "call": "start", "container": {"id": "../x"}}', "InvalidRequest"),
                (b'{"id": 1, "call": "exec", "container": "none", "argv": []}', "NotFound"),
                (b'{"id": 1, "call": "signal", "container": "one", "signal": "x"}', "InvalidRequest"),
            ]:
                reply = ask(text)
                assert isinstance(reply["error"], dict)
                assert reply["error"]["reason"] == reason, text

    asyncio.run(story())


def test_an_invalid_id_of_a_container_never_becomes_a_path(tmp_path: Path) -> None:
    async def story() -> None:
        async with runtime(tmp_path):
            wanted = {
                "id": "../x",
                "pod": "p",
                "name": "n",
                "attempt": 0,
                "argv": ["true"],
                "log": str(tmp_path / "log"),
            }
            with connect(tmp_path / "processes") as link:
                link.sendall(json.dumps({"id": 1, "call": "start", "container": wanted}).encode() + b"\n")
                with link.makefile("rb") as file:
                    assert "characters that are not allowed in file names" in file.readline().decode()

    asyncio.run(story())


def test_a_folder_with_a_long_path_works(tmp_path: Path) -> None:
    async def story() -> None:
        deep = tmp_path / ("x" * 100) / ("y" * 100)
        async with runtime(deep) as opened:
            assert opened.supervisor > 0

    asyncio.run(story())


def test_two_clients_have_one_supervisor(tmp_path: Path) -> None:
    async def story() -> None:
        async with runtime(tmp_path) as one:
            two = ProcessRuntime(tmp_path / "processes")
            await two.open()
            assert two.supervisor == one.supervisor
            await two.close()

    asyncio.run(story())


def test_a_supervisor_of_another_version_is_replaced_once_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with runtime(tmp_path) as opened:
            ran = await run(opened, container(tmp_path, "true", id="ran"))
            await opened.start(container(tmp_path, "sleep", "600", id="runs"))
            before = opened.supervisor
            monkeypatch.setattr(runtimes, "__version__", "later")
            monkeypatch.setattr(connection, "__version__", "later")
            await opened.open()
            assert opened.supervisor == before
            await opened.kill("runs")
            assert (await anext(opened.exits())).id == "runs"
            states = await opened.open()
            assert opened.supervisor != before
            assert {state.id: state.exit_code for state in states} == {"ran": ran.exit_code, "runs": 137}
            assert (await run(opened, container(tmp_path, "true", id="later"))).exit_code == 0

    asyncio.run(story())
