"""`PodNetwork`: addresses, names and services as pods of a kubelet meet them."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from kilauea.api.kinds import ENDPOINT_SLICES, SERVICES
from kilauea.client.view import Cache
from kilauea.kubelet.network import NetworkRanges, PodNetwork
from kilauea.kubelet.network.hosts_files import HostsFiles
from kilauea.runtime.clock import SystemClock
from support.network_objects import Objects, endpoint, endpoint_slice, pod, service

RANGES = NetworkRanges(IPv4Network("127.95.240.0/20"), IPv4Network("127.111.240.0/20"))
SECONDS = 30


class Setting:
    """A network, and the objects that it sees."""

    def __init__(self, folder: Path) -> None:
        cache = Cache()
        self.network = PodNetwork(cache, RANGES, folder, SystemClock())
        self.objects = Objects(cache)

    async def until(self, true: Callable[[], bool]) -> None:
        """Run the network until something is true."""
        running = asyncio.create_task(self.network.run())
        try:
            async with asyncio.timeout(SECONDS):
                while not true():
                    await asyncio.sleep(0.02)
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    found = Setting(tmp_path)
    if found.network.limitations:
        pytest.skip("this system has one loopback address")
    return found


def test_pods_have_addresses_of_their_own_and_those_of_the_node_share_its_address(setting: Setting) -> None:
    network = setting.network
    one, two, host = pod("one"), pod("two"), pod("host", hostNetwork=True)
    assert [network.address(each) for each in (one, two, host, one)] == [
        "127.95.240.1", "127.95.240.2", "127.0.0.1", "127.95.240.1",
    ]  # fmt: skip


def test_a_new_pod_does_not_get_the_address_of_one_that_ran_before_a_restart(setting: Setting) -> None:
    running = pod("running", address="127.95.240.1")
    setting.network.restore([running, pod("waiting")])
    assert setting.network.address(pod("new")) == "127.95.240.2"
    assert "running" in setting.network.hosts_file(running).read_text()


def test_services_that_come_and_go_change_the_names_of_pods_that_run(setting: Setting) -> None:
    path = setting.network.hosts_file(pod("p"))

    def has(name: str) -> Callable[[], bool]:
        return lambda: name in path.read_text()

    async def main() -> None:
        setting.objects.set(SERVICES, service("web", "127.111.240.9"), service("job", "None"))
        await setting.until(has("127.111.240.9\tweb.default.svc.cluster.local"))
        setting.objects.set(ENDPOINT_SLICES, endpoint_slice("job", [endpoint("127.95.240.7", "w-0")]))
        await setting.until(has("127.95.240.7\tw-0.job.default.svc.cluster.local"))
        setting.objects.set(SERVICES, service("web", "127.111.240.9"))
        await setting.until(lambda: not has("w-0.job")())

    asyncio.run(main())


def test_a_pod_reaches_another_through_the_address_of_a_service(setting: Setting) -> None:
    network = setting.network
    server_pod = pod("server")
    address = network.address(server_pod)
    with socket.socket() as free:  # at all addresses: a program that listens on them would answer instead
        free.bind(("0.0.0.0", 0))
        port_of_service = free.getsockname()[1]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"from the pod")
        await writer.drain()
        writer.close()

    async def ask() -> bytes:
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.111.240.9", port_of_service)
            except ConnectionRefusedError:
                await asyncio.sleep(0.05)
                continue
            text = await reader.read()
            writer.close()
            return text

    async def main() -> None:
        listening = await asyncio.start_server(answer, address, 0)
        port = listening.sockets[0].getsockname()[1]
        setting.objects.set(SERVICES, service("web", "127.111.240.9", ports=[{"port": port_of_service}]))
        setting.objects.set(ENDPOINT_SLICES, endpoint_slice("web", [endpoint(address)], [{"port": port}]))
        running = asyncio.create_task(network.run())
        assert await asyncio.wait_for(ask(), SECONDS) == b"from the pod"
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.111.240.9", port_of_service)
        listening.close()

    asyncio.run(main())


def test_names_of_a_released_pod_end_and_its_address_is_free(setting: Setting) -> None:
    network = setting.network
    path = network.hosts_file(pod("stays"))
    network.hosts_file(pod("ends", subdomain="job"))
    network.release("uid-ends")
    asyncio.run(setting.until(lambda: "ends" not in path.read_text()))
    assert network.address(pod("next", address="127.95.240.2")) == "127.95.240.2"


def test_a_full_disk_is_told_and_the_files_are_written_once_there_is_room(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = setting.network.hosts_file(pod("p"))
    refresh, calls = HostsFiles.refresh, []

    def full_at_first(self: HostsFiles) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        refresh(self)

    monkeypatch.setattr(HostsFiles, "refresh", full_at_first)
    monkeypatch.setattr("kilauea.kubelet.network.pod_network.RETRY_SECONDS", 0.05)
    with caplog.at_level(logging.WARNING):
        setting.objects.set(SERVICES, service("web", "127.111.240.9"))
        asyncio.run(setting.until(lambda: "127.111.240.9" in path.read_text()))
    assert f"hosts file of pods: {path}: No space left on device" in caplog.text


def test_a_system_with_one_loopback_address_says_what_that_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kilauea.kubelet.network.pod_network._is_local", lambda address: False)
    network = Setting(tmp_path).network
    (text,) = network.limitations
    assert "use different ports for programs that listen" in text
    assert network.address(pod("one")) == network.address(pod("two")) == "127.0.0.1"
