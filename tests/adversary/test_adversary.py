"""An adversary with an account: whatever it sends, every other client is answered within a second."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from apiserver.test_transport import Process
from support.api_core import MAPS
from support.attacks import ATTACKS, watched_by_a_bystander

MEMORY = 700 << 20
"""Bytes that the server may take after all attacks."""
AT_ONCE = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with Process(tmp_path_factory.mktemp("adversary")) as process:
        assert process.ask("POST", MAPS, b'{"metadata":{"name":"bystander"}}')[0] == 201
        yield process
        process.process.kill()
        process.process.communicate()


@pytest.mark.parametrize("name", ATTACKS)
def test_no_attack_keeps_another_client_waiting(server: Process, name: str) -> None:
    with watched_by_a_bystander(server), ThreadPoolExecutor(AT_ONCE) as pool:
        for done in [pool.submit(ATTACKS[name], server) for _ in range(AT_ONCE)]:
            done.result(timeout=120)


def test_all_attacks_leave_the_memory_as_it_should_be(server: Process) -> None:
    status = Path(f"/proc/{server.process.pid}/status")
    if not status.exists():
        pytest.skip("this system does not tell the memory of a process in /proc")
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    assert int(lines["VmRSS"].split()[0]) * 1024 < MEMORY


def test_the_folder_starts_again_after_all_attacks(server: Process) -> None:
    server.process.kill()
    server.process.communicate()
    with Process(server.folder) as again:
        assert again.ask("GET", f"{MAPS}/bystander")[0] == 200
        again.process.kill()
        again.process.communicate()
