"""Volcano's hooks inside the API server: where they stand, what they see, in which words they refuse, whom not."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kilauea.admission.review import Settings
from kilauea.api.kinds import NAMESPACES
from kilauea.api.ports import Key
from kilauea.apiserver.admission.chain import admission_steps
from kilauea.apiserver.backend import Backend
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.custom_resources.bundled import install_bundled
from kilauea.apiserver.large_writes import LargeWrites
from kilauea.apiserver.request import ApiResponse, make_request
from kilauea.apiserver.resources.builtin import builtin_types
from kilauea.apiserver.resources.registry import Registry
from kilauea.apiserver.storage import Store
from kilauea.runtime.cluster.admission import VolcanoAdmission
from kilauea.runtime.cluster.in_process import Definitions
from kilauea.runtime.cluster.store_view import StoreView
from kilauea.runtime.inputs.template_rules import template_errors
from support.api_core import ADMIN, Answer, Api
from support.controlled import Cluster

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
SETTINGS = Settings(check_template=template_errors)


@pytest.fixture
def api() -> Iterator[Api]:
    """A server with Volcano's kinds and hooks, and an open queue."""
    cluster = Cluster(volcano=True)
    cluster.api.backend.admission = admission_steps(VolcanoAdmission(cluster.api.backend, SETTINGS))
    cluster.api.good("POST", QUEUES, queue("default"))
    merge = "application/merge-patch+json"
    cluster.api.good("PATCH", f"{QUEUES}/default/status", {"status": {"state": "Open"}}, content_type=merge)
    yield cluster.api
    cluster.close()


def queue(name: str, **spec: Any) -> dict[str, Any]:
    """A queue."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def job(name: str, **task: Any) -> dict[str, Any]:
    """A job of one task."""
    template = {"spec": {"containers": [{"name": "c", "image": "busybox:1"}], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"tasks": [{"replicas": 2, "template": template, **task}]},
    }


def refused(answer: Answer) -> tuple[int, str, str]:
    """Code, reason and message of a refusal."""
    return answer.code, answer.body.get("reason", ""), answer.body["message"]


def test_new_objects_are_completed_before_they_are_checked(api: Api) -> None:
    made = api.good("POST", JOBS, job("m"))
    assert made["spec"]["minAvailable"] == 2
    assert made["spec"]["schedulerName"] == "volcano"
    assert made["spec"]["tasks"][0]["name"] == "default0"
    negative = api.ask("POST", JOBS, job("n", replicas=-1))
    assert {each["field"] for each in negative.body["details"]["causes"]} == {
        "spec.tasks[0].replicas",
        "spec.tasks[0].minAvailable",
        "spec.minAvailable",
    }


def test_what_hooks_fill_in_belongs_to_no_one(api: Api) -> None:
    fields = str(api.good("POST", JOBS, job("m"))["metadata"]["managedFields"])
    assert "f:tasks" in fields
    assert "f:minAvailable" not in fields


def test_a_refusal_reads_as_that_of_a_webhook(api: Api) -> None:
    answer = api.ask("POST", JOBS, job("m", template={"spec": {"containers": [{"name": "c"}]}}))
    assert refused(answer) == (
        400,
        "",
        'admission webhook "validatejob.volcano.sh" denied the request: '
        "spec.task[0].template.spec.containers[0].image: Required value.",
    )
    assert refused(api.ask("DELETE", f"{QUEUES}/default"))[2] == (
        'admission webhook "validatequeue.volcano.sh" denied the request: `default` queue can not be deleted'
    )


def test_a_dry_run_is_refused_the_same_and_changes_nothing(api: Api) -> None:
    api.good("POST", f"{QUEUES}?dryRun=All", queue("p"))
    assert api.ask("GET", f"{QUEUES}/p").code == 404
    assert api.ask("POST", f"{QUEUES}?dryRun=All", queue("c", parent="p")).code == 400


def test_objects_of_other_types_are_refused_by_the_schema(api: Api) -> None:
    assert api.ask("POST", QUEUES, queue("q", weight="heavy")).code == 422
    assert api.ask("POST", JOBS, job("m", replicas="many")).code == 422


def test_the_status_of_a_queue_is_nobodys_business(api: Api) -> None:
    merge = "application/merge-patch+json"
    body = {"status": {"allocated": {"cpu": "-1"}}}
    assert api.ask("PATCH", f"{QUEUES}/default/status", body, content_type=merge).code == 200


@pytest.mark.parametrize(("namespace", "code"), [("default", 400), ("kube-system", 201)])
def test_the_namespace_of_the_cluster_itself_is_spared(api: Api, namespace: str, code: int) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": {"volcano.sh/jdb-min-available": "0"}},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "busybox:1"}]},
    }
    assert api.ask("POST", f"/api/v1/namespaces/{namespace}/pods", pod).code == code


def test_queues_that_are_created_at_the_same_time_do_not_both_take_the_last_of_their_parent(tmp_path: Path) -> None:
    async def scenario() -> list[int]:
        store = await Store.open(tmp_path, "normal")  # writes are seen only when they are durable
        backend = Backend(store, Registry(builtin_types()), lambda: 1_700_000_000_000_000, Random(1))
        server = ApiServer(backend)
        definitions = Definitions(server)
        await install_bundled(server)
        await definitions.start()
        backend.admission = admission_steps(VolcanoAdmission(backend, SETTINGS))

        async def create(name: str, **spec: Any) -> int:
            body = queue(name, **spec)
            answer = await server.handle(make_request("POST", QUEUES, {}, json.dumps(body).encode(), ADMIN))
            assert isinstance(answer, ApiResponse)
            return answer.status

        async with asyncio.timeout(30):
            while await create("p", deserved={"cpu": "4"}) != 201:
                await asyncio.sleep(0.01)
            codes = await asyncio.gather(*(create(f"c{n}", parent="p", deserved={"cpu": "3"}) for n in range(5)))
        await definitions.stop()
        await store.close()
        return list(codes)

    assert sorted(asyncio.run(scenario())) == [201, 400, 400, 400, 400]


def test_many_versions_of_a_large_object_are_not_remembered(api: Api) -> None:
    """A client could fill the memory by changing one."""
    view = StoreView(api.backend.store)
    for name, size in (("small", 10), ("large", 20_000)):
        api.good("POST", "/api/v1/namespaces", {"metadata": {"name": name, "annotations": {"a": "x" * size}}})
    assert view.get(NAMESPACES, Key("", "small")) is view.get(NAMESPACES, Key("", "small"))
    assert view.get(NAMESPACES, Key("", "large")) == view.get(NAMESPACES, Key("", "large"))
    assert view.get(NAMESPACES, Key("", "large")) is not view.get(NAMESPACES, Key("", "large"))


def test_templates_of_a_large_job_are_checked_beside_the_event_loop(api: Api) -> None:
    threads: list[str] = []

    def noted(template: Mapping[str, Any]) -> Sequence[str]:
        threads.append(threading.current_thread().name)
        return template_errors(template)

    api.backend.admission = admission_steps(VolcanoAdmission(api.backend, Settings(check_template=noted)))
    writes = api.backend.large_writes = LargeWrites()
    large = job("large")
    (task,) = large["spec"]["tasks"]
    spec = task["template"]["spec"]
    large["spec"]["tasks"] = [
        {**task, "name": f"t{number}", "template": {"spec": {**spec, "priority": number}}} for number in range(200)
    ]
    api.good("POST", JOBS, large)
    assert len(threads) == 200
    assert all(each.startswith("large-writes") for each in threads)
    large["metadata"]["name"] = "wrong"
    large["spec"]["tasks"][7]["template"] = {"spec": {**spec, "restartPolicy": "Sometimes"}}
    answer = api.ask("POST", JOBS, large)
    assert answer.code == 400
    assert 'spec.task[7].template.spec.restartPolicy: Unsupported value: "Sometimes"' in answer.body["message"]
    assert all(each.startswith("large-writes") for each in threads)
    writes.close()
