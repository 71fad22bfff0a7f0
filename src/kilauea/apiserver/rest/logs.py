"""Log: what a container has written. The text comes from whoever runs containers, through `Backend.logs`."""

from __future__ import annotations

from kilauea.apiserver import status
from kilauea.apiserver.request import ApiResponse
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.rest.get import read_stored
from kilauea.apiserver.rest.objects import decode


async def read_log(call: Call) -> ApiResponse:
    """Answer a get of a pod's `log`."""
    pod = decode(read_stored(call).value)
    container = _container(pod, call.request.first("container"))
    if not pod["spec"].get("nodeName"):
        return ApiResponse(204, content_type="")  # nothing has run that could have written anything
    text = call.backend.logs.read(call.namespace, call.info.name, container) if call.backend.logs else b""
    return ApiResponse(200, _cut(call, text), "text/plain")


def _container(pod: Object, asked: str) -> str:
    """The container that is meant; the only one if none is named."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    names = [each["name"] for each in spec.get("containers") or []]
    init = [each["name"] for each in spec.get("initContainers") or []]
    if asked:
        if asked not in names + init:
            raise status.bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    default = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    if default in names:
        return str(default)
    if len(names) == 1 and not init:
        return str(names[0])
    if not init:
        raise status.bad_request(
            f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]"
        )
    words = f"choose one of: [{' '.join(names)}] or one of the init containers: [{' '.join(init)}]"
    raise status.bad_request(f"a container name must be specified for pod {name}, {words}")


def _cut(call: Call, text: bytes) -> bytes:
    """The last lines, and at most so many bytes, as asked."""
    lines, limit = call.request.first("tailLines"), call.request.first("limitBytes")
    try:
        if lines:
            kept = text.splitlines(keepends=True)
            text = b"".join(kept[max(len(kept) - int(lines), 0) :])
        return text[: int(limit)] if limit else text
    except ValueError:
        raise status.bad_request("tailLines and limitBytes must be whole numbers") from None
