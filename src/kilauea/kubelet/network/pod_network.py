"""`PodNetwork`: the network of pods, for the kubelet."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path

from kilauea.api.kinds import ENDPOINT_SLICES, SERVICES
from kilauea.api.ports import Clock, Key, Obj, key_of
from kilauea.api.times import SECOND
from kilauea.client.view import Cache
from kilauea.kubelet.network.address_pool import AddressPool, NetworkRanges
from kilauea.kubelet.network.hosts import machine_lines
from kilauea.kubelet.network.hosts_files import HostsFiles
from kilauea.kubelet.network.proxies import Proxies
from kilauea.kubelet.network.routes import Listen, Route, routes_of
from kilauea.kubelet.network.service_names import BY_SERVICE, ServiceNames, service_of, slices_of

GATHER_SECONDS = 0.1
"""Seconds for which changes of services are collected."""
SHARE = 10
"""Factor of the last update's duration to wait until the next, so that updates take at most a tenth of the time."""
RETRY_SECONDS = 10.0
LONGEST_HOSTS_FILE = 64 * 1024
"""Maximum size of the machine's own hosts file whose entries are passed to pods."""
log = logging.getLogger(__name__)


class PodNetwork:
    """Addresses and names of the pods of this machine, which share its network."""

    def __init__(
        self, cache: Cache, ranges: NetworkRanges, folder: Path, clock: Clock, node_address: str = "127.0.0.1"
    ) -> None:
        """Initialize the network of a cluster; called before the cache runs, as this declares interests.

        Args:
            cache: of the objects of the cluster.
            ranges: its addresses.
            folder: folder for its files, which outlive the process.
            clock: the time.
            node_address: address of pods that use the network of the node.
        """
        cache.declare(SERVICES).listeners.append(self._service_changed)
        cache.declare(ENDPOINT_SLICES, indexes={BY_SERVICE: service_of}).listeners.append(self._slice_changed)
        self._cache = cache
        self._pool = AddressPool(ranges.pods)
        self._own_addresses = _is_local(str(ranges.pods[1]))
        self._node_address = node_address
        self._clock = clock
        self._names = ServiceNames(cache)
        self._files = HostsFiles(folder / "hosts", self._names.text, _machine())
        self._proxies = Proxies(clock)
        self._routes: dict[Key, dict[Listen, Route]] = {}
        self._changed: set[Key] = set()
        """Services whose routes may have changed."""
        self._wake = asyncio.Event()

    @property
    def limitations(self) -> Sequence[str]:
        """Limitations on this machine, each with the reason and the fix."""
        if self._own_addresses:
            return ()
        return (
            f"pods share the address {self._node_address} and services have none, as this system has no other loopback "
            "addresses: use different ports for programs that listen, or use Linux",
        )

    def restore(self, pods: Iterable[Obj]) -> None:
        """Take over the running pods; called once, when the cache is complete and before new pods are handled.

        Args:
            pods: all pods of nodes of this machine that have not ended.
        """
        found = [pod for pod in pods if (pod.get("status") or {}).get("podIP")]
        try:
            self._files.restore([(pod, self.address(pod)) for pod in found])
        except OSError as error:
            log.warning("hosts file of pods: %s: %s; it will be written again soon", error.filename, error.strerror)
        self._wake_if_stale()

    def address(self, pod: Obj) -> str:
        """Return the address of a pod, the same one until it is released.

        Raises:
            NoFreeAddress: all are in use.
        """
        if (pod.get("spec") or {}).get("hostNetwork") or not self._own_addresses:
            return self._node_address
        return self._pool.give(pod["metadata"]["uid"], (pod.get("status") or {}).get("podIP") or "")

    def hosts_file(self, pod: Obj) -> Path:
        """Return the file for a pod to mount at /etc/hosts, read-only: pods of a namespace share it.

        It is updated in place until the pod is released.

        Raises:
            NoFreeAddress: all addresses are in use.
            OSError: the file cannot be written.
        """
        path = self._files.add(pod, self.address(pod))
        self._wake_if_stale()
        return path

    def release(self, uid: str) -> None:
        """Release address and files of a pod when its containers have ended; no error if it has none."""
        self._pool.release(uid)
        self._files.discard(uid)
        self._wake_if_stale()

    async def run(self) -> None:
        """Update the files and listen on the addresses of services, until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                await self._wake.wait()
                await self._clock.sleep(GATHER_SECONDS)
                self._wake.clear()
                begin = self._clock.monotonic()
                if (retry := await self._update()) > 0:
                    loop.call_later(retry, self._wake.set)
                await self._clock.sleep(SHARE * (self._clock.monotonic() - begin) / SECOND)
        finally:
            await self._proxies.close()

    async def _update(self) -> float:
        """Process changes since the last time; return the seconds until a retry of the rest, 0 if all is done."""
        for key in self._changed:
            service = self._cache.get(SERVICES, key)
            self._routes.pop(key, None)
            if service is not None and (routes := dict(routes_of(service, slices_of(self._cache, service)))):
                self._routes[key] = routes
        if self._changed or self._proxies.retry:
            self._changed.clear()
            await self._proxies.follow({listen: to for each in self._routes.values() for listen, to in each.items()})
        try:
            self._files.refresh()
        except OSError as error:
            log.warning("hosts file of pods: %s: %s; it will be written again soon", error.filename, error.strerror)
        return self._proxies.retry or (RETRY_SECONDS if self._files.stale else 0.0)

    def _service_changed(self, old: Obj | None, new: Obj | None) -> None:
        self._see(key_of(new or old or {}))

    def _slice_changed(self, old: Obj | None, new: Obj | None) -> None:
        for each in (old, new):
            namespace, _, name = service_of(each).partition("/") if each is not None else ("", "", "")
            if name:
                self._see(Key(namespace, name))

    def _see(self, service: Key) -> None:
        """Record that a service may have changed."""
        self._names.changed(service.namespace)
        self._changed.add(service)
        self._files.touch()
        self._wake.set()

    def _wake_if_stale(self) -> None:
        if self._files.stale:
            self._wake.set()


def _is_local(address: str) -> bool:
    """Return True if programs of this machine can listen on an address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def _machine() -> str:
    """The entries of the machine's own hosts file; empty if the file is too large."""
    try:
        text = Path("/etc/hosts").read_text(errors="replace")
    except OSError:
        return ""
    return machine_lines(text) if len(text) <= LONGEST_HOSTS_FILE else ""
