"""`ServiceNames`: the lines of all services in hosts files, cached per namespace until its services change."""

from __future__ import annotations

from kilauea.api.kinds import ENDPOINT_SLICES, SERVICES
from kilauea.api.ports import Key, Obj, View, key_of
from kilauea.kubelet.network.hosts import service_lines

SERVICE_LABEL = "kubernetes.io/service-name"
BY_SERVICE = "service"
"""The index of endpoint slices: the key of their service as text."""


def service_of(endpoint_slice: Obj) -> str:
    """Return the key of the service that a slice belongs to, as text; empty for none."""
    metadata = endpoint_slice["metadata"]
    name = (metadata.get("labels") or {}).get(SERVICE_LABEL)
    return str(Key(metadata["namespace"], name)) if name else ""


def slices_of(view: View, service: Obj) -> list[Obj]:
    """Return the endpoint slices of a service."""
    return list(view.indexed(ENDPOINT_SLICES, BY_SERVICE, str(key_of(service))))


class ServiceNames:
    """Lines of services for pods of each namespace."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._long: dict[str, str] = {}
        """Lines of the services of a namespace for pods of other namespaces."""

    def changed(self, namespace: str) -> None:
        """Drop the cached lines of a namespace."""
        self._long.pop(namespace, None)

    def text(self, namespace: str, known: frozenset[str]) -> str:
        """Return the lines of all services for pods of a namespace, those of the namespace first.

        Args:
            namespace: namespace of the pods.
            known: longest names of pods with separate lines.
        """
        own = self._lines(namespace, short=True, known=known)
        others = {each["metadata"]["namespace"] for each in self._view.list(SERVICES)} - {namespace}
        return own + "".join(map(self._of_other, sorted(others)))

    def _of_other(self, namespace: str) -> str:
        if namespace not in self._long:
            self._long[namespace] = self._lines(namespace, short=False)
        return self._long[namespace]

    def _lines(self, namespace: str, *, short: bool, known: frozenset[str] = frozenset()) -> str:
        services = self._view.list(SERVICES, namespace) if namespace else ()
        return "".join(service_lines(each, slices_of(self._view, each), short=short, known=known) for each in services)
