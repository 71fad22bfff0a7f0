"""The types of variables in expressions of policies and match conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kilauea.api.cel import CelError
from kilauea.api.cel.authorization import PREFIX
from kilauea.api.cel.typing import (
    BOOL,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    check_expression,
    list_of,
    map_of,
    object_of,
)

Raw = Mapping[str, Any]
_TEXTS, _LABELS = list_of(STRING), map_of(STRING, STRING)


def _texts(*names: str) -> dict[str, Type]:
    return dict.fromkeys(names, STRING)


_KIND = object_of("kubernetes.GroupVersionKind", _texts("group", "version", "kind"))
_RESOURCE = object_of("kubernetes.GroupVersionResource", _texts("group", "version", "resource"))
_USER = object_of(
    "kubernetes.UserInfo", {**_texts("username", "uid"), "groups": _TEXTS, "extra": map_of(STRING, _TEXTS)}
)
REQUEST = object_of(
    "kubernetes.AdmissionRequest",
    {
        **_texts("subResource", "requestSubResource", "name", "namespace", "operation"),
        **dict.fromkeys(("kind", "requestKind"), _KIND),
        **dict.fromkeys(("resource", "requestResource"), _RESOURCE),
        "userInfo": _USER,
        "dryRun": BOOL,
        "options": DYN,
    },
)
_CONDITION = object_of(
    "kubernetes.NamespaceCondition",
    {**_texts("status", "type", "message", "reason"), "lastTransitionTime": TIMESTAMP},
)
NAMESPACE = object_of(
    "kubernetes.Namespace",
    {
        "metadata": object_of(
            "kubernetes.NamespaceMetadata",
            {
                **_texts("name", "generateName", "namespace", "UID", "resourceVersion"),
                **dict.fromkeys(("labels", "annotations"), _LABELS),
                **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), TIMESTAMP),
                **dict.fromkeys(("deletionGracePeriodSeconds", "generation"), INT),
                "finalizers": _TEXTS,
            },
        ),
        "spec": object_of("kubernetes.NamespaceSpec", {"finalizers": _TEXTS}),
        "status": object_of("kubernetes.NamespaceStatus", {"conditions": list_of(_CONDITION), "phase": STRING}),
    },
)
AUTHORIZER: Mapping[str, Type] = {
    "authorizer": object_of(f"{PREFIX}Authorizer", {}),
    "authorizer.requestResource": object_of(f"{PREFIX}ResourceCheck", {}),
}


def variables_of(obj: Type = DYN, params: Type | None = None, *, may_ask: bool = True) -> dict[str, Type]:
    """Return the variables of an expression with their types.

    Args:
        obj: the type of the written object.
        params: the type of the parameters; None without parameters.
        may_ask: True if the expression may use the authorizer.
    """
    found = {"object": obj, "oldObject": obj, "namespaceObject": NAMESPACE, "request": REQUEST}
    return found | ({} if params is None else {"params": params}) | (dict(AUTHORIZER) if may_ask else {})


def with_composed(known: Mapping[str, Type], composed: Sequence[Raw]) -> dict[str, Type]:
    """Return the variables extended with the composed ones of a policy, each of which may use the previous ones.

    Errors in them are reported elsewhere; the type of such a variable is unknown.
    """
    types: dict[str, Type] = {}
    for each in composed:
        scope = {**known, "variables": object_of("kubernetes.variables", dict(types))}
        try:
            types[str(each.get("name"))] = check_expression((each.get("expression") or "").strip(), scope).type
        except CelError:
            types[str(each.get("name"))] = DYN
    return {**known, "variables": object_of("kubernetes.variables", types)}
