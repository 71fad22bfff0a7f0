"""The real Kubernetes API server with Volcano's kinds, two nodes and no controllers, for processes that a test starts.

with real_endpoint(folder) as server:
    server.client().get("/api/v1/nodes")
    server.binds()              # how often each pod was bound, or was to be bound
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.api_process import Client, Endpoint
from cluster.up_process import until

ROOT = Path(__file__).resolve().parents[2]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
CPUS = 12
"""Of each node."""


@dataclass(frozen=True)
class RealEndpoint(Endpoint):
    """The real server.

    Attributes:
        kubernetes: the `Server` of `tests/kubernetes/real_server.py`.
        audit: the log of all binds.
    """

    kubernetes: Any
    audit: Path

    def binds(self) -> Counter[str]:
        """The number of requests to bind each pod, whatever came of them."""
        events = map(json.loads, self.audit.read_text().splitlines())
        return Counter(each["objectRef"]["name"] for each in events)


def _log_binds(folder: Path) -> list[str]:
    """Arguments of a kube-apiserver that logs binds and nothing else."""
    rule = {"level": "Metadata", "verbs": ["create"], "resources": [{"group": "", "resources": ["pods/binding"]}]}
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"]}
    path = folder / "audit.yaml"
    path.write_text(yaml.safe_dump({**policy, "rules": [rule, {"level": "None"}]}))
    return [f"--audit-policy-file={path}", f"--audit-log-path={folder / 'audit.log'}"]


def install_definitions(client: Client, *names: str) -> None:
    """Create the definitions of Volcano's kinds, or those with a name, and wait until they are served."""
    paths = [path for path in sorted((ROOT / "deploy/crds").glob("*.yaml")) if not names or path.stem in names]
    for path in paths:
        answer = client.send("POST", DEFINITIONS, yaml.safe_load(path.read_text()))
        assert answer.code == 201, (path, answer.content)
    for path in paths:
        until(partial(_is_served, client, path.stem), f"{path.stem} to be served")


def _is_served(client: Client, name: str) -> bool:
    spec = client.get(f"{DEFINITIONS}/{name}")["spec"]
    served = [each["name"] for each in spec["versions"] if each["served"]]
    where = [f"/apis/{spec['group']}/{version}/{spec['names']['plural']}" for version in served]
    return all(client.send("GET", each).code == 200 for each in where)


@contextmanager
def real_endpoint(folder: Path) -> Iterator[RealEndpoint]:
    """The server for the length of a block; skips the test where the binaries of Kubernetes are not built."""
    sys.path.insert(0, str(ROOT / "tests/kubernetes"))
    try:
        from real_binaries import missing  # noqa: PLC0415 - only these tests need them
        from real_server import real_server  # noqa: PLC0415
    finally:
        sys.path.remove(str(ROOT / "tests/kubernetes"))
    if missing():
        pytest.skip(f"no {', '.join(missing())}: run `make kubernetes-binaries`")
    with real_server((), _log_binds(folder)) as kubernetes:
        token, log = kubernetes.tokens["admin"], folder / "audit.log"
        access = (kubernetes.url, token, kubernetes.certificate, kubernetes.kubeconfig)
        server = RealEndpoint(*access, kubernetes, log)
        client = server.client()
        install_definitions(client)
        # Pods need a service account, and no controller makes it here.
        client.send("POST", ACCOUNTS, {"metadata": {"name": "default"}})
        _make_nodes(client)
        yield server


def _make_nodes(client: Client) -> None:
    offer = {"cpu": str(CPUS), "memory": "64Gi", "pods": "110"}
    status = {"capacity": offer, "allocatable": offer, "conditions": [{"type": "Ready", "status": "True"}]}
    for name in ("n1", "n2"):
        assert client.send("POST", "/api/v1/nodes", {"metadata": {"name": name}, "status": status}).code == 201
        # kubelets and controllers take off the taint of new nodes; here are none
        merge = {"Content_Type": "application/merge-patch+json"}
        assert client.send("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, **merge).code == 200
