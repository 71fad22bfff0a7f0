"""Containers of a pod, as requests for logs and connections name them."""

from __future__ import annotations

from kilauea.apiserver import status
from kilauea.apiserver.rest.call import Object

DEFAULT = "kubectl.kubernetes.io/default-container"
_FIELDS = ("initContainers", "containers", "ephemeralContainers")


def container_of(pod: Object, asked: str) -> str:
    """Return the name of the requested container, or of the only one if none is requested.

    Raises:
        ApiFault: the pod has no such container, or has several and none is requested (400).
    """
    spec, name = pod["spec"], pod["metadata"]["name"]
    names = [each["name"] for field in _FIELDS for each in spec.get(field) or []]
    if asked:
        if asked not in names:
            raise status.bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    own = [each["name"] for each in spec.get("containers") or []]
    default = (pod["metadata"].get("annotations") or {}).get(DEFAULT)
    if default in own:
        return str(default)
    if len(own) == 1:
        return str(own[0])
    raise status.bad_request(f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]")
