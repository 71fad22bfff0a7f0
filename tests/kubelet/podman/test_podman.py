"""Containers of podman, where it works: their starts, ends, logs, connections and limits."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kilauea.kubelet.container_runtime import Container, ContainerError, ContainerState, Limits, Mount
from kilauea.kubelet.podman import command
from kilauea.kubelet.podman.folders import make_folder
from kilauea.kubelet.podman.images import PodmanImages
from kilauea.kubelet.podman.runtime import PodmanRuntime
from support.containers import PATIENCE, limits_of, output_of, until

IMAGE = f"localhost/kilauea-test:{os.getpid()}"
"""Of this process alone: another one that runs tests of this file removes its image at its end."""
PROGRAMS = "sh true sleep cat echo id hostname ls stty cut".split()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image made of a static busybox; no registry is asked."""
    busybox = shutil.which("busybox")
    if shutil.which("podman") is None or busybox is None:
        pytest.skip("needs podman and busybox (Debian's busybox-static)")
    folder = tmp_path_factory.mktemp("image")
    programs = folder / "root/bin"
    programs.mkdir(parents=True)
    shutil.copy(busybox, programs / "busybox")
    for name in PROGRAMS:
        (programs / name).symlink_to("busybox")
    subprocess.run(["tar", "-C", str(folder / "root"), "-cf", str(folder / "image.tar"), "."], check=True)
    changes = ["--change=ENV GREETING=hello", '--change=CMD ["echo","by default"]', "--change=WORKDIR /bin"]
    made = subprocess.run(
        ["podman", "import", *changes, str(folder / "image.tar"), IMAGE],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"podman does not work here: {made.stderr.strip()}")
    yield IMAGE
    subprocess.run(["podman", "rmi", "--force", IMAGE], capture_output=True, check=False)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[PodmanRuntime]:
    """A runtime whose containers are removed afterwards."""
    runtime = PodmanRuntime(folder)
    await runtime.open()
    try:
        yield runtime
    finally:
        for state in await runtime.open():
            if state.state == "running":
                await runtime.kill(state.id)
                await exit_of(runtime, state.id)
            await runtime.remove(state.id)
        await runtime.close()


async def exit_of(runtime: PodmanRuntime, id: str) -> ContainerState:
    async with asyncio.timeout(PATIENCE):
        async for state in runtime.exits():
            if state.id == id:
                return state
    raise AssertionError("no exit")


def container(folder: Path, *argv: str, id: str = "one", **fields: Any) -> Container:
    environment = {"PATH": "/bin", **fields.pop("environment", {})}
    fields = {"image": IMAGE, **fields}
    return Container(id, "pod", "main", 0, argv, folder / f"logs/{id}.log", environment=environment, **fields)


def logged(wanted: Container) -> list[str]:
    return [line.split(" ", 3)[3] for line in wanted.log.read_text().splitlines()]


async def run(runtime: PodmanRuntime, wanted: Container) -> ContainerState:
    await runtime.start(wanted)
    return await exit_of(runtime, wanted.id)


def test_a_container_of_an_image_runs_its_command(tmp_path: Path, image: str) -> None:
    async def story() -> None:
        (tmp_path / "data").mkdir()
        (tmp_path / "data/file").write_text("content\n")
        wanted = container(
            tmp_path,
            *("sh", "-c", 'echo "$A"; hostname; cat /data/file; ls -d /work; exit 3'),
            environment={"A": "x  y"},
            hostname="worker-0",
            mounts=[Mount("/data", str(tmp_path / "data"), True), Mount("/work", size=4096)],
        )
        async with opened(tmp_path) as runtime:
            state = await run(runtime, wanted)
            assert (state.exit_code, state.reason, state.pod, state.name) == (3, "Error", "pod", "main")
            assert 0 < state.started <= state.finished
            assert logged(wanted) == ["x  y", "worker-0", "content", "/work"]
            await runtime.remove("one")
            assert await runtime.open() == []

    asyncio.run(story())


def test_a_folder_can_stand_for_an_image(tmp_path: Path, image: str) -> None:
    async def story() -> None:
        root = tmp_path / "root/bin"
        root.mkdir(parents=True)
        shutil.copy(shutil.which("busybox") or "", root / "busybox")
        wanted = container(tmp_path, "/bin/busybox", "echo", "folder", image="", root=tmp_path / "root")
        async with opened(tmp_path) as runtime:
            assert (await run(runtime, wanted)).exit_code == 0
            assert logged(wanted) == ["folder"]

    asyncio.run(story())


def test_a_command_that_is_not_there_is_told_as_kubelets_do(tmp_path: Path, image: str) -> None:
    async def story() -> None:
        async with opened(tmp_path) as runtime:
            with pytest.raises(ContainerError) as raised:
                await runtime.start(container(tmp_path, "nothere"))
            assert raised.value.reason == "RunContainerError"
            assert "unable to start container process" in raised.value.message
            assert "not found" in raised.value.message
            assert await runtime.open() == []

    asyncio.run(story())


def test_containers_outlive_the_runtime_and_are_found_again(tmp_path: Path, image: str) -> None:
    async def story() -> None:
        async with opened(tmp_path) as runtime:
            stays = await runtime.start(container(tmp_path, "sleep", "1000", id="stays"))
            await runtime.start(container(tmp_path, "sh", "-c", "sleep 0.2; exit 5", id="ends"))
            await runtime.close()
            await asyncio.sleep(1)
            later = PodmanRuntime(tmp_path)
            found = {state.id: state for state in await later.open()}
            assert found["stays"] == stays
            assert (found["ends"].state, found["ends"].exit_code) == ("exited", 5)
            assert list(later.running) == ["stays"]
            other = PodmanRuntime(tmp_path / "other")
            assert await other.open() == []
            await other.close()
            await later.signal("stays", 9)
            assert (await exit_of(later, "stays")).exit_code == 137
            await later.close()

    asyncio.run(story())


def test_commands_run_in_a_container(tmp_path: Path, image: str) -> None:
    async def story() -> None:
        async with opened(tmp_path) as runtime:
            await runtime.start(container(tmp_path, "sleep", "1000"))
            process = await runtime.exec("one", ["sh", "-c", "cat; echo problem >&2; exit 4"], stdin=True)
            await process.write(b"input\n")
            await process.end_input()
            assert await output_of(process) == (b"input\n", b"problem\n", 4)
            terminal = await runtime.exec("one", ["sh", "-c", "stty size"], stdin=True, tty=True)
            await terminal.resize(80, 24)
            output, _, code = await output_of(terminal)
            assert (b" " in output, code) == (True, 0)
            used = (await runtime.usage(["one", "other"]))["one"]
            assert (used.processes, used.memory > 0) == (1, True)
            with pytest.raises(ContainerError, match="not running"):
                await runtime.exec("other", ["true"])

    asyncio.run(story())


def test_what_a_container_writes_to_its_root_can_be_measured(tmp_path: Path, image: str) -> None:
    async def story() -> None:
        async with opened(tmp_path) as runtime:
            wanted = container(tmp_path, "sh", "-c", "echo text > /bin/new; echo ready; sleep 1000")
            await runtime.start(wanted)
            await until(lambda: logged(wanted) == ["ready"])
            found = await runtime.folders(["one", "other"])
            if not found:
                pytest.skip("the storage of podman is not made of overlays")
            assert list(found) == ["one"]
            assert (found["one"] / "bin/new").read_text() == "text\n"
            assert not (found["one"] / "bin/busybox").exists()

    asyncio.run(story())


def test_a_working_directory_that_the_image_lacks_is_made(tmp_path: Path, image: str) -> None:
    async def story() -> None:
        async with opened(tmp_path) as runtime:
            if os.geteuid() != 0:
                pytest.skip("only root can mount the files of a container that does not run")
            wanted = container(
                tmp_path, "sh", "-c", "echo $PWD; ls -ld /srv/work | cut -c1-10", working_dir="/srv/work"
            )
            assert (await run(runtime, wanted)).exit_code == 0
            assert logged(wanted) == ["/srv/work", "drwxr-xr-x"]

    asyncio.run(story())


def test_input_ends_with_the_client_that_is_attached(tmp_path: Path, image: str) -> None:
    async def story() -> None:
        async with opened(tmp_path) as runtime:
            await runtime.start(container(tmp_path, "sh", "-c", "cat; exit 6", stdin=True, stdin_once=True))
            attached = await runtime.attach("one", stdin=True)
            await attached.write(b"line\n" * 1000)
            await attached.end_input()
            output, errors, _ = await output_of(attached)
            assert (output, errors) == (b"line\n" * 1000 + b"\n", b"")  # the last end of a line is podman's
            assert (await exit_of(runtime, "one")).exit_code == 6

    asyncio.run(story())


def test_a_signal_reaches_the_first_process(tmp_path: Path, image: str) -> None:
    async def story() -> None:
        wanted = container(tmp_path, "sh", "-c", "trap 'exit 5' INT; echo ready; while :; do sleep 0.1; done")
        async with opened(tmp_path) as runtime:
            await runtime.start(wanted)
            await until(lambda: wanted.log.exists() and logged(wanted) == ["ready"])
            await runtime.signal("one", signal.SIGINT, everyone=True)
            assert (await exit_of(runtime, "one")).exit_code == 5

    asyncio.run(story())


def test_links_of_an_image_do_not_lead_out_of_it(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "link").symlink_to(outside)
    make_folder(str(root), "/a/b")
    assert (root / "a/b").is_dir()
    with pytest.raises(NotADirectoryError):
        make_folder(str(root), "/link/made")
    with pytest.raises(OSError, match="goes up"):
        make_folder(str(root), "/../outside/made")
    assert list(outside.iterdir()) == []


def test_a_container_that_uses_too_much_memory_is_ended(
    tmp_path: Path, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    async def story() -> None:
        script = "x=x; while :; do x=$x$x; done"
        wanted = container(tmp_path, "sh", "-c", script, limits=Limits(memory=32 * 1024 * 1024))
        async with opened(tmp_path) as runtime:
            if any("do not start" in text for text in runtime.limitations):
                pytest.skip(runtime.limitations[0])
            state = await run(runtime, wanted)
            assert (state.exit_code, state.reason) == (137, "OOMKilled")
            await runtime.remove("one")
        assert list((tmp_path / "here").iterdir()) == []
        assert list((tmp_path / "kubelet/podman").iterdir()) == []

    asyncio.run(story())


def test_images_say_what_runs_by_default(tmp_path: Path, image: str) -> None:
    async def story() -> None:
        images = PodmanImages()
        await images.pull(IMAGE, "IfNotPresent")
        found = images.find(IMAGE)
        assert (found.command, found.arguments, found.working_dir) == ((), ("echo", "by default"), "/bin")
        assert found.environment["GREETING"] == "hello"
        await images.pull("localhost/kilauea-nothing:1", "Never")
        with pytest.raises(ContainerError, match="not present with pull policy of Never") as raised:
            images.find("localhost/kilauea-nothing:1")
        assert raised.value.reason == "ErrImageNeverPull"

    asyncio.run(story())


def test_a_machine_without_podman_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "PROGRAM", "podman-that-is-not-there")
    with pytest.raises(ContainerError, match="podman is not installed; install it, or use --runtime process"):
        asyncio.run(PodmanRuntime(tmp_path).open())


def test_the_limits_of_a_running_container_change(tmp_path: Path, image: str) -> None:
    async def story() -> None:
        async with opened(tmp_path) as runtime:
            if any("limits of" in each for each in runtime.limitations):
                pytest.skip("this machine has no control groups that can be used")
            wanted = container(tmp_path, "sleep", "1000", limits=Limits(cpu=250, memory=32 << 20))
            state = await runtime.start(wanted)
            assert limits_of(state.pid) == ("25000", str(32 << 20))
            for limits in (Limits(cpu=500, memory=64 << 20), Limits(cpu=250, memory=32 << 20)):
                await runtime.resize("one", limits)
                assert limits_of(state.pid) == (str((limits.cpu or 0) * 100), str(limits.memory))

    asyncio.run(story())
