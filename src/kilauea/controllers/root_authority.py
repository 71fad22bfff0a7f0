"""The certificate of the server's authority in every namespace, for programs in pods that use the API."""

from __future__ import annotations

from collections.abc import Iterator

from kilauea.api.kinds import CONFIG_MAPS, NAMESPACES
from kilauea.api.ports import Create, Interest, Key, Obj, Operation, Outcome, Patch, View
from kilauea.controllers.objects import NOTHING, is_going, name_of, own_key

NAME, FILE = "kube-root-ca.crt", "ca.crt"
_TYPE = {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.kind}
DESCRIPTION = {"kubernetes.io/description": "The authority by which the API server proves who it is."}


def _namespace(config_map: Obj) -> Iterator[Key]:
    """Yield the namespace of a config map with that name."""
    if name_of(config_map) == NAME:
        yield Key("", config_map["metadata"]["namespace"])


class RootAuthorityController:
    """Maintains the config map `kube-root-ca.crt`.

    Args:
        authority: certificates, as PEM.
    """

    name = "root-ca-certificate-publisher-controller"
    interests = (Interest(NAMESPACES, own_key), Interest(CONFIG_MAPS, _namespace))

    def __init__(self, authority: str) -> None:
        self._data = {FILE: authority}

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Create or correct the config map of a namespace."""
        namespace = view.get(NAMESPACES, key)
        if namespace is None or is_going(namespace):
            return NOTHING
        place = Key(key.name, NAME)
        found = view.get(CONFIG_MAPS, place)
        operations: list[Operation] = []
        if found is None:
            metadata = {"name": NAME, "namespace": key.name, "annotations": DESCRIPTION}
            operations.append(Create(CONFIG_MAPS, {**_TYPE, "metadata": metadata, "data": self._data}))
        elif found.get("data") != self._data:
            others = dict.fromkeys(found.get("data") or {})
            operations.append(Patch(CONFIG_MAPS, place, {"data": {**others, **self._data}}))
        return Outcome(operations)
