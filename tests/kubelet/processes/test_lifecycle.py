"""Containers from their start to their end, and what is known about them afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from kilauea.kubelet.container_runtime import ContainerError
from kilauea.kubelet.processes.runtime import Isolation, ProcessRuntime
from support.containers import container, exit_of, is_alive, logged, processes_of, run, runtime, until


@pytest.fixture(params=["plain", "namespaces"])
def isolation(request: pytest.FixtureRequest) -> Isolation:
    return "plain" if request.param == "plain" else "namespaces"


def test_a_container_runs_its_command_and_tells_its_exit_code(tmp_path: Path, isolation: Isolation) -> None:
    async def story() -> None:
        wanted = container(
            tmp_path, "sh", "-c", 'echo "$GREETING"; echo problem >&2; exit 3', environment={"GREETING": "hello"}
        )
        async with runtime(tmp_path, isolation) as opened:
            before = time.time_ns() // 1000
            state = await run(opened, wanted)
            assert (state.state, state.exit_code, state.signal, state.reason) == ("exited", 3, 0, "Error")
            assert (state.id, state.pod, state.name, state.attempt) == ("one", "pod", "main", 0)
            assert before <= state.started <= state.finished <= time.time_ns() // 1000
            assert logged(wanted) == ["hello"]
            assert logged(wanted, "stderr") == ["problem"]

    asyncio.run(story())


def test_a_container_that_succeeds_has_completed(tmp_path: Path, isolation: Isolation) -> None:
    async def story() -> None:
        async with runtime(tmp_path, isolation) as opened:
            state = await run(opened, container(tmp_path, "true"))
            assert (state.exit_code, state.reason) == (0, "Completed")

    asyncio.run(story())


def test_a_signal_gives_128_and_its_number(tmp_path: Path, isolation: Isolation) -> None:
    async def story() -> None:
        wanted = container(tmp_path, "sh", "-c", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done")
        async with runtime(tmp_path, isolation) as opened:
            await opened.start(wanted)
            await until(lambda: logged(wanted) == ["ready"])
            await opened.signal("one", signal.SIGTERM)
            assert (await exit_of(opened, "one")).exit_code == 7
            await opened.start(container(tmp_path, "sleep", "1000", id="two"))
            await opened.kill("two")
            state = await exit_of(opened, "two")
            assert (state.exit_code, state.signal, state.reason) == (137, 9, "Error")
            await opened.signal("two", signal.SIGTERM)

    asyncio.run(story())


def test_a_signal_to_everyone_ends_a_process_that_does_nothing_about_it(tmp_path: Path, isolation: Isolation) -> None:
    async def story() -> None:
        async with runtime(tmp_path, isolation) as opened:
            for number in (signal.SIGINT, signal.SIGTERM):
                id = number.name
                await opened.start(container(tmp_path, "sleep", "1000", id=id))
                await opened.signal(id, number, everyone=True)
                state = await exit_of(opened, id)
                assert (state.exit_code, state.signal, state.reason) == (128 + number, number, "Error")

    asyncio.run(story())


def test_a_signal_to_everyone_reaches_the_children_of_a_shell_before_it_ends(
    tmp_path: Path, isolation: Isolation
) -> None:
    async def story() -> None:
        child = "trap 'echo saved; exit 0' INT; echo ready; while :; do sleep 0.01; done"
        wanted = container(tmp_path, "sh", "-c", f'sh -c "{child}"; echo next command')
        async with runtime(tmp_path, isolation) as opened:
            await opened.start(wanted)
            await until(lambda: logged(wanted) == ["ready"])
            await opened.signal("one", signal.SIGINT, everyone=True)
            assert (await exit_of(opened, "one")).exit_code == 128 + signal.SIGINT
            assert logged(wanted) == ["ready", "saved"]

    asyncio.run(story())


def test_a_signal_to_everyone_is_up_to_a_first_process_that_handles_it(tmp_path: Path, isolation: Isolation) -> None:
    async def story() -> None:
        script = "trap 'exit 7' INT; echo ready; while :; do sleep 0.01; done"
        wanted = container(tmp_path, "sh", "-c", script)
        async with runtime(tmp_path, isolation) as opened:
            await opened.start(wanted)
            await until(lambda: logged(wanted) == ["ready"])
            await opened.signal("one", signal.SIGWINCH, everyone=True)  # by which no process ends
            await opened.signal("one", signal.SIGINT, everyone=True)
            assert (await exit_of(opened, "one")).exit_code == 7

    asyncio.run(story())


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["no-such-program"], 'exec: "no-such-program": executable file not found in $PATH'),
        (["/no/such/program"], 'exec: "/no/such/program": stat /no/such/program: no such file or directory'),
        (["/etc/passwd"], 'exec: "/etc/passwd": permission denied'),
        (["/etc"], 'exec: "/etc": is a directory'),
        ([""], "exec: no command"),
    ],
)
def test_a_command_that_cannot_run_is_a_start_error(
    tmp_path: Path, isolation: Isolation, argv: list[str], message: str
) -> None:
    async def story() -> None:
        async with runtime(tmp_path, isolation) as opened:
            with pytest.raises(ContainerError) as raised:
                await opened.start(container(tmp_path, *argv))
            assert raised.value.reason == "RunContainerError"
            assert message in raised.value.message
            second = ProcessRuntime(tmp_path / "processes")
            [state] = await second.open()
            assert (state.exit_code, state.reason, state.started) == (128, "StartError", 0)
            assert message in state.message
            await second.close()

    asyncio.run(story())


def test_a_container_outlives_its_client_and_its_end_is_not_lost(tmp_path: Path, isolation: Isolation) -> None:
    async def story() -> None:
        async with runtime(tmp_path, isolation) as opened:
            stays = await opened.start(container(tmp_path, "sleep", "1000", id="stays"))
            await opened.start(container(tmp_path, "sh", "-c", "sleep 0.1; exit 5", id="ends"))
            await opened.close()
            states = tmp_path / "processes/containers/states"
            await until(lambda: '"exited"' in states.read_text())
            assert is_alive(stays.pid)
            ends, found = await opened.open()
            assert (ends.id, ends.state, ends.exit_code) == ("ends", "exited", 5)
            assert found == stays
            await opened.remove("ends")
            assert [state.id for state in await opened.open()] == ["stays"]

    asyncio.run(story())


def test_when_the_supervisor_is_killed_its_containers_end_and_that_is_told(
    tmp_path: Path, isolation: Isolation
) -> None:
    async def story() -> None:
        async with runtime(tmp_path, isolation) as opened:
            state = await opened.start(container(tmp_path, "sh", "-c", "sleep 1000 & wait"))
            old = opened.supervisor
            os.kill(old, signal.SIGKILL)
            ended = await exit_of(opened, "one")
            assert (ended.exit_code, ended.reason) == (137, "ContainerStatusUnknown")
            await until(lambda: not is_alive(state.pid))
            assert opened.supervisor != old
            assert (await run(opened, container(tmp_path, "true", id="two"))).exit_code == 0

    asyncio.run(story())


@pytest.mark.slow
def test_when_a_supervisor_is_killed_containers_of_the_same_id_elsewhere_go_on(
    tmp_path: Path, isolation: Isolation
) -> None:
    async def story() -> None:
        for name in ("killed", "other"):
            (tmp_path / name).mkdir()
        async with runtime(tmp_path / "other", isolation) as other, runtime(tmp_path / "killed", isolation) as killed:
            stays = await other.start(container(tmp_path / "other", "sleep", "1000"))
            goes = await killed.start(container(tmp_path / "killed", "sleep", "1000"))
            os.kill(killed.supervisor, signal.SIGKILL)
            await exit_of(killed, "one")
            await until(lambda: not is_alive(goes.pid))
            assert (is_alive(stays.pid), sorted(other.running)) == (True, ["one"])

    asyncio.run(story())


def test_when_the_supervisor_is_killed_while_no_client_is_there_its_containers_end(
    tmp_path: Path, isolation: Isolation
) -> None:
    async def story() -> None:
        async with runtime(tmp_path, isolation) as opened:
            state = await opened.start(container(tmp_path, "sleep", "1000"))
            supervisor = opened.supervisor
            await opened.close()
            os.kill(supervisor, signal.SIGKILL)
            await until(lambda: not is_alive(state.pid))
            [found] = await opened.open()
            assert (found.state, found.reason) == ("exited", "ContainerStatusUnknown")

    asyncio.run(story())


def test_a_container_that_prints_nothing_has_no_log(tmp_path: Path, isolation: Isolation) -> None:
    async def story() -> None:
        async with runtime(tmp_path, isolation) as opened:
            silent, speaks = container(tmp_path, "true", id="silent"), container(tmp_path, "echo", "hi", id="speaks")
            for each in (silent, speaks):
                assert (await run(opened, each)).exit_code == 0
            assert (silent.log.exists(), logged(speaks)) == (False, ["hi"])
            (tmp_path / "file").touch()
            wanted = replace(container(tmp_path, "true", id="nowhere"), log=tmp_path / "file/0.log")
            with pytest.raises(ContainerError, match=r"cannot write the log of the container at .*: Not a directory"):
                await opened.start(wanted)

    asyncio.run(story())


def test_a_process_that_leaves_its_session_ends_with_its_container(tmp_path: Path, isolation: Isolation) -> None:
    async def story() -> None:
        seconds = str(100_000_000 + time.time_ns() % 100_000_000)
        script = f"trap 'exit 0' TERM; (setsid sleep {seconds} &) ; while :; do sleep 0.01; done"
        async with runtime(tmp_path, isolation) as opened:
            wanted = container(tmp_path, "sh", "-c", script)
            await opened.start(wanted)
            await until(lambda: processes_of("sleep", seconds))
            await opened.signal("one", signal.SIGTERM)
            assert (await exit_of(opened, "one")).exit_code == 0
            assert processes_of("sleep", seconds) == []

    asyncio.run(story())


def test_only_containers_that_have_exited_are_removed(tmp_path: Path, isolation: Isolation) -> None:
    async def story() -> None:
        async with runtime(tmp_path, isolation) as opened:
            await opened.start(container(tmp_path, "sleep", "1000"))
            with pytest.raises(ContainerError, match="kill it before"):
                await opened.remove("one")
            with pytest.raises(ContainerError, match="already exists"):
                await opened.start(container(tmp_path, "sleep", "1000"))
            await opened.kill("one")
            await exit_of(opened, "one")
            await opened.remove("one")
            with pytest.raises(ContainerError) as raised:
                await opened.kill("one")
            assert raised.value.reason == "NotFound"

    asyncio.run(story())


def test_a_supervisor_without_work_ends(tmp_path: Path, isolation: Isolation) -> None:
    async def story() -> None:
        async with runtime(tmp_path, isolation, idle=0.2) as opened:
            await run(opened, container(tmp_path, "true"))
            supervisor = opened.supervisor
            await opened.close()
            await until(lambda: not is_alive(supervisor))
            [state] = await opened.open()
            assert (state.id, state.exit_code) == ("one", 0)
            assert opened.supervisor != supervisor

    asyncio.run(story())


def test_usage_counts_all_processes(tmp_path: Path, isolation: Isolation) -> None:
    async def story() -> None:
        busy = "sh -c 'while :; do :; done' & echo ready; wait"
        wanted = container(tmp_path, "sh", "-c", busy)
        async with runtime(tmp_path, isolation) as opened:
            await opened.start(wanted)
            await until(lambda: logged(wanted) == ["ready"])
            used = (await opened.usage(["one", "other"]))["one"]
            assert used.processes == 2
            assert used.memory > 100_000
            while used.cpu < 50_000:
                await asyncio.sleep(0.01)
                used = (await opened.usage(["one"]))["one"]

    asyncio.run(story())
