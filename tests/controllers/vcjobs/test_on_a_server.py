"""The controller of Volcano's jobs on the real API server: what it writes is accepted, and comes back as written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kilauea.api.kinds import COMMANDS, POD_GROUPS, PODS, VC_JOBS
from kilauea.api.ports import Key, Patch
from kilauea.controllers.queues import QueueController
from kilauea.controllers.vcjobs.controller import VcJobController
from support.controlled import Cluster
from support.jobs_at_work import job, policy, task


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    return cluster_of(VcJobController(), QueueController(), volcano=True)


def start(cluster: Cluster) -> dict[str, Any]:
    """Bring the job to where its pods run; returns its status."""
    cluster.settle()
    for group in cluster.names(POD_GROUPS):
        cluster.patch(POD_GROUPS, group, {"status": {"phase": "Inqueue"}})
    for _ in range(2):
        cluster.wait(1)
        cluster.say_all("Running")
    cluster.wait(1)
    found: dict[str, Any] = cluster.get(VC_JOBS, "m")["status"]
    return found


def test_a_job_starts_restarts_is_suspended_and_ends(cluster: Cluster) -> None:
    manifest = job(task("a", 2), policies=[policy("RestartJob", "PodFailed")], plugins={"svc": [], "env": []})
    cluster.create(VC_JOBS, manifest)
    status = start(cluster)
    assert (status["state"]["phase"], status["running"], status["minAvailable"]) == ("Running", 2, 2)
    assert status["controlledResources"] == {"plugin-env": "env", "plugin-svc": "svc"}
    cluster.say(cluster.all(PODS)[1], "Failed", exit_code=3)
    cluster.wait(1)
    cluster.say_all("Running")
    status = start(cluster)
    assert (status["state"]["phase"], status["retryCount"], status["version"]) == ("Running", 1, 1)
    assert [each["status"] for each in status["conditions"]] == ["Restarting", "Pending", "Running"]
    target = {"apiVersion": VC_JOBS.api_version, "kind": "Job", "name": "m", "uid": "u"}
    cluster.create(COMMANDS, {"metadata": {"name": "c"}, "action": "AbortJob", "target": target})
    cluster.wait(1)
    cluster.say_all("Running")
    cluster.wait(1)
    status = cluster.get(VC_JOBS, "m")["status"]
    assert (status["state"]["phase"], cluster.names(COMMANDS), cluster.names(PODS)) == ("Aborted", [], [])
    assert status["runningDuration"].endswith("s")
    cluster.create(COMMANDS, {"metadata": {"name": "c"}, "action": "ResumeJob", "target": target})
    cluster.wait(1)
    assert start(cluster)["state"]["phase"] == "Running"
    cluster.say_all("Succeeded")
    cluster.wait(1)
    assert cluster.get(VC_JOBS, "m")["status"]["state"]["phase"] == "Completed"
    assert cluster.names(POD_GROUPS) == []


def test_what_waits_is_noted_on_the_job_and_found_by_the_next_controller(cluster: Cluster) -> None:
    cluster.create(VC_JOBS, job(task("a", 2), policies=[policy("TerminateJob", "PodFailed", timeout="1m")]))
    start(cluster)
    cluster.say(cluster.all(PODS)[0], "Failed")
    cluster.wait(50)
    assert cluster.get(VC_JOBS, "m")["status"]["state"]["phase"] == "Running"
    cluster.wait(11)
    assert cluster.get(VC_JOBS, "m")["status"]["state"]["phase"] == "Terminated"
    assert not cluster.get(VC_JOBS, "m")["metadata"].get("annotations")


def test_a_look_at_an_old_status_writes_none(cluster: Cluster) -> None:
    cluster.create(VC_JOBS, job(task("a", 2)))
    start(cluster)
    cluster.say(cluster.all(PODS)[0], "Failed")
    cluster.refresh()
    outcome = VcJobController().reconcile(Key("default", "m"), cluster.cache, cluster.api.now)
    cluster.patch(VC_JOBS, "m", {"status": {"retryCount": 1, "state": {"phase": "Restarting"}}}, "status")
    (write,) = [each for each in outcome.operations if isinstance(each, Patch) and each.subresource == "status"]
    path = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs/m/status"
    answer = cluster.api.ask("PATCH", path, write.patch, content_type="application/json-patch+json")
    assert answer.code == 422
    assert cluster.get(VC_JOBS, "m")["status"]["retryCount"] == 1


def test_a_namesake_does_not_inherit_the_pods_or_the_status_of_the_one_before(cluster: Cluster) -> None:
    cluster.create(VC_JOBS, job(task("a", 1)))
    start(cluster)
    before = cluster.all(PODS)[0]["metadata"]["uid"]
    cluster.delete(VC_JOBS, "m")
    cluster.create(VC_JOBS, job(task("a", 1)))
    cluster.settle()
    assert cluster.get(VC_JOBS, "m")["status"]["state"]["phase"] == "Pending"
    for group in cluster.names(POD_GROUPS):
        cluster.patch(POD_GROUPS, group, {"status": {"phase": "Inqueue"}})
    cluster.settle()
    for pod in cluster.all(PODS):
        if pod["metadata"]["uid"] == before:
            cluster.delete(PODS, "m-a-0", grace=0)
    cluster.settle()
    pods = cluster.all(PODS)
    assert [pod["metadata"]["name"] for pod in pods] == ["m-a-0"]
    assert pods[0]["metadata"]["ownerReferences"][0]["uid"] == cluster.get(VC_JOBS, "m")["metadata"]["uid"]
