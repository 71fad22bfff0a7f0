"""A change of a pod that bypasses the rules for updates, for the subresources of pods."""

from __future__ import annotations

from functools import partial

from kilauea.apiserver.request import RequestInfo
from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.rest.call import Call
from kilauea.apiserver.rest.objects import decode_but_managers, encode, unshared
from kilauea.apiserver.rest.update import TRIES, Change
from kilauea.apiserver.storage import Conflict, Missing


def pod_type(call: Call) -> ResourceType:
    """Return the resource type of pods."""
    found = call.backend.registry.find("", "v1", "pods")
    if found is None:
        raise call.not_found()
    return found


def pod_call(call: Call, name: str) -> Call:
    """Return a call for the pod itself."""
    info = RequestInfo(call.info.verb, "", "v1", "pods", call.info.namespace, name)
    return Call(call.backend, call.request, info, pod_type(call), None, call.warnings)


async def change_pod(call: Call, change: Change) -> bytes:
    """Change a pod and write it; return its bytes.

    Args:
        call: names the pod.
        change: may be called several times; sets a resourceVersion if the pod must have that one, and adds no levels to
            the pod. It replaces fields of the metadata, the spec and the status of the given pod, but changes nothing
            below them.
    """
    for _ in range(TRIES):
        current = call.backend.store.get(call.key)
        if current is None:
            raise call.not_found()
        shared = current.decoded
        pod = change(decode_but_managers(current.value) if shared is None else unshared(shared))
        if pod["metadata"].get("resourceVersion", "") != str(current.revision):
            raise call.conflict()
        if call.dry_run():
            return encode(pod, current.revision)
        try:
            value = partial(encode, pod, deepens=False)
            decoded = None if shared is None else pod  # otherwise its managers are not decoded
            stored = await call.backend.store.write(current.key, current.revision, value, decoded)
        except (Conflict, Missing):
            continue
        return stored.value
    raise call.conflict()
