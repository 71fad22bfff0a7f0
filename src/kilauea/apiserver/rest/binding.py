"""Binding: assigns a pod to a node, the last step of a scheduler."""

from __future__ import annotations

from functools import cache
from typing import Literal

import msgspec

from kilauea.apiserver import status
from kilauea.apiserver.fields import not_supported, required
from kilauea.apiserver.request import JSON, ApiResponse
from kilauea.apiserver.rest.body import read_typed
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.rest.dynamic import ask_dynamically
from kilauea.apiserver.rest.objects import metadata_of
from kilauea.apiserver.rest.pods import change_pod, pod_call
from kilauea.apiserver.schema import Schema, builtin_schema
from kilauea.apiserver.status import ApiFault


@cache
def _schema() -> Schema:
    return builtin_schema("", "v1", "Binding")


class _Metadata(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] = {}


class _Target(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""


class _Plain(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A Binding as schedulers send it: with the right types and without unknown fields."""

    api_version: Literal["v1"] = "v1"
    kind: Literal["Binding"] = "Binding"
    metadata: _Metadata | None = None
    target: _Target | None = None


_check_plain = msgspec.json.Decoder(_Plain).decode


def _read(call: Call) -> Object:
    """Return the Binding in the body; a plain one is not checked field by field."""
    request = call.request
    if request.parsed is None and request.headers.get("content-type", JSON) == JSON:
        try:
            _check_plain(request.body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            pass
        else:
            return {"apiVersion": "v1", "kind": "Binding", **msgspec.json.decode(request.body)}
    return read_typed(call, _schema(), "v1", "Binding")


async def bind(call: Call) -> ApiResponse:
    """Answer a create of a pod's `binding`, or of a Binding that names the pod."""
    body = _read(call)
    metadata = metadata_of(body)
    name = call.info.name or metadata.get("name", "")
    if metadata.get("name", name) != name:
        raise status.bad_request("name in URL does not match name in Binding object")
    target = body.get("target") or {}
    causes = []
    if target.get("kind", "") not in ("", "Node"):
        causes.append(not_supported("target.kind", target["kind"], ["Node", "<empty>"]))
    if not target.get("name"):
        causes.append(required("target.name"))
    if causes:  # the real server returns this as an internal error
        raise status.ApiFault(500, "", ", ".join(map(str, causes)))
    if call.backend.dynamic is not None and call.backend.dynamic.has_any():
        await ask_dynamically(call, call.attributes("CREATE", body, None, name))
    uid, revision = metadata.get("uid"), metadata.get("resourceVersion")
    annotations = metadata.get("annotations") or {}
    pods = pod_call(call, name)

    def change(pod: Object) -> Object:
        for label, wanted, key in (("UID", uid, "uid"), ("ResourceVersion", revision, "resourceVersion")):
            held = pod["metadata"][key]
            if wanted and wanted != held:
                message = f"Precondition failed: {label} in precondition: {wanted}, {label} in object meta: {held}"
                where = f"Key: /registry/pods/{pod['metadata']['namespace']}/{name}, ResourceVersion: 0"
                raise pods.conflict(f"StorageError: invalid object, Code: 4, {where}, AdditionalErrorMsg: {message}")
        return _bound(pods, pod, target["name"], annotations)

    await change_pod(pods, change)
    return ApiResponse(201, _SUCCESS)


_SUCCESS = status.encode(status.status("Success", 201))


def _bound(call: Call, pod: Object, node: str, annotations: dict[str, str]) -> Object:
    """Return the pod with its node and the condition PodScheduled."""
    name = pod["metadata"]["name"]
    if pod["metadata"].get("deletionTimestamp"):
        raise _refused(name, f"pod {name} is being deleted, cannot be assigned to a host")
    spec = pod["spec"]
    if spec.get("nodeName"):
        raise _refused(name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise _refused(name, f"pod {name} has non-empty .spec.schedulingGates")
    spec["nodeName"] = node
    if annotations:
        pod["metadata"]["annotations"] = {**(pod["metadata"].get("annotations") or {}), **annotations}
    state = pod.setdefault("status", {})
    others = [each for each in state.get("conditions") or [] if each.get("type") != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
    state["conditions"] = [*others, {**scheduled, "lastTransitionTime": call.backend.timestamp()}]
    return pod


def _refused(name: str, why: str) -> ApiFault:
    """The error for a pod that cannot be bound."""
    return status.conflict("pods/binding", "", name, why)
