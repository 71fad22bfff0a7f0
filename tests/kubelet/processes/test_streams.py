"""Other commands in running containers, and what is attached to them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from kilauea.kubelet.container_runtime import Container, ContainerError
from kilauea.kubelet.processes.runtime import Isolation
from kilauea.kubelet.processes.supervisor.executions import told_by
from support.containers import container, exit_of, logged, output_of, processes_of, read_until, runtime, until


@pytest.fixture(params=["plain", "namespaces"])
def isolation(request: pytest.FixtureRequest) -> Isolation:
    return "plain" if request.param == "plain" else "namespaces"


def test_exec_runs_a_command_with_the_variables_of_the_container(tmp_path: Path, isolation: Isolation) -> None:
    async def story() -> None:
        async with runtime(tmp_path, isolation) as opened:
            await opened.start(container(tmp_path, "sleep", "1000", environment={"COLOR": "red"}, working_dir="/usr"))
            script = 'echo "$COLOR $(pwd)"; echo problem >&2; cat; exit 4'
            process = await opened.exec("one", ["sh", "-c", script], stdin=True)
            await process.write(b"typed\n")
            await process.end_input()
            assert await output_of(process) == (b"red /usr\ntyped\n", b"problem\n", 4)
            assert await output_of(await opened.exec("one", ["cat"])) == (b"", b"", 0)

    asyncio.run(story())


def test_exec_has_a_terminal_of_the_size_that_was_set(tmp_path: Path, isolation: Isolation) -> None:
    async def story() -> None:
        async with runtime(tmp_path, isolation) as opened:
            await opened.start(container(tmp_path, "sleep", "1000"))
            process = await opened.exec("one", ["sh"], stdin=True, tty=True)
            await process.resize(77, 33)
            await process.write(b"stty size; tty >/dev/null && echo $TERM; exit 3\n")
            output, errors, code = await output_of(process)
            assert b"33 77\r\nxterm" in output
            assert (errors, code) == (b"", 3)

    asyncio.run(story())


def test_exec_ends_with_its_connection(tmp_path: Path, isolation: Isolation) -> None:
    async def story() -> None:
        async with runtime(tmp_path, isolation) as opened:
            await opened.start(container(tmp_path, "sleep", "1000"))
            seconds = str(200_000_000 + time.time_ns() % 100_000_000)
            process = await opened.exec("one", ["sleep", seconds])
            await until(lambda: processes_of("sleep", seconds))
            await process.close()
            await until(lambda: not processes_of("sleep", seconds))

    asyncio.run(story())


def test_a_command_that_cannot_run_says_why(tmp_path: Path, isolation: Isolation) -> None:
    async def story() -> None:
        async with runtime(tmp_path, isolation) as opened:
            await opened.start(container(tmp_path, "sleep", "1000"))
            with pytest.raises(ContainerError, match=r'exec: "nothing": executable file not found in \$PATH'):
                await opened.exec("one", ["nothing"])
            await opened.kill("one")
            await exit_of(opened, "one")
            with pytest.raises(ContainerError) as raised:
                await opened.exec("one", ["true"])
            assert (raised.value.reason, raised.value.message) == ("NotFound", 'container "one" is not running')

    asyncio.run(story())


def test_attach_shows_output_from_now_on_and_takes_input(tmp_path: Path, isolation: Isolation) -> None:
    async def story() -> None:
        wanted = container(tmp_path, "sh", "-c", 'echo first; while read line; do echo "got $line"; done; exit 6')
        async with runtime(tmp_path, isolation) as opened:
            await opened.start(_with_input(wanted))
            await until(lambda: logged(wanted) == ["first"])
            attached, watching = await opened.attach("one", stdin=True), await opened.attach("one")
            await attached.write(b"a\n")
            assert await read_until(attached, b"got a\n") == b"got a\n"
            await attached.end_input()
            assert await output_of(attached) == (b"", b"", 6)
            assert await output_of(watching) == (b"got a\n", b"", 6)
            assert logged(wanted) == ["first", "got a"]

    asyncio.run(story())


@pytest.mark.parametrize("tty", [False, True])
def test_an_attachment_ends_with_its_input_where_that_of_the_container_stays_open(
    tmp_path: Path, isolation: Isolation, tty: bool
) -> None:
    async def story() -> None:
        script = 'while read line; do echo "got $line"; done; exit 6'
        wanted = container(tmp_path, "sh", "-c", script, stdin=True, stdin_once=tty, tty=tty)
        async with runtime(tmp_path, isolation) as opened:
            await opened.start(wanted)
            for word in (b"one", b"two"):
                attached = await opened.attach("one", stdin=True)
                await attached.write(word + b"\n")
                await attached.end_input()
                output, errors, code = await output_of(attached)
                assert (b"got " + word in output, errors, code) == (True, b"", 0)
            assert "one" in opened.running

    asyncio.run(story())


def test_a_client_whose_input_ends_leaves_that_of_the_container_open_for_others(
    tmp_path: Path, isolation: Isolation
) -> None:
    async def story() -> None:
        wanted = replace(container(tmp_path, "cat"), stdin=True)
        async with runtime(tmp_path, isolation) as opened:
            await opened.start(wanted)
            for line in (b"a\n", b"b\n"):
                attached = await opened.attach("one", stdin=True)
                await attached.write(line)
                assert await read_until(attached, line) == line
                await attached.end_input()
                assert await output_of(attached) == (b"", b"", 0)
                await attached.close()
            assert logged(wanted) == ["a", "b"]

    asyncio.run(story())


def test_attach_to_a_terminal(tmp_path: Path, isolation: Isolation) -> None:
    async def story() -> None:
        wanted = container(tmp_path, "sh", stdin=True, tty=True)
        async with runtime(tmp_path, isolation) as opened:
            await opened.start(wanted)
            attached = await opened.attach("one", stdin=True)
            await attached.resize(60, 20)
            await attached.write(b"stty size\n")
            await read_until(attached, b"20 60\r\n")
            await attached.write(b"exit 5\n")
            assert (await output_of(attached))[2] == 5

    asyncio.run(story())


def test_one_who_does_not_read_does_not_hold_up_the_container(tmp_path: Path, isolation: Isolation) -> None:
    async def story() -> None:
        script = "read line; yes 0123456789 | head -c 20000000; echo; echo end; read line"
        wanted = _with_input(container(tmp_path, "sh", "-c", script))
        async with runtime(tmp_path, isolation) as opened:
            await opened.start(wanted)
            idle, writes = await opened.attach("one"), await opened.attach("one", stdin=True)
            await writes.write(b"go\n")
            await until(lambda: logged(wanted)[-1:] == ["end"])
            await idle.close()
            await writes.close()
            assert (await exit_of(opened, "one")).exit_code == 1

    asyncio.run(story())


def _with_input(wanted: Container) -> Container:
    return replace(wanted, stdin=True, stdin_once=True)


@pytest.mark.parametrize(
    ("text", "pid", "failure"),
    [
        (b"", 0, b""),
        (b"17\n", 17, b""),
        (b'{"reason": "x 1"}', 0, b'{"reason": "x 1"}'),
        (b'17\n{"reason": "x 1"}', 17, b'{"reason": "x 1"}'),
        (b'{"reason": "x 1"}17\n', 17, b'{"reason": "x 1"}'),
    ],
)
def test_the_failure_of_a_command_may_be_told_before_its_process_id(text: bytes, pid: int, failure: bytes) -> None:
    assert told_by(text) == (pid, failure)
