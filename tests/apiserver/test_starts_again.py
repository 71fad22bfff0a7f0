"""A folder always starts again, whatever users did to the server's own objects; what is not right is told."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from apiserver.test_transport import SECONDS, Process
from support.api_core import MAPS

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION = f"{DEFINITIONS}/queues.scheduling.volcano.sh"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
QUEUE = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
SERVICES = "/api/v1/namespaces/default/services"


def send(server: Process, method: str, path: str, body: Any = None, code: int = 200) -> Any:
    """Send a request whose code must be this."""
    found, text, _ = server.ask(method, path, None if body is None else json.dumps(body).encode())
    assert found == code, text
    return json.loads(text)


def ended(server: Process) -> str:
    """End a server, and return its warnings."""
    server.process.send_signal(signal.SIGTERM)
    _, faults = server.process.communicate(timeout=SECONDS)
    assert server.process.returncode == 0
    return str(faults)


@pytest.mark.slow
def test_a_definition_that_waits_for_its_objects_stays(tmp_path: Path) -> None:
    with Process(tmp_path) as server:
        send(server, "POST", QUEUES, {**QUEUE, "metadata": {"name": "q", "finalizers": ["a.b/c"]}}, 201)
        send(server, "DELETE", DEFINITION)
        ended(server)
    with Process(tmp_path) as server:
        assert [each["metadata"]["name"] for each in send(server, "GET", QUEUES)["items"]] == ["q"]
        definition = send(server, "GET", DEFINITION)
        assert "deletionTimestamp" not in definition["metadata"]
        assert "Terminating" not in [each["type"] for each in definition["status"]["conditions"]]
        send(server, "POST", QUEUES, {**QUEUE, "metadata": {"name": "r"}}, 201)
        assert "queues.scheduling.volcano.sh was being deleted" in ended(server)


@pytest.mark.slow
def test_a_definition_that_was_deleted_is_there_again(tmp_path: Path) -> None:
    for _ in range(2):
        with Process(tmp_path) as server:
            send(server, "POST", QUEUES, {**QUEUE, "metadata": {"name": "q"}}, 201)
            send(server, "DELETE", DEFINITION)
            end = time.monotonic() + SECONDS
            while server.ask("GET", DEFINITION)[0] != 404:
                assert time.monotonic() < end
                time.sleep(0.05)
            ended(server)


@pytest.mark.slow
def test_a_definition_that_another_took_the_place_of_is_named_and_the_rest_is_served(tmp_path: Path) -> None:
    with Process(tmp_path) as server:
        foreign = send(server, "GET", DEFINITION)
        send(server, "DELETE", DEFINITION)
        time.sleep(1)
        foreign = {"metadata": {"name": foreign["metadata"]["name"]}, "spec": foreign["spec"] | {"scope": "Namespaced"}}
        send(server, "POST", DEFINITIONS, foreign, 201)
        ended(server)
    with Process(tmp_path) as server:
        send(server, "GET", "/apis/batch.volcano.sh/v1alpha1/jobs")
        faults = ended(server)
    assert f"{DEFINITION} is not as it should be" in faults
    assert "delete this definition and restart" in faults


@pytest.mark.slow
def test_no_service_of_users_takes_the_address_of_the_server(tmp_path: Path) -> None:
    with Process(tmp_path) as server:
        send(server, "DELETE", f"{SERVICES}/kubernetes")
        foreign = {"metadata": {"name": "foreign"}, "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 80}]}}
        assert "already allocated" in send(server, "POST", SERVICES, foreign, 422)["message"]


@pytest.mark.slow
def test_a_quota_does_not_keep_the_service_of_the_server_out(tmp_path: Path) -> None:
    with Process(tmp_path) as server:
        quota = {"metadata": {"name": "none"}, "spec": {"hard": {"services": "0"}}}
        send(server, "POST", "/api/v1/namespaces/default/resourcequotas", quota, 201)
        send(server, "DELETE", f"{SERVICES}/kubernetes")
    with Process(tmp_path) as server:
        assert send(server, "GET", f"{SERVICES}/kubernetes")["spec"]["clusterIPs"] == ["10.96.0.1"]


@pytest.mark.slow
def test_webhooks_and_policies_that_refuse_everything_keep_the_server_from_nothing(tmp_path: Path) -> None:
    """They can be removed after the restart, too."""
    group = "/apis/admissionregistration.k8s.io/v1"
    rules = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]
    hook = {
        "name": "all.example.com", "clientConfig": {"url": "https://127.0.0.1:1/"}, "rules": rules,
        "sideEffects": "None", "admissionReviewVersions": ["v1"],
    }  # fmt: skip
    policy = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "false"}]}
    binding = {"policyName": "all", "validationActions": ["Deny"]}
    made: list[tuple[str, Any]] = [
        ("validatingadmissionpolicies", {"spec": policy}),
        ("validatingadmissionpolicybindings", {"spec": binding}),
        ("validatingwebhookconfigurations", {"webhooks": [hook]}),
        ("mutatingwebhookconfigurations", {"webhooks": [hook]}),
    ]
    with Process(tmp_path) as server:
        for plural, content in made:
            send(server, "POST", f"{group}/{plural}", {"metadata": {"name": "all"}, **content}, 201)
        send(server, "POST", MAPS, {"metadata": {"name": "a"}}, 500)
        ended(server)
    with Process(tmp_path) as server:
        send(server, "POST", MAPS, {"metadata": {"name": "a"}}, 500)
        for plural, _ in made:
            send(server, "DELETE", f"{group}/{plural}/all")
        end = time.monotonic() + SECONDS
        while server.ask("POST", MAPS, b'{"metadata":{"name":"a"}}')[0] != 201:
            assert time.monotonic() < end
            time.sleep(0.05)
        ended(server)


@pytest.mark.slow
def test_roles_of_an_older_version_are_put_together_of_others_unless_their_users_want_them_to_stay(
    tmp_path: Path,
) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
    automatic = "rbac.authorization.kubernetes.io/autoupdate"
    old = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": [rule]}
    with Process(tmp_path) as server:
        for name, value in (("edit", "true"), ("view", "false")):
            metadata = {"name": name, "annotations": {automatic: value}}
            send(server, "PUT", f"{roles}/{name}", {**old, "metadata": metadata})
        ended(server)
    with Process(tmp_path) as server:
        end = time.monotonic() + SECONDS
        while len(send(server, "GET", f"{roles}/edit")["rules"]) < 5:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert send(server, "GET", f"{roles}/view")["rules"] == [rule]
