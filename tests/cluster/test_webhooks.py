"""`kilauea webhooks` before the real Kubernetes API server: what it completes and refuses, as kubectl shows it."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme

from cluster.up_process import until

ROOT = Path(__file__).resolve().parents[2]
QUEUES = [
    "deny-queue-children-deserved-above-parent",
    "deny-queue-children-guarantee-above-parent",
    "deny-queue-delete-default",
    "deny-queue-delete-parent",
    "deny-queue-delete-root",
    "deny-queue-deserved-above-capability",
    "deny-queue-guarantee-above-deserved",
    "deny-queue-modify-root",
    "deny-queue-parent-missing",
]
OTHERS = [
    "deny-bad-pod-template",
    "deny-cronjob-bad-schedule",
    "deny-depends-unknown",
    "deny-hypernode-bad-regex",
    "deny-job-in-parent-queue",
    "deny-job-in-root-queue",
    "deny-podgroup-queue-missing",
]
CONFIGURATIONS = "validatingwebhookconfigurations,mutatingwebhookconfigurations"


@dataclass(frozen=True)
class Real:
    """The real server and kubectl at it."""

    kubeconfig: Path
    home: Path

    def ask(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run kubectl, whatever comes of it."""
        environment = os.environ | {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.home)}
        return subprocess.run(
            ["kubectl", *words], input=given, capture_output=True, text=True, timeout=60, env=environment, check=False
        )

    def kubectl(self, *words: str, given: str = "") -> str:
        """What kubectl prints; it must not fail."""
        done = self.ask(*words, given=given)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def apply(self, obj: Any) -> subprocess.CompletedProcess[str]:
        """Apply an object."""
        return self.ask("apply", "-f", "-", given=json.dumps(obj))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    """The real Kubernetes with Volcano's kinds and its two first queues, open."""
    folder = str(ROOT / "tests/kubernetes")
    sys.path.insert(0, folder)
    try:
        from real_binaries import missing  # noqa: PLC0415 - only this test needs them
        from real_server import real_server  # noqa: PLC0415
    finally:
        sys.path.remove(folder)
    if missing():
        pytest.skip(f"no {', '.join(missing())}: run `make kubernetes-binaries`")
    with real_server() as server:
        found = Real(server.kubeconfig, tmp_path_factory.mktemp("home"))
        found.kubectl("apply", "--server-side", "-f", str(ROOT / "deploy/crds"))
        found.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        for name in ("root", "default"):
            found.apply(queue(name))
            state = json.dumps({"status": {"state": "Open"}})
            found.kubectl("patch", "queue", name, "--subresource=status", "--type=merge", "-p", state)
        yield found


def queue(name: str, **spec: Any) -> dict[str, Any]:
    """A queue."""
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


@contextmanager
def webhooks(real: Real, log: Path, *options: str) -> Iterator[int]:
    """The command for the length of a block; gives its port. It must end cleanly."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    words = ["-m", "kilauea", "webhooks", "--kubeconfig", str(real.kubeconfig), "--listen-address", "127.0.0.1"]
    words += ["--port", str(port), "--webhook-url", f"https://127.0.0.1:{port}", *options]
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, *words], stdout=out, stderr=out)
    try:
        until(lambda: "webhooks are ready" in log.read_text() or process.poll() is not None, "webhooks")
        assert process.poll() is None, log.read_text()
        yield port
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0, log.read_text()
        assert "Traceback" not in log.read_text(), log.read_text()
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def served(real: Real, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    """The real Kubernetes that asks our webhooks and no others."""
    real.kubectl("delete", CONFIGURATIONS, "--all")
    with webhooks(real, tmp_path_factory.mktemp("webhooks") / "log"):
        yield real


def played(real: Real, path: Path) -> Iterator[tuple[str, str]]:
    """What the recording has for error texts, and what comes now; in the end all is removed."""
    steps = json.loads(path.read_text())["steps"]
    made = []
    for step in steps:
        for act, result in zip(step["do"].get("apply", ()), step.get("result", ()), strict=True):
            if "sleep" in act:
                continue
            done = real.ask("delete", *act["del"]) if "del" in act else real.apply(act)
            if "kind" in act and done.returncode == 0:
                made.append((act["kind"], act["metadata"]["name"]))
            if act.get("kind") == "Queue" and done.returncode == 0:
                state = json.dumps({"status": {"state": "Open"}})
                real.kubectl("patch", "queue", made[-1][1], "--subresource=status", "--type=merge", "-p", state)
            yield result["err"], done.stderr
    for kind, name in reversed(made):
        real.kubectl("delete", kind, name)


def words_of(text: str) -> str:
    """The message of a denial."""
    return " ".join(text.partition("denied the request: ")[2].split())


@pytest.mark.parametrize("case", [*QUEUES, *OTHERS])
def test_denials_read_as_the_originals(served: Real, shared: Path, case: str) -> None:
    denials = 0
    for expected, got in played(served, shared / f"conformance/cluster/{case}.json"):
        assert words_of(got) == words_of(expected)
        denials += bool(words_of(expected))
    assert denials


def test_new_objects_are_completed(served: Real) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "busybox:1"}], "restartPolicy": "Never"}}
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "m"},
        "spec": {"tasks": [{"replicas": 3, "template": template}]},
    }
    assert served.apply(job).returncode == 0
    spec = json.loads(served.kubectl("get", "vcjob", "m", "-o", "json"))["spec"]
    assert (spec["minAvailable"], spec["schedulerName"], spec["tasks"][0]["name"]) == (3, "volcano", "default0")
    served.kubectl("delete", "vcjob", "m")


def test_the_cluster_knows_whom_to_ask(served: Real) -> None:
    items = json.loads(served.kubectl("get", CONFIGURATIONS, "-o", "json"))["items"]
    hooks = {item["metadata"]["name"]: item["webhooks"][0] for item in items}
    assert len(hooks) == 11
    pods, jobs = (hooks[f"volcano-admission-service-{each}"] for each in ("pods-mutate", "jobs-mutate"))
    assert (pods["failurePolicy"], jobs["failurePolicy"]) == ("Ignore", "Fail")
    assert jobs["namespaceSelector"]["matchExpressions"][0]["values"] == ["kube-system"]
    assert (jobs["reinvocationPolicy"], jobs["timeoutSeconds"], jobs["sideEffects"]) == ("Never", 10, "NoneOnDryRun")
    secret = served.kubectl("get", "secret", "-n", "volcano-system", "volcano-admission-secret", "-o", "json")
    assert sorted(json.loads(secret)["data"]) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]


def test_given_certificates_are_used_and_read_again(real: Real, tmp_path: Path) -> None:
    def write(authority: trustme.CA) -> None:
        issued = authority.issue_cert("127.0.0.1")
        authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
        issued.cert_chain_pems[0].write_to_path(str(tmp_path / "tls.crt"))
        issued.private_key_pem.write_to_path(str(tmp_path / "tls.key"))

    def trusted(authority: trustme.CA, port: int) -> bool:
        context = ssl.create_default_context()
        authority.configure_trust(context)
        try:
            with urllib.request.urlopen(f"https://127.0.0.1:{port}/healthz", context=context, timeout=5) as answer:
                return bool(answer.read() == b"ok")
        except urllib.error.URLError:
            return False

    first, second = trustme.CA(), trustme.CA()
    write(first)
    files = ["--tls-cert-file", "tls.crt", "--tls-private-key-file", "tls.key", "--ca-cert-file", "ca.crt"]
    options = [word if word.startswith("--") else str(tmp_path / word) for word in files]
    with webhooks(real, tmp_path / "log", *options, "--enabled-admission", "/queues/validate") as port:
        assert trusted(first, port)
        names = real.kubectl("get", CONFIGURATIONS, "-o", "name").split()
        assert [name.rpartition("/")[2] for name in names] == ["volcano-admission-service-queues-validate"]
        write(second)
        until(lambda: trusted(second, port), "the new certificate", 20)
        assert words_of(real.ask("delete", "queue", "root").stderr) == "`root` queue can not be deleted"


def test_what_others_have_registered_keeps_what_it_says_but_for_the_authority(real: Real, tmp_path: Path) -> None:
    real.kubectl("delete", CONFIGURATIONS, "--all")
    url = "https://127.0.0.1:1/queues/validate"
    hook = {
        "name": "validatequeue.volcano.sh",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": url},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
    }
    theirs = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "volcano-admission-service-queues-validate"},
        "webhooks": [hook],
    }
    assert real.apply(theirs).returncode == 0
    with webhooks(real, tmp_path / "log", "--enabled-admission", "/queues/validate,/queues/mutate"):
        items = json.loads(real.kubectl("get", CONFIGURATIONS, "-o", "json"))["items"]
    real.kubectl("delete", CONFIGURATIONS, "--all")
    found = {item["metadata"]["name"].rpartition("-")[2]: item["webhooks"][0] for item in items}
    assert found["validate"]["failurePolicy"] == "Ignore"
    assert found["validate"]["clientConfig"]["url"] == url
    assert found["validate"]["clientConfig"]["caBundle"] == found["mutate"]["clientConfig"]["caBundle"]
