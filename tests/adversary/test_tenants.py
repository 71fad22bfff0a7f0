"""Users with rights in one namespace or in none: they harm no one else, and their rights end where their roles end."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from apiserver.test_transport import Process, connected
from support.attacks import watched_by_a_bystander

INSTALL = Path(__file__).resolve().parents[2] / "deploy/install.yaml"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
CORE, RBAC = "/api/v1/namespaces", "/apis/rbac.authorization.k8s.io/v1/namespaces"
ACCOUNTS = ("admin", "helper", "guest")
"""Service accounts of the namespace `team`: the first two administer it, the last may do nothing."""
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
HOOK_SECONDS = 20


class Tenants(Process):
    """A server with a namespace that its own people administer."""

    tokens: dict[str, str]

    def prepare(self) -> None:
        """Make the namespace, its accounts, and what a bystander reads."""
        self.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
        self.post(f"{CORE}/default/configmaps", {"metadata": {"name": "bystander"}})
        self.tokens = {name: self._account("team", name) for name in ACCOUNTS}

    def account_of(self, namespace: str) -> str:
        """Make another namespace; returns the token of an account that administers it."""
        self.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        return self._account(namespace, "admin")

    def _account(self, namespace: str, name: str) -> str:
        self.post(f"{CORE}/{namespace}/serviceaccounts", {"metadata": {"name": name}})
        if name != "guest":
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"}
            subject = {"kind": "ServiceAccount", "namespace": namespace, "name": name}
            body = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
            self.post(f"{RBAC}/{namespace}/rolebindings", body)
        token: str = self.post(f"{CORE}/{namespace}/serviceaccounts/{name}/token", {})["status"]["token"]
        return token

    def post(self, path: str, body: object, code: int = 201, account: str = "") -> dict[str, dict[str, str]]:
        """Create an object, as the administrator or as an account; returns the answer."""
        authorization = f"Bearer {self.tokens[account] if account else self.token}"
        found, text, _ = self.ask("POST", path, json.dumps(body).encode(), authorization=authorization)
        assert found == code, text
        answer: dict[str, dict[str, str]] = json.loads(text)
        return answer

    def memory(self) -> int:
        """Bytes that the server takes."""
        status = Path(f"/proc/{self.process.pid}/status")
        if not status.exists():
            pytest.skip("this system does not tell the memory of a process in /proc")
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmRSS"].split()[0]) * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    with Tenants(tmp_path_factory.mktemp("tenants")) as process:
        process.prepare()
        yield process
        process.process.kill()
        process.process.communicate()


def test_no_body_is_read_of_a_client_that_may_not_send_it(server: Tenants) -> None:
    head = f"POST {CORE}/team/configmaps HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.tokens['guest']}\r\n"
    with connected(server) as client:
        client.sendall(f"{head}Content-Length: 3000000\r\n\r\n".encode())
        assert client.recv(1000).startswith(b"HTTP/1.1 403")


def test_bodies_that_never_end_take_little_memory_and_hold_up_no_one(server: Tenants) -> None:
    before = server.memory()
    with ExitStack() as opened, watched_by_a_bystander(server):
        for number in range(60):
            token = server.tokens[ACCOUNTS[number % 2]]
            head = f"POST {CORE}/team/configmaps HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
            client = opened.enter_context(connected(server))
            client.sendall(f"{head}Content-Length: 3100000\r\n\r\n".encode())
            client.settimeout(0.2)
            try:
                for _ in range(30):
                    client.sendall(b" " * 100_000)
            except TimeoutError:  # the server reads no more for now
                pass
        time.sleep(1)
        large = {"metadata": {"generateName": "large-"}, "data": {"text": "x" * 500_000}}
        server.post(f"{CORE}/default/configmaps", large)
        grown = server.memory() - before
    assert grown < 130 << 20  # 16 bodies twice, and buffers of 60 connections


def test_requests_that_do_not_end_lock_no_client_out(tmp_path: Path) -> None:
    with Tenants(tmp_path, descriptors=100) as server, ExitStack() as opened:
        server.prepare()
        head = f"POST {CORE}/team/configmaps HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.tokens['admin']}\r\n"
        for _ in range(120):
            client = opened.enter_context(connected(server))
            client.sendall(f"{head}Content-Length: 1000\r\n\r\n{{".encode())
        assert server.ask("GET", f"{CORE}/default/configmaps/bystander")[0] == 200
        server.process.kill()
        server.process.communicate()


def test_the_policy_of_the_chart_refuses_commands_to_queues_of_others(server: Tenants) -> None:
    plurals = {
        "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
        "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    }
    for each in yaml.load_all(INSTALL.read_text(), yaml.CSafeLoader):
        if each["kind"] in plurals:
            server.post(f"{POLICIES}/{plurals[each['kind']]}", each)
    commands = "/apis/bus.volcano.sh/v1alpha1/namespaces/team/commands"

    def command(kind: str, version: str) -> dict[str, object]:
        target = {"apiVersion": version, "kind": kind, "name": "default", "uid": "u"}
        about = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": {"generateName": "c-"}}
        return {**about, "action": "CloseQueue", "target": target}

    to_queue = command("Queue", "scheduling.volcano.sh/v1beta1")
    refused = server.post(commands, to_queue, 403, "admin")
    user = 'user "system:serviceaccount:team:admin" may not update the queue "default", which the command is for'
    denied = "ValidatingAdmissionPolicy 'volcano-queue-commands' with binding 'volcano-queue-commands' denied request"
    assert f"{denied}: {user}" in str(refused["message"])
    server.post(commands, to_queue)
    server.post(commands, command("Job", "batch.volcano.sh/v1alpha1"), account="admin")


def test_requests_that_wait_for_a_slow_webhook_keep_no_other_account_waiting(server: Tenants) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}
    body = b'{"metadata":{"generateName":"slow-"}}'
    head = f"POST {CORE}/team/secrets HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.tokens['admin']}\r\n"
    other = server.account_of("other")
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as silent, ExitStack() as opened:
        hook = {
            "name": "slow.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",  # the server logs failures that it lets pass, and no one reads its log here
            "timeoutSeconds": HOOK_SECONDS,
            "clientConfig": {"url": f"https://127.0.0.1:{silent.getsockname()[1]}/"},
            "rules": [rule],
        }
        server.post(HOOKS, {"metadata": {"name": "slow"}, "webhooks": [hook]})
        for _ in range(300):  # the level of service accounts has 245 seats
            client = opened.enter_context(connected(server))
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        start = time.monotonic()
        assert server.ask("GET", f"{CORE}/other/configmaps", authorization=f"Bearer {other}")[0] == 200
        assert time.monotonic() - start < HOOK_SECONDS / 2
    assert server.ask("DELETE", f"{HOOKS}/slow")[0] == 200
