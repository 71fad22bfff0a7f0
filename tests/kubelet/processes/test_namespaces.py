"""Files, processes and names as containers see them that have namespaces of their own."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kilauea.kubelet.container_runtime import ContainerError, Limits, Mount
from kilauea.kubelet.processes.runtime import Isolation, ProcessRuntime
from kilauea.kubelet.processes.supervisor import linux
from kilauea.kubelet.processes.supervisor.filesystem import Mounts, mounts_below
from support.containers import container, logged, output_of, run, runtime, until


def test_a_container_sees_its_own_processes_and_host_name(tmp_path: Path) -> None:
    async def story() -> None:
        wanted = container(tmp_path, "sh", "-c", "echo $$; hostname; ls -d /proc/[0-9]* | wc -l", hostname="worker-0")
        async with runtime(tmp_path, "namespaces") as opened:
            await run(opened, wanted)
            number, name, count = logged(wanted)
            assert (number, name) == ("1", "worker-0")
            assert int(count) < 5
            assert socket.gethostname() != "worker-0"

    asyncio.run(story())


def _skip_without_roots(opened: ProcessRuntime) -> None:
    if any("read-only" in text for text in opened.limitations) or os.geteuid() != 0:
        pytest.skip("this machine does not permit overlays, or only those of users")


def test_a_root_is_used_again_only_if_its_container_has_left_it_as_it_was(tmp_path: Path) -> None:
    scripts = ["true", "chmod 700 /", "touch /kilauea-test", "touch /tmp/x", "chown 1:1 /tmp", "rm -r /etc", "true"]

    async def story() -> None:
        async with runtime(tmp_path, "namespaces") as opened:
            _skip_without_roots(opened)
            for id, script in enumerate(scripts):
                look = "stat -c %a:%u / /tmp; ls -A /tmp; ls /kilauea-test; test -d /etc && echo etc"
                wanted = container(tmp_path, "sh", "-c", f"{look}; {script}", id=str(id))
                await run(opened, wanted)
                assert logged(wanted) == ["755:0", "1777:0", "etc"], script
                await opened.remove(str(id))
            scratch = tmp_path / "processes/scratch"
            await until(lambda: len(os.listdir(scratch)) == 1)

    asyncio.run(story())


def test_a_root_that_is_used_again_shows_what_was_made_meanwhile(tmp_path: Path) -> None:
    async def story() -> None:
        async with runtime(tmp_path, "namespaces") as opened:
            _skip_without_roots(opened)
            image = tmp_path / "image"
            image.mkdir()
            mounts = [Mount(path, path) for path in ("/usr", "/lib", "/lib64", "/bin") if os.path.exists(path)]
            look = ["/bin/sh", "-c", "cat /new /old; ls /"]
            (image / "old").write_text("old\n")
            before = container(tmp_path, *look, root=image, mounts=mounts, id="before")
            await run(opened, before)
            assert logged(before)[0] == "old"
            (image / "new").write_text("new\n")
            (image / "old").unlink()
            after = container(tmp_path, *look, root=image, mounts=mounts, id="after")
            await run(opened, after)
            lines = logged(after)
            assert lines[0] == "new"
            assert "new" in lines[1:]
            assert "old" not in lines
            assert len(os.listdir(tmp_path / "processes/scratch")) == 2  # that of the machine, and one for both

    asyncio.run(story())


def test_containers_with_other_volumes_have_other_roots(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "data").mkdir()
        async with runtime(tmp_path, "namespaces") as opened:
            _skip_without_roots(opened)
            with_volume = container(tmp_path, "ls", "-d", "/made", id="one", mounts=[Mount("/made", str(tmp_path))])
            await run(opened, with_volume)
            without = container(tmp_path, "ls", "-d", "/made", id="two")
            assert (await run(opened, without)).exit_code != 0
            assert (logged(with_volume), logged(without)) == (["/made"], [])
            again = container(tmp_path, "ls", "/made", id="three", mounts=[Mount("/made", str(tmp_path / "data"))])
            await run(opened, again)
            assert logged(again) == []
            # What is mounted on the machine meanwhile, such as by podman, gives the last one a root of its own.
            assert len(os.listdir(tmp_path / "processes/scratch")) == 2 or changes.poll(0)

    with open("/proc/self/mountinfo") as mounts:
        changes = select.poll()
        changes.register(mounts, select.POLLPRI)
        asyncio.run(story())


def test_what_a_container_writes_to_its_root_goes_with_it(tmp_path: Path) -> None:
    async def story() -> None:
        mark = tmp_path / "mark"
        mark.write_text("host")
        writes = "echo one > /etc/kilauea-test && cat /etc/kilauea-test"
        script = f"{writes}; ls -A /tmp; echo two > /tmp/kilauea-test; touch {tmp_path}/y"
        wanted = container(tmp_path, "sh", "-c", script)
        async with runtime(tmp_path, "namespaces") as opened:
            state = await run(opened, wanted)
            if any("read-only" in text for text in opened.limitations):
                pytest.skip("this machine does not permit overlays")
            assert logged(wanted)[0] == "one", (state, logged(wanted, "stderr"))
            assert not Path("/etc/kilauea-test").exists()
            assert not Path("/tmp/kilauea-test").exists()
            again = container(tmp_path, "sh", "-c", "cat /etc/kilauea-test || ls -A /tmp", id="again")
            await run(opened, again)
            assert "one" not in logged(again)
            await opened.remove("one")
            await opened.remove("again")

    asyncio.run(story())


def test_mounts_appear_at_paths_that_the_root_does_not_have(tmp_path: Path) -> None:
    async def story() -> None:
        data, hosts = tmp_path / "data", tmp_path / "hosts"
        data.mkdir()
        (data / "in").write_text("from outside")
        hosts.write_text("127.64.0.9 worker-0\n")
        mounts = [
            Mount("/data/volume", str(data)),
            Mount("/data/volume/nested/file", str(hosts), read_only=True),
            Mount("/etc/hosts", str(hosts), read_only=True),
            Mount("/memory", size=1024 * 1024),
        ]
        script = (
            "cat /data/volume/in; echo; echo written > /data/volume/out; cat /etc/hosts /data/volume/nested/file;"
            "echo x >> /etc/hosts || echo denied;"
            "df -k --output=size /memory | tail -1; echo y > /memory/y; cat /memory/y"
        )
        wanted = container(tmp_path, "sh", "-c", script, mounts=mounts)
        async with runtime(tmp_path, "namespaces") as opened:
            await run(opened, wanted)
            lines = [line.strip() for line in logged(wanted)]
            names = "127.64.0.9 worker-0"
            assert lines == ["from outside", names, names, "denied", "1024", "y"], logged(wanted, "stderr")
            assert (data / "out").read_text() == "written\n"

    asyncio.run(story())


def test_a_read_only_root_refuses_writes_but_volumes_take_them(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "data").mkdir()
        script = (
            "echo x > /etc/x || echo denied; echo x > /new/data/x && echo written; echo x > /tmp/x && echo temporary;"
            "echo x > /dev/shm/x && echo shared"
        )
        mounts = [Mount("/new/data", str(tmp_path / "data"))]
        wanted = container(tmp_path, "sh", "-c", script, mounts=mounts, read_only=True)
        async with runtime(tmp_path, "namespaces") as opened:
            await run(opened, wanted)
            assert logged(wanted) == ["denied", "written", "temporary", "shared"]
            assert "Read-only file system" in "".join(logged(wanted, "stderr"))

    asyncio.run(story())


def test_a_mount_that_cannot_be_made_is_a_create_error(tmp_path: Path) -> None:
    async def story() -> None:
        async with runtime(tmp_path, "namespaces") as opened:
            missing = container(tmp_path, "true", mounts=[Mount("/data", str(tmp_path / "missing"))])
            with pytest.raises(ContainerError, match="the source does not exist") as raised:
                await opened.start(missing)
            assert raised.value.reason == "CreateContainerError"
            folder_on_file = container(tmp_path, "true", id="two", mounts=[Mount("/etc/passwd", str(tmp_path))])
            with pytest.raises(ContainerError, match='at "/etc/passwd": one is a folder and the other is not'):
                await opened.start(folder_on_file)

    asyncio.run(story())


def test_a_volume_that_became_a_link_after_it_was_checked_is_not_mounted(tmp_path: Path) -> None:
    async def story() -> None:
        async with runtime(tmp_path, "namespaces") as opened:
            volume, secrets = tmp_path / "volume", tmp_path / "secrets"
            for folder in (volume / "a" / "b", secrets / "b"):
                folder.mkdir(parents=True)
                (folder / "name").write_text("as it was checked\n")
            mounts = [Mount("/mnt", str(volume / "a" / "b"), real=True)]
            before = container(tmp_path, "cat", "/mnt/name", mounts=mounts, id="before")
            await run(opened, before)
            assert logged(before) == ["as it was checked"]
            for part in ("a/b", "a"):
                (volume / part).rename(volume / "aside")
                (volume / part).symlink_to(secrets / "b" if part == "a/b" else secrets)
                for tty in (False, True):
                    with pytest.raises(ContainerError, match=r"it is .*/secrets/b now"):
                        await opened.start(container(tmp_path, "true", mounts=mounts, id=f"{len(part)}-{tty}", tty=tty))
                (volume / part).unlink()
                (volume / "aside").rename(volume / part)

    asyncio.run(story())


def test_a_folder_is_the_root_of_a_container(tmp_path: Path) -> None:
    async def story() -> None:
        image = tmp_path / "image"
        (image / "etc").mkdir(parents=True)
        (image / "etc/name").write_text("image")
        mounts = [
            Mount(path, path, read_only=True) for path in ("/usr", "/lib", "/lib64", "/bin") if os.path.exists(path)
        ]
        wanted = container(
            tmp_path, "/bin/sh", "-c", "cat /etc/name; ls /", root=image, mounts=mounts, working_dir="/made/here"
        )
        async with runtime(tmp_path, "namespaces") as opened:
            await run(opened, wanted)
            names = logged(wanted)
            assert names[0].startswith("image"), logged(wanted, "stderr")
            assert "home" not in names
            assert sorted(os.listdir(image)) == ["etc"]

    asyncio.run(story())


def test_a_user_is_taken_on(tmp_path: Path) -> None:
    async def story() -> None:
        wanted = container(tmp_path, "sh", "-c", "id -u; id -g", user=12345, group=23456)
        async with runtime(tmp_path, "namespaces") as opened:
            await run(opened, wanted)
            assert logged(wanted) == ["12345", "23456"]
            limited = container(tmp_path, "sh", "-c", "id", id="2", user=12345, limits=Limits(memory=1 << 30))
            await run(opened, limited)
            assert logged(limited)[0].startswith("uid=12345 gid=")
            assert logged(limited)[0].count("12345") == 1

    asyncio.run(story())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give groups")
@pytest.mark.parametrize("isolation", ["namespaces", "plain"])
@pytest.mark.parametrize(
    ("fields", "groups"),
    [
        ({"groups": (34567, 45678)}, "0 34567 45678"),
        ({"user": 12345, "groups": (34567,)}, "0 34567"),
        ({"group": 23456}, "23456"),
    ],
    ids=["as root", "as another user", "another group alone"],
)
def test_groups_are_taken_on_by_all_processes_of_a_container(
    tmp_path: Path, isolation: Isolation, fields: dict[str, Any], groups: str
) -> None:
    async def story() -> None:
        wanted = container(tmp_path, "sh", "-c", "id -G; sleep 60", **fields)
        async with runtime(tmp_path, isolation) as opened:
            await opened.start(wanted)
            process = await opened.exec("one", ["id", "-G"])
            assert (await output_of(process))[0].decode().strip() == groups
            await until(lambda: wanted.log.exists() and logged(wanted) == [groups])

    asyncio.run(story())


@pytest.mark.parametrize("isolation", ["namespaces", "plain"])
def test_a_container_that_must_not_gain_privileges_cannot(tmp_path: Path, isolation: Isolation) -> None:
    async def story() -> None:
        async with runtime(tmp_path, isolation) as opened:
            for wanted in (True, False):
                look = container(
                    tmp_path, "grep", "NoNewPrivs", "/proc/self/status", id=str(wanted), no_new_privileges=wanted
                )
                await run(opened, look)
                assert logged(look) == [f"NoNewPrivs:\t{int(wanted)}"]
            waits = container(tmp_path, "sleep", "60", id="waits", no_new_privileges=True)
            await opened.start(waits)
            process = await opened.exec("waits", ["grep", "NoNewPrivs", "/proc/self/status"])
            output = await process.read()
            assert output is not None
            assert output.data == b"NoNewPrivs:\t1\n"
            await process.close()

    asyncio.run(story())


def test_without_namespaces_a_volume_is_refused_unless_it_may_be_left_out(tmp_path: Path) -> None:
    async def story() -> None:
        async with runtime(tmp_path, "plain") as opened:
            wanted = container(tmp_path, "true", mounts=[Mount("/data", str(tmp_path))])
            with pytest.raises(ContainerError, match="cannot mount a volume at /data") as raised:
                await opened.start(wanted)
            assert raised.value.reason == "CreateContainerError"
            mounts = [Mount("/etc/hosts", str(tmp_path), optional=True), Mount(str(tmp_path), str(tmp_path))]
            assert (await run(opened, container(tmp_path, "true", mounts=mounts))).exit_code == 0
            assert "share the files" in opened.limitations[0]

    asyncio.run(story())


def test_containers_have_devices_and_may_have_files_beside_them(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "message").touch()
        mounts = [Mount("/dev/kilauea-test", str(tmp_path / "message"), optional=True)]
        script = (
            "echo x > /dev/null && head -c 4 /dev/urandom | wc -c && echo message > /dev/kilauea-test && "
            f"touch /dev/shm/x && {os.path.realpath(sys.executable)} -c 'import os; print(os.isatty(os.openpty()[1]))'"
        )
        wanted = container(tmp_path, "sh", "-c", script, mounts=mounts)
        async with runtime(tmp_path, "namespaces") as opened:
            await run(opened, wanted)
            assert logged(wanted) == ["4", "True"], logged(wanted, "stderr")
            assert (tmp_path / "message").read_text() == "message\n"

    asyncio.run(story())


def test_what_containers_make_in_their_dev_is_not_in_that_of_the_machine(tmp_path: Path) -> None:
    before = sorted(os.listdir("/dev"))

    async def story() -> None:
        (tmp_path / "message").touch()
        mounts = [Mount("/dev/kilauea-message", str(tmp_path / "message"))]
        script = "ls /dev | grep kilauea; echo end > /dev/kilauea-message; touch /dev/kilauea-made"
        async with runtime(tmp_path, "namespaces") as opened:
            for id in ("one", "two"):
                wanted = container(tmp_path, "sh", "-c", script, id=id, mounts=mounts)
                await run(opened, wanted)
                assert logged(wanted) == ["kilauea-message"], id
                assert (tmp_path / "message").read_text() == "end\n"
                await opened.remove(id)

    asyncio.run(story())
    assert sorted(os.listdir("/dev")) == before


def test_mounts_are_read_again_when_they_have_changed(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    mounts, place = Mounts(), tmp_path / "place"
    place.mkdir()
    assert mounts.below(str(tmp_path)) == mounts_below(str(tmp_path)) == ()
    try:
        linux.mount("none", str(place), "tmpfs")
    except OSError:
        pytest.skip("this machine permits no mounts")
    try:
        assert mounts.below(str(tmp_path)) == ("/place",)
    finally:
        subprocess.run(["umount", str(place)], check=True)
    assert mounts.below(str(tmp_path)) == ()
