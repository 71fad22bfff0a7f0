"""Two schedulers and two controller managers at the real Kubernetes, with the leases that they have unless told.

The first ones are slow and reach the server by a proxy only. They are killed, stopped or cut off while they write.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from cluster.api_process import Client
from cluster.faulty_proxy import running_proxy
from cluster.real_endpoint import CPUS, RealEndpoint, real_endpoint
from cluster.test_high_availability import JOBS, PODS, bound, check_end, job, pair
from cluster.up_process import GROUPS, until

LEASES = "/apis/coordination.k8s.io/v1/namespaces/volcano-system/leases"
NAMES = {"scheduler": "volcano", "controllers": "vc-controller-manager"}
"""The lease of each command."""
OPTIONS = {"scheduler": ("--listen-address=127.0.0.1:0",), "controllers": ()}
LEASE_SECONDS, AGREED_SECONDS = 15, 20
"""How long a lease holds that is not renewed, and how soon another process has it."""
LOADED = 120.0
"""Seconds to wait on a machine that is busy with other tests."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RealEndpoint]:
    with real_endpoint(tmp_path) as running:
        yield running


def held(client: Client, command: str) -> tuple[str, datetime, datetime]:
    """The holder of a lease, when it took it, and when it renewed it last."""
    spec: dict[str, Any] = client.get(f"{LEASES}/{NAMES[command]}")["spec"]
    return spec["holderIdentity"], *(datetime.fromisoformat(spec[name]) for name in ("acquireTime", "renewTime"))


def take_over(client: Client, command: str, holder: str) -> tuple[datetime, float]:
    """Wait until another process holds a lease; returns when it took it, and seconds from the last renewal to that."""
    last = held(client, command)

    def changed() -> bool:
        nonlocal last
        now = held(client, command)
        if now[0] == holder:
            last = now
        return now[0] not in (holder, "")

    until(changed, f"another holder of the lease of the {command}", LOADED)
    taken = held(client, command)[1]
    return taken, (taken - last[2]).total_seconds()


@pytest.mark.parametrize("fault", ["killed", "paused", "cut off"])
def test_the_other_ones_decide_within_20_seconds_and_bind_no_pod_twice(
    server: RealEndpoint, tmp_path: Path, fault: str
) -> None:
    client = server.client()
    with running_proxy(server) as proxy, ExitStack() as ends:
        pairs = {}
        for command, options in OPTIONS.items():
            (tmp_path / command).mkdir()
            pairs[command] = ends.enter_context(pair(server, proxy, tmp_path / command, command, *options, terms=()))
        assert client.send("POST", JOBS, job("before", 10)).code == 201
        until(lambda: bound(client).total() >= 3, "some pods to be bound")
        holders = {command: held(client, command)[0] for command in pairs}
        failed = time.monotonic()
        if fault == "cut off":
            proxy.cut()
        else:
            for first, _ in pairs.values():
                first.process.send_signal(signal.SIGKILL if fault == "killed" else signal.SIGSTOP)
        assert client.send("POST", JOBS, job("after", 14)).code == 201
        ended = {}
        for command, (first, _) in pairs.items() if fault == "cut off" else ():
            until(first.has_ended, f"the {command} to end", LOADED)
            ended[command] = time.time()
        for command, (_, second) in pairs.items():
            taken, seconds = take_over(client, command, holders[command])
            assert LEASE_SECONDS <= seconds <= AGREED_SECONDS, command
            assert ended.get(command, 0) < taken.timestamp(), "it works for longer than its lease"
            until(second.leads, f"the other of the {command} to lead")
        until(lambda: bound(client).total() == 2 * CPUS, "all room to be used", LOADED)
        print(f"{fault}: the last pod was bound {time.monotonic() - failed:.1f} s after the fault")
        sent = list(proxy.writes)
        if fault == "cut off":
            proxy.heal()
        for first, second in pairs.values():
            if fault == "paused":
                first.process.send_signal(signal.SIGCONT)
            check_end(fault, first, sent, proxy)
            assert second.process.poll() is None
        names = {each["metadata"]["name"] for each in client.get(PODS)["items"]}
        assert server.binds() == dict.fromkeys(names, 1)
        assert bound(client) == {"n1": CPUS, "n2": CPUS}
        assert len(client.get(GROUPS)["items"]) == 2
