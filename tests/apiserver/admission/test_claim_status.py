"""Who may write the status of a resource claim may write the parts of it that roles give.

Answers and messages are those of Kubernetes 1.36.
"""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.apiserver.request import User
from support.api_core import ADMIN, Api

CLAIM = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNT = "system:serviceaccount:default:driver"
DRIVER = "d.example.com"
JANE = User("jane", groups=("system:authenticated",))
RESERVED = {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}
DEVICES = {"devices": [{"driver": DRIVER, "pool": "p", "device": "gpu"}]}


def on_node(node: str) -> User:
    """The account of a driver, by a token that is bound to a pod on a node."""
    return User(ACCOUNT, extra={"authentication.kubernetes.io/node-name": (node,)})


def grant(api: Api, user: str, name: str, resource: str, verb: str, *names: str) -> None:
    rule = {"apiGroups": ["resource.k8s.io"], "resources": [resource], "verbs": [verb]}
    rules = [{**rule, "resourceNames": list(names)} if names else rule]
    api.good("POST", f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]
    body = {"metadata": {"name": name}, "roleRef": role, "subjects": subjects}
    api.good("POST", f"{RBAC}/clusterrolebindings", body)


@pytest.fixture
def claimed(api: Api) -> Api:
    """A claim that has got a device on node n1; Jane and the driver may write the status of claims."""
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}
    api.good("POST", CLAIM.rpartition("/")[0], {"metadata": {"name": "c"}, "spec": spec})
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    devices = {"results": [{"request": "r", "driver": DRIVER, "pool": "p", "device": "gpu"}]}
    write(api, {"allocation": {"devices": devices, "nodeSelector": {"nodeSelectorTerms": [term]}}})
    for user in ("jane", ACCOUNT):
        grant(api, user, f"status-{user[:4]}", "resourceclaims/status", "patch")
    return api


def write(api: Api, status: dict[str, Any], user: User = ADMIN) -> str:
    """Write a part of the status; returns the message of a refusal, empty if there is none."""
    patch = "application/merge-patch+json"
    answer = api.ask("PATCH", f"{CLAIM}/status", {"status": status}, user=user, content_type=patch)
    assert answer.code in (200, 422), answer.body
    return "" if answer.code == 200 else str(answer.body["message"]).partition(" is invalid: ")[2]


def test_who_may_do_everything_may_write_all_of_a_status(claimed: Api) -> None:
    assert write(claimed, {**RESERVED, **DEVICES}) == ""


def test_reservations_need_the_right_to_bind(claimed: Api) -> None:
    assert write(claimed, RESERVED, JANE) == (
        "status.allocation: Forbidden: changing status.allocation or status.reservedFor requires "
        'resource="resourceclaims/binding", verb="patch" permission: resourceclaims.resource.k8s.io is forbidden: '
        'User "jane" cannot patch resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope'
    )
    grant(claimed, "jane", "binds", "resourceclaims/binding", "patch")
    assert write(claimed, RESERVED, JANE) == ""
    assert "changing status.devices requires" in write(claimed, DEVICES, JANE)


def test_data_of_devices_need_the_right_of_their_driver(claimed: Api) -> None:
    assert write(claimed, DEVICES, JANE) == (
        'status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver", '
        f'verb="[arbitrary-node:patch]" permission: resourceclaims.resource.k8s.io "{DRIVER}" is forbidden: '
        'User "jane" cannot arbitrary-node:patch resource "resourceclaims/driver" in API group "resource.k8s.io" '
        'in the namespace "default"'
    )
    grant(claimed, "jane", "other", "resourceclaims/driver", "arbitrary-node:patch", "other.example.com")
    assert "changing status.devices requires" in write(claimed, DEVICES, JANE)
    grant(claimed, "jane", "its-driver", "resourceclaims/driver", "arbitrary-node:patch", DRIVER)
    assert write(claimed, DEVICES, JANE) == ""
    assert "resourceclaims/binding" in write(claimed, RESERVED, JANE)


def test_a_driver_on_a_node_writes_only_about_claims_of_its_node(claimed: Api) -> None:
    assert 'verb="[associated-node:patch arbitrary-node:patch]"' in write(claimed, DEVICES, on_node("n1"))
    grant(claimed, ACCOUNT, "on-its-node", "resourceclaims/driver", "associated-node:patch", DRIVER)
    assert 'verb="[arbitrary-node:patch]"' in write(claimed, DEVICES, on_node("n2"))
    assert 'verb="[arbitrary-node:patch]"' in write(claimed, DEVICES, User(ACCOUNT))
    assert write(claimed, DEVICES, on_node("n1")) == ""
    assert 'verb="[arbitrary-node:patch]"' in write(claimed, {"devices": None}, on_node("n2"))


def test_a_write_that_changes_nothing_needs_no_such_right(claimed: Api) -> None:
    write(claimed, {**RESERVED, **DEVICES})
    assert write(claimed, {**RESERVED, **DEVICES}, JANE) == ""
