"""`kilauea scheduler` with the rights of a service account that may not read everything, at a real API server."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.api_process import Client, Server, running_server
from cluster.test_scheduler_command import OFFER, PODS, is_placed, make_gang, scheduling, until

RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUPS = [
    "",
    "scheduling.volcano.sh",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "apps",
    "policy",
    "topology.volcano.sh",
    "nodeinfo.volcano.sh",
]
MERGE = {"Content_Type": "application/merge-patch+json"}
ALL: list[dict[str, Any]] = [
    {"apiGroups": GROUPS, "resources": ["*"], "verbs": ["*"]},
    {"apiGroups": ["events.k8s.io", "coordination.k8s.io"], "resources": ["*"], "verbs": ["*"]},
]
CARD = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "resource-claims.md"
DEVICES = {"apiGroups": ["resource.k8s.io"], "resources": ["*"], "verbs": ["*"]}


def documented() -> list[dict[str, Any]]:
    """The rights on devices in the table of the page."""
    rows = re.findall(r"^\| ([^|]+) \| ((?:[a-z]+\.resource\.k8s\.io[a-z/]*(?:, )?)+) \|$", PAGE.read_text(), re.M)
    assert len(rows) == 3
    out = []
    for verbs, resources in rows:
        names = [each.replace(".resource.k8s.io", "") for each in resources.split(", ")]
        out.append({"apiGroups": ["resource.k8s.io"], "resources": names, "verbs": verbs.split(", ")})
    return out


def rules(client: Client, *given: dict[str, Any]) -> None:
    """The rights of the scheduler."""
    answer = client.send("PATCH", f"{RBAC}/clusterroles/narrow", {"rules": list(given)}, **MERGE)
    assert answer.code == 200, answer


def account(server: Server, path: Path) -> Server:
    """A server as its scheduler knows it: with a kubeconfig of a service account."""
    client = server.client()
    made = [
        ("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "narrow"}}),
        (f"{RBAC}/clusterroles", {"metadata": {"name": "narrow"}, "rules": ALL}),
        (
            f"{RBAC}/clusterrolebindings",
            {
                "metadata": {"name": "narrow"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "narrow"},
                "subjects": [{"kind": "ServiceAccount", "name": "narrow", "namespace": "default"}],
            },
        ),
    ]
    for target, body in made:
        answer = client.send("POST", target, body)
        assert answer.code == 201, answer
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = client.send("POST", "/api/v1/namespaces/default/serviceaccounts/narrow/token", request)
    assert answer.code == 201, answer
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server.url, "certificate-authority": str(server.authority)}}],
        "users": [{"name": "u", "user": {"token": answer.json()["status"]["token"]}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(config))
    return dataclasses.replace(server, kubeconfig=path)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server with one node and a device on it."""
    with running_server(tmp_path / "data", "--durability", "memory") as running:
        client = running.client()
        status = {"capacity": OFFER, "allocatable": OFFER, "conditions": [{"type": "Ready", "status": "True"}]}
        client.send("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}, "status": status})
        client.send("PATCH", "/api/v1/nodes/n1", {"spec": {"taints": None}}, **MERGE)
        until(lambda: client.send("GET", "/apis/scheduling.volcano.sh/v1beta1/queues").code == 200)
        device = {"driver": "d", "nodeName": "n1", "devices": [{"name": "a"}]}
        pool = {"pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1}}
        kinds = {"resourceslices": device | pool, "deviceclasses": {"extendedResourceName": "example.com/gpu"}}
        for plural, spec in kinds.items():
            answer = client.send(
                "POST", f"/apis/resource.k8s.io/v1/{plural}", {"metadata": {"name": "x"}, "spec": spec}
            )
            assert answer.code == 201, answer
        yield running


def test_a_scheduler_without_rights_on_devices_starts_and_uses_them_when_it_has_them(
    server: Server, tmp_path: Path
) -> None:
    client, narrow = server.client(), account(server, tmp_path / "config")
    with scheduling(narrow, tmp_path / "log", "--leader-elect=false") as scheduler:
        until(lambda: scheduler.page("/readyz")[0] == 200)
        make_gang(client, "first", 2)
        until(lambda: is_placed(client, "first", 2))
        log = scheduler.log.read_text()
        for plural in ("resourceclaims", "deviceclasses"):
            said = [line for line in log.splitlines() if f"{plural} cannot be read" in line]
            assert len(said) == 1, log
            assert f'cannot list resource "{plural}" in API group "resource.k8s.io" at the cluster scope' in said[0]
            assert said[0].endswith(f"grant the scheduler get, list and watch on {plural}.resource.k8s.io")
        make_gang(client, "card", 1, CARD)
        rules(client, *ALL, DEVICES)
        until(lambda: is_placed(client, "card", 1))
        status = client.get(f"{PODS}/card-0")["status"]["extendedResourceClaimStatus"]
        claim = client.get(f"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{status['resourceClaimName']}")
        assert [each["device"] for each in claim["status"]["allocation"]["devices"]["results"]] == ["a"]
        assert "resourceclaims can be read now" in scheduler.log.read_text()
        scheduler.stop()


def test_the_documented_rights_are_enough(server: Server, tmp_path: Path) -> None:
    """The table in docs/howto/resource-claims.md."""
    client, narrow = server.client(), account(server, tmp_path / "config")
    rules(client, *ALL, *documented())
    with scheduling(narrow, tmp_path / "log", "--leader-elect=false") as scheduler:
        until(lambda: scheduler.page("/readyz")[0] == 200)
        make_gang(client, "g", 1, CARD)
        until(lambda: is_placed(client, "g", 1))
        assert "cannot be read" not in scheduler.log.read_text()
        scheduler.stop()


READ, WRITE = ["get", "list", "watch"], ["update"]
VOLCANO = [
    ([""], ["pods"], [*READ, "patch", "delete"]),
    ([""], ["pods/status"], WRITE),
    ([""], ["pods/binding"], ["create"]),
    ([""], ["events"], ["create", "list", "watch", "update", "patch"]),
    ([""], ["nodes"], [*READ, "update", "patch"]),
    ([""], ["persistentvolumeclaims", "persistentvolumes"], ["list", "watch", "update"]),
    ([""], ["namespaces", "services", "replicationcontrollers", "resourcequotas", "configmaps"], READ),
    (["storage.k8s.io"], ["*"], ["list", "watch"]),
    (["policy"], ["poddisruptionbudgets"], ["list", "watch"]),
    (["scheduling.k8s.io"], ["priorityclasses"], READ),
    (["scheduling.volcano.sh"], ["queues"], [*READ, "create", "delete", "update"]),
    (["scheduling.volcano.sh"], ["queues/status"], WRITE),
    (["scheduling.volcano.sh"], ["podgroups"], ["list", "watch", "update"]),
    (["nodeinfo.volcano.sh"], ["numatopologies"], [*READ, "delete"]),
    (["topology.volcano.sh"], ["hypernodes"], READ),
    (["apps"], ["daemonsets", "replicasets", "statefulsets"], READ),
    (["coordination.k8s.io"], ["leases"], ["get", "create", "update", "watch"]),
    (["resource.k8s.io"], ["resourceclaims"], [*READ, "create", "update", "patch"]),
    (["resource.k8s.io"], ["resourceclaims/status"], WRITE),
    (["resource.k8s.io"], ["deviceclasses", "resourceslices"], [*READ, "create"]),
    (["resource.k8s.io"], ["devicetaintrules"], READ),
]
"""The rights of Volcano's scheduler on what this server serves: groups, resources and verbs."""
BINDING = (["resource.k8s.io"], ["resourceclaims/binding"], WRITE)
"""What Kubernetes asks for in addition from 1.36 on, also of Volcano's scheduler, before an allocation changes."""


def test_the_rights_of_volcano_s_scheduler_are_enough_with_patch_where_it_updates(
    server: Server, tmp_path: Path
) -> None:
    """As docs/howto/from-volcano.md says."""
    client, narrow = server.client(), account(server, tmp_path / "config")
    given = [
        {"apiGroups": groups, "resources": resources, "verbs": [*verbs, *(["patch"] if "update" in verbs else [])]}
        for groups, resources, verbs in (*VOLCANO, BINDING)
    ]
    rules(client, *given)
    assert client.send("POST", "/api/v1/namespaces", {"metadata": {"name": "volcano-system"}}).code == 201
    with scheduling(narrow, tmp_path / "log") as scheduler:
        until(lambda: scheduler.page("/readyz")[0] == 200)
        make_gang(client, "small", 2)
        make_gang(client, "card", 1, CARD)
        make_gang(client, "large", 1, {"requests": {"cpu": "999"}})
        until(lambda: is_placed(client, "small", 2))
        until(lambda: is_placed(client, "card", 1))
        until(lambda: client.get(f"{PODS}/large-0")["status"].get("conditions"))
        groups = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
        until(lambda: client.get(f"{groups}/small").get("status", {}).get("phase") == "Running")
        queue = "/apis/scheduling.volcano.sh/v1beta1/queues/default"
        until(lambda: client.get(queue).get("status", {}).get("allocated"))
        scheduler.stop()
    refused = re.findall(r"User \S+ cannot (\w+) resource \\?\"(\w+)", scheduler.log.read_text())
    # Volcano's scheduler reads neither templates of claims nor Kubernetes' own pod groups.
    assert set(refused) == {("list", "resourceclaimtemplates"), ("list", "podgroups")}
