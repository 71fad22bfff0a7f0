"""The text of /etc/hosts in pods: pure functions from objects to lines.

A cluster answers such names by DNS. A file is what works without privileges, and for every program. It has the names of
services, and host names of pods that are reached through a service, as Kubernetes' DNS would answer them in the
namespace of the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import AddressValueError, IPv4Address
from typing import Any, NamedTuple

from kilauea.api.ports import Obj

DOMAIN = "cluster.local"
HEADER = "# Kubernetes-managed hosts file.\n"
HOST_NETWORK_HEADER = "# Kubernetes-managed hosts file (host network).\n"
"""First lines, by which programs know files of kubelets; the second is for pods that use the network of the node."""
LOCALHOST = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
_ALIASES = "\n# Entries of hostAliases.\n"
_NONE: Mapping[str, Any] = {}


class PodNames(NamedTuple):
    """A pod as names lead to it.

    Attributes:
        address: its address.
        hostname: the name of its machine, as it sees it and services know it.
        subdomain: the service by which it is reached; empty for none.
        namespace: of the pod.
        override: the name that it sees instead; empty for none.
    """

    address: str
    hostname: str
    subdomain: str
    namespace: str
    override: str = ""

    def service_names(self) -> list[str]:
        """Its names below its service, longest first; none without a service."""
        if not self.subdomain:
            return []
        return [f"{self.hostname}.{name}" for name in names_of_service(self.subdomain, self.namespace, short=True)]


def pod_names(pod: Obj, address: str) -> PodNames:
    """Return the names of a pod that has an address."""
    metadata, spec = pod["metadata"], pod.get("spec") or _NONE
    subdomain, override = spec.get("subdomain") or "", spec.get("hostnameOverride") or ""
    return PodNames(address, hostname_of(pod), subdomain, metadata.get("namespace", ""), override)


def hostname_of(pod: Obj) -> str:
    """Return the name of a pod's machine unless it is overridden: at most 63 characters, like kubelets cut it."""
    name: str = (pod.get("spec") or _NONE).get("hostname") or pod["metadata"]["name"]
    return name[:63].rstrip("-.")


def names_of_service(name: str, namespace: str, *, short: bool) -> list[str]:
    """Return the names of a service, longest first.

    Args:
        name: of the service.
        namespace: of the service.
        short: True if it is of the namespace of the pod, which then needs no more than its name.
    """
    long = f"{name}.{namespace}"
    return [f"{long}.svc.{DOMAIN}", f"{long}.svc", long, *([name] if short else [])]


def line(address: str, names: Iterable[str]) -> str:
    """Return a line of the file, with its end."""
    return f"{address}\t{' '.join(names)}\n"


def pod_line(pod: PodNames, *, own: bool) -> str:
    """Return the line of a pod: its names below its service and, in files that are its own, the name of its machine.

    Empty if it has no name. A name that overrides that of the machine has no domain, so it has a line of its own.
    """
    if own and pod.override:
        return line(pod.address, [pod.override]) + pod_line(pod, own=False)
    names = [*pod.service_names(), *([pod.hostname] if own else [])]
    return line(pod.address, names) if names else ""


def alias_lines(pod: Obj) -> str:
    """Return the lines of a pod's hostAliases, with tabs between the names as kubelets have it."""
    aliases = [each for each in (pod.get("spec") or _NONE).get("hostAliases") or () if each.get("hostnames")]
    return (
        "".join([_ALIASES, *("\t".join((each["ip"], *each["hostnames"])) + "\n" for each in aliases)])
        if aliases
        else ""
    )


def service_lines(service: Obj, slices: Sequence[Obj], *, short: bool, known: frozenset[str] = frozenset()) -> str:
    """Return the lines of one service.

    Args:
        service: the service.
        slices: its endpoint slices.
        short: True if it is of the namespace of the pod.
        known: longest names of pods that have lines of their own. Endpoints may still have the address of a pod that
            had such a name before.
    """
    metadata, spec = service["metadata"], service.get("spec") or _NONE
    names = names_of_service(metadata["name"], metadata.get("namespace", ""), short=short)
    address = spec.get("clusterIP") or ""
    if spec.get("type") == "ExternalName" or not address:
        return ""
    if address != "None":
        return line(address, names)
    return "".join(_headless(names, slices, known))


def _headless(names: Sequence[str], slices: Iterable[Obj], known: frozenset[str]) -> list[str]:
    """The lines of the endpoints behind a name, and of the pods among them that have a host name."""
    found = []
    for address, hostname in sorted(set(_endpoints(slices)), key=_place):
        found.append(line(address, names))
        if hostname and f"{hostname}.{names[0]}" not in known:
            found.append(line(address, [f"{hostname}.{name}" for name in names]))
    return found


def _endpoints(slices: Iterable[Obj]) -> Iterable[tuple[str, str]]:
    """Address and host name of each endpoint that is ready."""
    for each in slices:
        if each.get("addressType") != "IPv4":
            continue
        for endpoint in each.get("endpoints") or ():
            if (endpoint.get("conditions") or _NONE).get("ready", True):
                for address in endpoint.get("addresses") or ():
                    yield address, endpoint.get("hostname") or ""


def _place(endpoint: tuple[str, str]) -> tuple[int, str]:
    """By which endpoints are ordered: as numbers, so that the order is that in which pods came."""
    address, hostname = endpoint
    try:
        return int(IPv4Address(address)), hostname
    except AddressValueError:
        return 0, hostname


def machine_lines(text: str) -> str:
    """Return the entries of the machine's own hosts file that pods have too: all but those of loopback addresses."""
    kept = []
    for each in text.splitlines():
        words = each.partition("#")[0].split()
        if len(words) > 1 and not words[0].startswith(("127.", "::1", "fe00::", "ff00::", "ff02::")):
            kept.append(line(words[0], words[1:]))
    return "".join(kept)
