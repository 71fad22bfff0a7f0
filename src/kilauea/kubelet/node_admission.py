"""The final check of a node before it runs a pod: if the pod fits. A pure function."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from kilauea.api import sysctls
from kilauea.api.ports import Obj
from kilauea.nodes import systems
from kilauea.nodes.host_ports import are_taken, host_ports
from kilauea.nodes.requests import requests_of, shortage

NO_PORT = "NodePorts"
_PORT_WORDS = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"


class Admitted(Protocol):
    """A pod that a node has admitted."""

    @property
    def pod(self) -> Obj:
        """The pod."""
        ...

    @property
    def requests(self) -> Mapping[str, int]:
        """Its requests, from `requests_of`."""
        ...


def refusal_of(pod: Obj, node: Obj, others: Collection[Admitted]) -> tuple[str, str] | None:
    """Return reason and message if a node does not admit a pod; None if it does.

    Args:
        pod: the pod.
        node: the node.
        others: admitted pods that have not ended.
    """
    if systems.is_for_another_system(pod, node):
        return systems.REFUSED, systems.MESSAGE
    if forbidden := sysctls.refusal(pod["spec"]):
        return sysctls.REFUSED, forbidden
    if (ports := host_ports(pod)) and are_taken(ports, [each.pod for each in others]):
        return NO_PORT, _PORT_WORDS
    return shortage(requests_of(pod), node, [each.requests for each in others])
