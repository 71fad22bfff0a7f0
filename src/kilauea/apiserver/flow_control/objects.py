"""The default FlowSchemas and priority levels: mandatory and suggested ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kilauea.api.kinds import FLOW_SCHEMAS, PRIORITY_LEVELS
from kilauea.api.ports import Resource
from kilauea.apiserver.request import GROUP_AUTHENTICATED, GROUP_MASTERS

Object = dict[str, Any]

AUTOUPDATE = "apf.kubernetes.io/autoupdate-spec"
"""Annotation: `true` if the server maintains the specification, `false` if an administrator does."""
EXEMPT, CATCH_ALL = "exempt", "catch-all"
MANDATORY = frozenset({EXEMPT, CATCH_ALL})
"""Names of the objects that the server always maintains, regardless of their annotation."""
_GROUP_UNAUTHENTICATED = "system:unauthenticated"
_EVERYTHING = {
    "resourceRules": [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    ],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
}
_PROBES = {"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]}


def _group(name: str) -> Object:
    return {"kind": "Group", "group": {"name": name}}


def _user(name: str) -> Object:
    return {"kind": "User", "user": {"name": name}}


_EVERYONE = [_group(_GROUP_UNAUTHENTICATED), _group(GROUP_AUTHENTICATED)]
_OWN_ACCOUNTS = {"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "kube-system"}}
_MANAGER, _SCHEDULER = _user("system:kube-controller-manager"), _user("system:kube-scheduler")
_NODES = _group("system:nodes")


def _leases(*verbs: str) -> Object:
    return {"verbs": [*verbs], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": ["*"]}


_NODE_STATUS = {
    "verbs": ["*"], "apiGroups": [""], "resources": ["nodes", "nodes/status"],
    "clusterScope": True, "namespaces": ["*"],
}  # fmt: skip


def _made(resource: Resource, name: str, spec: Object) -> Object:
    metadata = {"name": name, "annotations": {AUTOUPDATE: "true"}}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


def _schema(
    name: str, level: str, precedence: int, told_apart: str, subjects: Sequence[Object], what: Object
) -> Object:
    spec: Object = {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": [{"subjects": [*subjects], **what}],
    }
    if told_apart:
        spec["distinguisherMethod"] = {"type": told_apart}
    return _made(FLOW_SCHEMAS, name, spec)


def _queued(name: str, shares: int, lendable: int, queues: int, hand: int) -> Object:
    queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": 50}
    return _limited(name, shares, lendable, {"type": "Queue", "queuing": queuing})


def _limited(name: str, shares: int, lendable: int, response: Object) -> Object:
    limited = {"nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response}
    return _made(PRIORITY_LEVELS, name, {"type": "Limited", "limited": limited})


LEVELS: Sequence[Object] = (
    _made(
        PRIORITY_LEVELS,
        EXEMPT,
        {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    ),
    _limited(CATCH_ALL, 5, 0, {"type": "Reject"}),
    _queued("system", 30, 33, 64, 6),
    _queued("node-high", 40, 25, 64, 6),
    _queued("leader-election", 10, 0, 16, 4),
    _queued("workload-high", 40, 50, 128, 6),
    _queued("workload-low", 100, 90, 128, 6),
    _queued("global-default", 20, 50, 128, 6),
)
SCHEMAS: Sequence[Object] = (
    _schema(EXEMPT, EXEMPT, 1, "", [_group(GROUP_MASTERS)], _EVERYTHING),
    _schema(CATCH_ALL, CATCH_ALL, 10_000, "ByUser", _EVERYONE, _EVERYTHING),
    _schema("probes", EXEMPT, 2, "", _EVERYONE, _PROBES),
    _schema("system-leader-election", "leader-election", 100, "ByUser", [_MANAGER, _SCHEDULER, _OWN_ACCOUNTS],
            {"resourceRules": [_leases("get", "create", "update")]}),
    _schema("system-node-high", "node-high", 400, "ByUser", [_NODES], {"resourceRules": [_NODE_STATUS, _leases("*")]}),
    _schema("system-nodes", "system", 500, "ByUser", [_NODES], _EVERYTHING),
    _schema("kube-controller-manager", "workload-high", 800, "ByNamespace", [_MANAGER], _EVERYTHING),
    _schema("kube-scheduler", "workload-high", 800, "ByNamespace", [_SCHEDULER], _EVERYTHING),
    _schema("kube-system-service-accounts", "workload-high", 900, "ByNamespace", [_OWN_ACCOUNTS], _EVERYTHING),
    _schema("service-accounts", "workload-low", 9000, "ByUser", [_group("system:serviceaccounts")], _EVERYTHING),
    _schema("global-default", "global-default", 9900, "ByUser", _EVERYONE, _EVERYTHING),
)  # fmt: skip
