"""`vcctl pod`, `vcctl jobflow` and `vcctl jobtemplate` against a server without controllers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kilauea.api.kinds import JOB_FLOWS, JOB_TEMPLATES, PODS
from support.vcctl_runs import Console, Objects, compare, data

Obj = dict[str, Any]


def pod(namespace: str, name: str, job: str = "", queue: str = "", annotation: str = "") -> Obj:
    labels = {"volcano.sh/job-name": job, "volcano.sh/queue-name": queue}
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": {key: value for key, value in labels.items() if value},
        "annotations": {"scheduling.volcano.sh/queue-name": annotation} if annotation else {},
    }
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "busybox:1"}]}}


def running(ready: bool = True, restarts: int = 0) -> Obj:
    container = {"name": "c", "image": "", "imageID": "", "ready": ready, "restartCount": restarts}
    return {"phase": "Running", "containerStatuses": [{**container, "state": {"running": {}}, "lastState": {}}]}


@pytest.fixture
def pods(objects: Objects, namespace: str) -> str:
    """A namespace with pods of two jobs, of a queue, and of nothing."""
    objects.put(PODS, pod(namespace, "m-a-0", "m", "q"), running())
    objects.put(PODS, pod(namespace, "m-a-1", "m", "q"), running(ready=False, restarts=2))
    objects.put(PODS, pod(namespace, "other-a-0", "other", "r"), {"phase": "Pending"})
    objects.put(PODS, pod(namespace, "plain", annotation="q"), {"phase": "Pending"})
    objects.put(PODS, pod(namespace, "stranger"), {"phase": "Pending"})
    return namespace


def names(out: str) -> list[str]:
    return [line.split()[0] for line in out.splitlines()]


def test_a_list_has_the_columns_of_volcano(console: Console, pods: str) -> None:
    compare("pod-list.txt", console.good("vcctl", "pod", "list", "-n", pods))
    compare("pod-list-wide.txt", console.good("vcctl", "pod", "list", "-n", pods, "-o", "wide"))


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ("", ["m-a-0", "m-a-1", "other-a-0"]),
        ("-j m", ["m-a-0", "m-a-1"]),
        ("-q q", ["m-a-0", "m-a-1", "plain"]),
        ("-q q -j m", ["m-a-0", "m-a-1"]),
    ],
)
def test_pods_are_those_of_jobs_or_of_what_is_named(console: Console, pods: str, filters: str, left: list[str]) -> None:
    assert names(console.good("vcctl", "pod", "list", "-n", pods, "--no-headers", *filters.split())) == left


def test_a_job_in_another_queue_is_said(console: Console, pods: str) -> None:
    said = console.failed("vcctl", "pod", "list", "-q", "q", "-j", "other", "-n", pods)
    assert said == "Failed to list pod: the input vcjob other does not match the queue q\n"
    assert console.good("vcctl", "pod", "list", "-n", pods, "-j", "none") == "No resources found\n"


# --- flows and templates


def flow(name: str, *jobs: str) -> Obj:
    return {
        "apiVersion": JOB_FLOWS.api_version,
        "kind": "JobFlow",
        "metadata": {"name": name},
        "spec": {"jobRetainPolicy": "retain", "flows": [{"name": job} for job in jobs]},
    }


TEMPLATE = """
kind: JobTemplate
metadata:
  name: {name}
spec:
  tasks:
  - name: a
    replicas: 1
    template:
      spec:
        restartPolicy: Never
        containers:
        - name: c
          image: busybox:1
          command:
          - sh
          - -c
          - |
            cat <<END
            ---
            END
"""


def test_documents_are_created_and_deleted_one_by_one(console: Console, objects: Objects, tmp_path: Path) -> None:
    file = tmp_path / "flows.yaml"
    file.write_text(yaml.safe_dump_all([flow("one", "a"), {**flow("Not A Name", "a")}, flow("two", "a")]))
    said = console.good("vcctl", "jobflow", "create", "-f", str(file)).splitlines()
    assert (said[0], said[2]) == ("Created JobFlow: default/one", "Created JobFlow: default/two")
    assert said[1].startswith('Failed to create JobFlow: JobFlow.flow.volcano.sh "Not A Name" is invalid')
    assert {each["metadata"]["name"] for each in objects.all(JOB_FLOWS, "default")} == {"one", "two"}
    said = console.good("vcctl", "jobflow", "delete", "-f", str(file)).splitlines()
    assert (said[0], said[2]) == ("Deleted JobFlow: default/one", "Deleted JobFlow: default/two")
    assert said[1].startswith("Failed to delete JobFlow: ")


def test_three_dashes_within_a_text_do_not_end_a_document(console: Console, objects: Objects, tmp_path: Path) -> None:
    file = tmp_path / "templates.yaml"
    file.write_text(TEMPLATE.format(name="dashes") + "---\n" + TEMPLATE.format(name="more"))
    out = console.good("vcctl", "jobtemplate", "create", "-f", str(file))
    assert out == "Created JobTemplate: default/dashes\nCreated JobTemplate: default/more\n"
    assert names(console.good("vcctl", "jobtemplate", "list")) == ["Name", "dashes", "more"]
    assert console.good("vcctl", "jobtemplate", "delete", "-N", "dashes") == "Deleted JobTemplate: default/dashes\n"
    (left,) = objects.all(JOB_TEMPLATES, "default")
    container = left["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    assert (left["metadata"]["name"], container["command"][2]) == ("more", "cat <<END\n---\nEND\n")


def test_lists_of_flows_have_the_columns_of_volcano(console: Console, objects: Objects, namespace: str) -> None:
    body = flow("f", "a")
    body["metadata"]["namespace"] = namespace
    objects.put(JOB_FLOWS, body, {"state": {"phase": "Running"}})
    listed = console.good("vcctl", "jobflow", "list", "-n", namespace)
    width = len(namespace) + 4
    assert listed.splitlines()[0] == "Name    " + "Namespace".ljust(max(width, 13)) + "Phase      Age    "
    assert listed.splitlines()[1].split()[:3] == ["f", namespace, "Running"]
    assert console.good("vcctl", "jobflow", "get", "-N", "f", "-n", namespace).split()[:6] == listed.split()[:6]
    assert console.good("vcctl", "jobflow", "list", "-n", "empty") == "No resources found\n"
    assert namespace in console.good("vcctl", "jobflow", "list", "--all-namespaces")


def test_describe_gives_objects_as_data(console: Console, objects: Objects, namespace: str) -> None:
    for name in ("f", "g"):
        body = flow(name, "a")
        body["metadata"]["namespace"] = namespace
        objects.put(JOB_FLOWS, body)
    one = yaml.safe_load(console.good("vcctl", "jobflow", "describe", "-N", "f", "-n", namespace))
    assert (one["metadata"]["name"], "managedFields" in one["metadata"]) == ("f", False)
    assert data(console.good("vcctl", "jobflow", "describe", "f", "-n", namespace, "-o", "json")) == one
    both = console.good("vcctl", "jobflow", "describe", "-n", namespace).split("\n\n\n")
    assert [yaml.safe_load(each)["metadata"]["name"] for each in both] == ["f", "g"]
    assert console.good("vcctl", "jobflow", "describe", "-N", "f", "-n", namespace, "-o", "xml") == (
        "Unsupported format: xml\n"
    )
