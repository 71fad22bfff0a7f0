"""`kilauea up` as clients of a whole cluster use it: webhooks, old versions of kinds, the server's own endpoints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cluster.api_process import Server
from cluster.up_process import apply, ask, kubectl, phases, running_up, until
from kilauea.runtime.cluster.addresses import advertised_address
from support.webhook_server import WebhookServer, deny, patching


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two nodes."""
    with running_up(tmp_path_factory.mktemp("clients") / "data", "--nodes", "2") as running:
        yield running


def hook(hooks: WebhookServer, kind: str, path: str, resource: str, **selector: str) -> dict[str, Any]:
    """A configuration with one webhook, for new objects with a label."""
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": [resource]}
    webhook = {"name": f"{path}.example.com", "rules": [rule], "clientConfig": hooks.client(path)}
    webhook |= {"sideEffects": "None", "admissionReviewVersions": ["v1"]}
    webhook |= {"objectSelector": {"matchLabels": selector}}
    group = "admissionregistration.k8s.io/v1"
    return {"apiVersion": group, "kind": kind, "metadata": {"name": path}, "webhooks": [webhook]}


def test_webhooks_are_asked_about_what_kubectl_applies_and_controllers_make(server: Server) -> None:
    label = {"op": "add", "path": "/metadata/annotations", "value": {"seen": "yes"}}
    hooks = WebhookServer(patch=patching(label), deny=deny("not on my watch"))
    try:
        apply(
            server,
            hook(hooks, "MutatingWebhookConfiguration", "patch", "pods", app="web"),
            hook(hooks, "ValidatingWebhookConfiguration", "deny", "configmaps", hook="deny"),
        )
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "labels": {"hook": "deny"}}}
        refused = ask(server, "apply", "-f", "-", given=json.dumps(made))
        assert refused.returncode == 1
        assert 'admission webhook "deny.example.com" denied the request: not on my watch' in refused.stderr
        kubectl(server, "create", "deployment", "web", "--image=demo", "--replicas=2")
        until(lambda: phases(server.client(), "web-") == {"Running": 2}, "the pods to run")
        seen = kubectl(server, "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].metadata.annotations.seen}")
        assert seen == "yes yes"
        assert [each["request"]["operation"] for each in hooks.requests["patch"]] == ["CREATE", "CREATE"]
    finally:
        kubectl(server, "delete", "mutatingwebhookconfiguration/patch", "validatingwebhookconfiguration/deny")
        kubectl(server, "delete", "deployment", "web", "--ignore-not-found")
        hooks.close()


def test_kubectl_cp_says_that_a_simulated_pod_has_no_files(server: Server) -> None:
    kubectl(server, "run", "quiet", "--image=demo", "--", "sleep", "600")
    until(lambda: phases(server.client(), "quiet") == {"Running": 1}, "the pod to run")
    for words in (("cp", __file__, "quiet:/tmp/x"), ("cp", "quiet:/etc/hostname", "/dev/null")):
        ended = ask(server, *words)
        assert ended.returncode == 1
        assert "pod default/quiet is simulated: it has a status and logs, but no process, files or" in ended.stderr
        assert "exec and cp are not available" in ended.stderr
    kubectl(server, "delete", "pod", "quiet", "--now")


def test_the_service_of_the_server_has_endpoints_at_its_port(server: Server) -> None:
    port = server.url.rpartition(":")[2]
    assert kubectl(server, "get", "service", "kubernetes", "-o", "jsonpath={.spec.ports[0].targetPort}") == port
    found = kubectl(server, "get", "endpointslices", "-l", "kubernetes.io/service-name=kubernetes", "-o", "json")
    slices, address = json.loads(found)["items"], advertised_address("127.0.0.1")
    if address is None:
        assert slices == []
        pytest.skip("no interface leads out of this machine")
    (slice,) = slices
    assert slice["ports"] == [{"name": "https", "port": int(port), "protocol": "TCP"}]
    assert slice["endpoints"][0]["addresses"] == [address]
    shown = kubectl(server, "get", "endpoints", "kubernetes", "--no-headers")
    assert shown.split()[1] == f"{address}:{port}"


def test_an_autoscaler_of_the_older_version_is_one_of_the_newer(server: Server) -> None:
    kubectl(server, "create", "deployment", "sized", "--image=demo")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "sized"}
    spec = {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50}
    older = {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "sized"}}
    apply(server, {**older, "spec": spec})
    until(lambda: phases(server.client(), "sized-") == {"Running": 2}, "the smallest size")
    share = "jsonpath={.spec.metrics[0].resource.target.averageUtilization}"
    assert kubectl(server, "get", "hpa", "sized", "-o", share) == "50"
    older_words = "jsonpath={.metadata.annotations.autoscaling\\.alpha\\.kubernetes\\.io/conditions}"
    until(
        lambda: kubectl(server, "get", "horizontalpodautoscalers.v1.autoscaling", "sized", "-o", older_words),
        "conditions",
    )
    apply(server, {**older, "spec": {**spec, "minReplicas": 1}})
    assert kubectl(server, "get", "hpa", "sized", "-o", "jsonpath={.spec.minReplicas}") == "1"
    kubectl(server, "delete", "deployment/sized", "hpa/sized")


def test_a_namespace_waits_for_its_pods_and_says_so(server: Server) -> None:
    kubectl(server, "create", "namespace", "team")
    kubectl(server, "create", "configmap", "kept", "-n", "team")
    metadata = {"name": "held", "namespace": "team", "finalizers": ["example.com/hold"]}
    spec = {"containers": [{"name": "main", "image": "demo"}]}
    apply(server, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    kubectl(server, "delete", "namespace", "team", "--wait=false")
    remaining = 'jsonpath={.status.conditions[?(@.type=="NamespaceContentRemaining")].message}'
    message = "Some resources are remaining: pods. has 1 resource instances"
    until(lambda: kubectl(server, "get", "namespace", "team", "-o", remaining) == message, "a word on what remains")
    assert (
        kubectl(server, "get", "configmap", "kept", "-n", "team", "-o", "jsonpath={.metadata.deletionTimestamp}") == ""
    )
    kubectl(server, "patch", "pod", "held", "-n", "team", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    kubectl(server, "wait", "--for=delete", "namespace/team", "--timeout=60s")
