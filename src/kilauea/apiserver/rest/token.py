"""Token: issues a token for a service account that expires and may be bound to a pod or secret."""

from __future__ import annotations

from typing import Any

import msgspec

from kilauea.api.times import SECOND, format_time
from kilauea.apiserver import status
from kilauea.apiserver.account_tokens import AUDIENCE
from kilauea.apiserver.fields import invalid_value
from kilauea.apiserver.request import ApiResponse
from kilauea.apiserver.rest.body import read_typed
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.rest.get import read_stored
from kilauea.apiserver.rest.objects import decode
from kilauea.apiserver.schema import builtin_schema
from kilauea.apiserver.status import Cause

_GROUP, _KIND = "authentication.k8s.io", "TokenRequest"
_USUAL, _SHORTEST, _LONGEST = 3600, 600, 1 << 32
_BOUND = {"Node": "nodes", "Pod": "pods", "Secret": "secrets"}


async def create_token(call: Call) -> ApiResponse:
    """Answer a create of a service account's `token`."""
    account = decode(read_stored(call).value)["metadata"]
    body = read_typed(call, builtin_schema(_GROUP, "v1", _KIND), f"{_GROUP}/v1", _KIND)
    _check_names(account, body.get("metadata") or {})
    spec = body.get("spec") or {}
    seconds = spec.get("expirationSeconds", _USUAL)
    audiences = spec.get("audiences") or [AUDIENCE]
    causes = _check(seconds, audiences)
    if causes:
        raise status.invalid(_KIND, _GROUP, "", causes)
    if call.backend.accounts is None:
        raise status.internal("this server has no key to sign tokens with")
    bound = _bound(call, account["name"], spec["boundObjectRef"]) if spec.get("boundObjectRef") else None
    token = call.backend.accounts.issue(account, audiences, seconds, call.backend.new_uid(), bound)
    ends = (call.backend.now() // SECOND + seconds) * SECOND
    answer = {
        "kind": _KIND,
        "apiVersion": f"{_GROUP}/v1",
        "metadata": {
            "name": account["name"], "namespace": account["namespace"], "uid": account["uid"],
            "creationTimestamp": call.backend.timestamp(),
        },
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": spec.get("boundObjectRef")},
        "status": {"token": token, "expirationTimestamp": format_time(ends)},
    }  # fmt: skip
    return ApiResponse(201, msgspec.json.encode(answer))


def _check_names(account: Object, given: Object) -> None:
    """Reject a request that names a different account than its path."""
    if given.get("namespace") not in (None, "", account["namespace"]):
        message = "the namespace of the provided object does not match the namespace sent on the request"
        raise status.bad_request(message)
    if given.get("name") not in (None, "", account["name"]):
        message = "must match the service account name if specified"
        raise status.invalid(_KIND, _GROUP, account["name"], [invalid_value("metadata.name", given["name"], message)])


def _check(seconds: Any, audiences: Any) -> list[Cause]:
    """Return the errors in the requested expiration and audiences."""
    if not isinstance(seconds, int) or isinstance(seconds, bool):
        return [invalid_value("spec.expirationSeconds", seconds, "must be a whole number of seconds")]
    if not isinstance(audiences, list) or not all(isinstance(each, str) for each in audiences):
        return [invalid_value("spec.audiences", audiences, "must be a list of texts")]
    if seconds < _SHORTEST:
        message = f"may not specify a duration less than {_SHORTEST // 60} minutes"
    elif seconds > _LONGEST:
        message = "may not specify a duration larger than 2^32 seconds"
    else:
        return []
    return [invalid_value("spec.expirationSeconds", seconds, message)]


def _bound(call: Call, account: str, reference: Object) -> Object:
    """Return kind, name and UID of the object that the token is bound to, and the node of a pod."""
    kind, name = str(reference.get("kind", "")), str(reference.get("name", ""))
    if kind not in _BOUND:
        group, _, version = str(reference.get("apiVersion", "")).rpartition("/")
        raise status.bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    if not name:
        raise status.bad_request("Name parameter required.")
    where = name if kind == "Node" else f"{call.namespace}/{name}"
    stored = call.backend.store.get(f"/core/{_BOUND[kind]}/{where}")
    if stored is None:
        raise status.not_found(_BOUND[kind], "", name)
    found = decode(stored.value)
    if kind == "Pod" and found["spec"].get("serviceAccountName") != account:
        words = f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.'
        raise status.bad_request(words)
    uid = found["metadata"]["uid"]
    if reference.get("uid") not in (None, "", uid):
        message = f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record"
        message += ". The object might have been deleted and then recreated"
        raise status.conflict(_BOUND[kind], "", name, message)
    bound: Object = {"kind": kind, "name": name, "uid": uid}
    node = found["spec"].get("nodeName") if kind == "Pod" else None
    if node:
        there = call.backend.store.get(f"/core/nodes/{node}")
        known = {"uid": decode(there.value)["metadata"]["uid"]} if there is not None else {}
        bound["node"] = {"name": node, **known}
    return bound
