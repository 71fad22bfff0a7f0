"""The text of /etc/hosts in pods: pure functions from objects to lines.

A cluster resolves these names by DNS. A file works without privileges, and for every program. It contains the names of
services, and host names of pods in headless services, as Kubernetes' DNS would resolve them in the namespace of the
pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import AddressValueError, IPv4Address
from typing import Any, NamedTuple

from kilauea.api.ports import Obj

DOMAIN = "cluster.local"
HEADER = "# Kubernetes-managed hosts file.\n"
HOST_NETWORK_HEADER = "# Kubernetes-managed hosts file (host network).\n"
"""First lines, by which programs recognize kubelets' files; the second is for pods that use the node's network."""
LOCALHOST = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
_ALIASES = "\n# Entries of hostAliases.\n"
_NONE: Mapping[str, Any] = {}


class PodNames(NamedTuple):
    """The names of a pod.

    Attributes:
        address: its address.
        hostname: its host name, also in services.
        subdomain: the headless service that contains it; or empty.
        namespace: of the pod.
        override: the host name that it sees instead; or empty.
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
    """Return the names of a pod with an address."""
    metadata, spec = pod["metadata"], pod.get("spec") or _NONE
    subdomain, override = spec.get("subdomain") or "", spec.get("hostnameOverride") or ""
    return PodNames(address, hostname_of(pod), subdomain, metadata.get("namespace", ""), override)


def hostname_of(pod: Obj) -> str:
    """Return the host name of a pod unless it is overridden: at most 63 characters, truncated like in kubelets."""
    name: str = (pod.get("spec") or _NONE).get("hostname") or pod["metadata"]["name"]
    return name[:63].rstrip("-.")


def names_of_service(name: str, namespace: str, *, short: bool) -> list[str]:
    """Return the names of a service, longest first.

    Args:
        name: of the service.
        namespace: of the service.
        short: True if it is in the namespace of the pod, where its name alone is sufficient.
    """
    long = f"{name}.{namespace}"
    return [f"{long}.svc.{DOMAIN}", f"{long}.svc", long, *([name] if short else [])]


def line(address: str, names: Iterable[str]) -> str:
    """Return a line of the file, with its end."""
    return f"{address}\t{' '.join(names)}\n"


def pod_line(pod: PodNames, *, own: bool) -> str:
    """Return the line of a pod: its names below its service and, in its own file, its host name.

    Empty if it has no name. An overriding host name has no domain, so it has a separate line.
    """
    if own and pod.override:
        return line(pod.address, [pod.override]) + pod_line(pod, own=False)
    names = [*pod.service_names(), *([pod.hostname] if own else [])]
    return line(pod.address, names) if names else ""


def alias_lines(pod: Obj) -> str:
    """Return the lines of a pod's hostAliases, with tabs between the names as in kubelets."""
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
        short: True if it is in the namespace of the pod.
        known: longest names of pods with separate lines. Endpoints may still have the address of an earlier pod with
            such a name.
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
    """The lines of the endpoints behind a name, and of those pods that have a host name."""
    found = []
    for address, hostname in sorted(set(_endpoints(slices)), key=_place):
        found.append(line(address, names))
        if hostname and f"{hostname}.{names[0]}" not in known:
            found.append(line(address, [f"{hostname}.{name}" for name in names]))
    return found


def _endpoints(slices: Iterable[Obj]) -> Iterable[tuple[str, str]]:
    """Address and host name of each ready endpoint."""
    for each in slices:
        if each.get("addressType") != "IPv4":
            continue
        for endpoint in each.get("endpoints") or ():
            if (endpoint.get("conditions") or _NONE).get("ready", True):
                for address in endpoint.get("addresses") or ():
                    yield address, endpoint.get("hostname") or ""


def _place(endpoint: tuple[str, str]) -> tuple[int, str]:
    """Sort key of endpoints: by number, so in the order in which pods were created."""
    address, hostname = endpoint
    try:
        return int(IPv4Address(address)), hostname
    except AddressValueError:
        return 0, hostname


def machine_lines(text: str) -> str:
    """Return the entries of the machine's own hosts file for pods: all except those of loopback addresses."""
    kept = []
    for each in text.splitlines():
        words = each.partition("#")[0].split()
        if len(words) > 1 and not words[0].startswith(("127.", "::1", "fe00::", "ff00::", "ff02::")):
            kept.append(line(words[0], words[1:]))
    return "".join(kept)
