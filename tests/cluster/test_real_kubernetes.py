"""Volcano's jobs on the real Kubernetes, with every process of ours beside its own: kubectl, Python's client, vcctl."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from cluster.real_product import Product, running_product
from cluster.up_process import until
from kubernetes import client as k8s
from kubernetes import config
from support.vcctl_runs import Console

PLACE: dict[str, Any] = {"group": "batch.volcano.sh", "version": "v1alpha1", "namespace": "default", "plural": "jobs"}
BESIDE = "svc,cm,secret,networkpolicy"
"""What the plugins of a job make."""


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with running_product(tmp_path_factory.mktemp("product")) as running:
        yield running
        for name, process in running.processes.items():
            assert process.poll() is None, running.log(name)
            process.terminate()
            assert process.wait(30) == 0, running.log(name)
            assert "Traceback" not in running.log(name), running.log(name)


@pytest.fixture(scope="module")
def custom(product: Product) -> Iterator[k8s.CustomObjectsApi]:
    with config.new_client_from_config(str(product.kubeconfig)) as api:
        yield k8s.CustomObjectsApi(api)


def job(name: str, replicas: int, run_time: str = "", **spec: Any) -> dict[str, Any]:
    """A job of one task; its pods end with the first run, if a time is given."""
    container = {"name": "c", "image": "busybox:1", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"annotations": {"kilauea.dev/run-time": run_time}} if run_time else {}
    template = {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [container]}}
    tasks = [{"name": "a", "replicas": replicas, "template": template}]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"tasks": tasks, **spec},
    }


def until_phase(product: Product, name: str, phase: str) -> None:
    """Wait for a job with kubectl."""
    product.kubectl("wait", f"--for=jsonpath={{.status.state.phase}}={phase}", f"vcjob/{name}", "--timeout=50s")


def pods_of(product: Product, name: str, label: str = "volcano.sh/job-name") -> list[dict[str, Any]]:
    """The pods of a job, or those with another label."""
    items: list[dict[str, Any]] = product.get("pods", "-l", f"{label}={name}")["items"]
    return items


def test_a_job_of_kubectl_is_listed_suspended_resumed_and_deleted_by_vcctl(product: Product) -> None:
    vcctl = Console(product.kubeconfig)
    given = job("train", 3, plugins={"svc": [], "env": [], "ssh": []}, minAvailable=3)
    product.kubectl("apply", "-f", "-", given=json.dumps(given))
    until_phase(product, "train", "Running")
    assert {each["spec"]["nodeName"] for each in pods_of(product, "train")} <= {"node-1", "node-2", "node-3"}
    names = product.kubectl("get", BESIDE, "-o", "name").split()
    assert {"service/train", "configmap/train-svc", "networkpolicy.networking.k8s.io/train"} <= set(names)
    row = next(line for line in vcctl.good("vcctl", "job", "list").splitlines() if line.startswith("train"))
    assert row.split()[2:8] == ["Running", "Batch", "3", "3", "0", "3"], row
    assert vcctl.good("vcctl", "job", "suspend", "train", "--wait", "--timeout", "50s") == "job train is Aborted\n"
    assert pods_of(product, "train") == []
    vcctl.good("vcctl", "job", "resume", "-N", "train")
    until_phase(product, "train", "Running")
    vcctl.good("vcctl", "job", "delete", "-N", "train")
    until(lambda: not pods_of(product, "train"), "the pods to go with their job")
    until(
        lambda: "train" not in product.kubectl("get", f"vcjob,podgroup.scheduling.volcano.sh,{BESIDE}", "-o", "name"),
        "all else to go",
    )


def test_a_job_of_the_python_client_runs_to_its_end(product: Product, custom: k8s.CustomObjectsApi) -> None:
    custom.create_namespaced_custom_object(body=job("short", 2, "1s"), **PLACE)
    until_phase(product, "short", "Completed")
    found: Any = custom.get_namespaced_custom_object(name="short", **PLACE)
    assert [each["status"] for each in found["status"]["conditions"]] == ["Pending", "Running", "Completed"]
    assert [each["status"]["phase"] for each in pods_of(product, "short")] == ["Succeeded", "Succeeded"]
    custom.delete_namespaced_custom_object(name="short", **PLACE)
    with pytest.raises(ApiException, match="404"):
        custom.get_namespaced_custom_object(name="short", **PLACE)


def test_a_job_that_makes_no_sense_is_refused_with_the_reason(product: Product, custom: k8s.CustomObjectsApi) -> None:
    with pytest.raises(ApiException) as raised:
        custom.create_namespaced_custom_object(body=job("bad", 1, plugins={"svcc": []}), **PLACE)
    assert "unable to find job plugin: svcc" in json.loads(raised.value.body or "")["message"]
    done = product.ask("apply", "-f", "-", given=json.dumps(job("bad", 1, queue="nowhere")))
    assert 'unable to find job queue: queue.scheduling.volcano.sh "nowhere" not found' in done.stderr


def test_a_failed_pod_restarts_the_job_that_says_so(product: Product) -> None:
    given = job("again", 2, policies=[{"event": "PodFailed", "action": "RestartJob"}], maxRetry=2)
    product.kubectl("apply", "-f", "-", given=json.dumps(given))
    until_phase(product, "again", "Running")
    before = {each["metadata"]["uid"] for each in pods_of(product, "again")}
    status = json.dumps({"status": {"phase": "Failed"}})
    product.kubectl("patch", "pod", "again-a-0", "--subresource=status", "--type=merge", "-p", status)
    until(lambda: product.get("vcjob", "again")["status"].get("retryCount") == 1, "the job to be restarted")
    until_phase(product, "again", "Running")
    until(lambda: not before & {each["metadata"]["uid"] for each in pods_of(product, "again")}, "all pods to be new")
    product.kubectl("delete", "vcjob", "again")


def test_pods_of_a_deployment_are_placed_as_a_group(product: Product) -> None:
    labels = {"app": "web"}
    spec = {"schedulerName": "volcano", "containers": [{"name": "c", "image": "busybox:1"}]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }
    product.kubectl("apply", "-f", "-", given=json.dumps(web))
    product.kubectl("rollout", "status", "deployment/web", "--timeout=50s")
    groups = {
        each["metadata"]["annotations"]["scheduling.k8s.io/group-name"] for each in pods_of(product, "web", "app")
    }
    assert len(groups) == 1
    product.kubectl("delete", "deployment", "web")


def test_a_job_whose_pods_a_webhook_refuses_says_so_and_starts_once_the_webhook_is_gone(product: Product) -> None:
    hook = {
        "name": "deny.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "objectSelector": {"matchLabels": {"refused": "yes"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
    }
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    configuration = {**head, "metadata": {"name": "deny"}, "webhooks": [hook]}
    product.kubectl("apply", "-f", "-", given=json.dumps(configuration))
    refused = job("refused", 2)
    refused["spec"]["tasks"][0]["template"]["metadata"]["labels"] = {"refused": "yes"}
    product.kubectl("apply", "-f", "-", given=json.dumps(refused))
    said = 'failed calling webhook "deny.example.com"'
    until(lambda: said in product.kubectl("describe", "vcjob/refused"), "the job to say what refuses its pods")
    assert said in Console(product.kubeconfig).good("vcctl", "job", "view", "refused")
    assert said in Console(product.kubeconfig).good("kilauea", "explain", "job", "refused")
    product.kubectl("delete", "validatingwebhookconfiguration", "deny")
    until(lambda: len(pods_of(product, "refused")) == 2, "the pods to be created", 90)
    until_phase(product, "refused", "Running")
