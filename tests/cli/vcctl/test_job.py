"""`vcctl job`, `vsub` and `vjobs` against a server without controllers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.api_process import Server
from kilauea.api.kinds import COMMANDS, EVENTS, POD_GROUPS, VC_JOBS
from support.vcctl_runs import Console, Objects, compare, data

Obj = dict[str, Any]


def job(namespace: str, name: str, *tasks: Obj, labels: dict[str, str] | None = None, **spec: Any) -> Obj:
    """A job; without tasks it has one of two pods."""
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    fields = {"schedulerName": "volcano", "queue": "default", "tasks": list(tasks) or [task("a", 2)], **spec}
    return {"metadata": metadata, "spec": fields}


def task(name: str, replicas: int, **fields: Any) -> Obj:
    container = {"name": "c", "image": "busybox:1", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"name": name, "replicas": replicas, "template": template, **fields}


def state(phase: str, **counts: int) -> Obj:
    return {"state": {"phase": phase}, **counts}


@pytest.fixture
def three(objects: Objects, namespace: str) -> str:
    """A namespace with three jobs."""
    running = state("Running", minAvailable=2, running=2, retryCount=1)
    objects.put(VC_JOBS, job(namespace, "train"), running)
    mpi = {"volcano.sh/job-type": "MPI"}
    objects.put(
        VC_JOBS, job(namespace, "solve", labels=mpi, queue="research", priorityClassName="high"), state("Pending")
    )
    objects.put(
        VC_JOBS, job(namespace, "sweep-with-a-longer-name", schedulerName="other"), state("Completed", succeeded=2)
    )
    return namespace


# --- run


def test_run_creates_the_job_that_volcano_creates(console: Console, objects: Objects, namespace: str) -> None:
    assert console.good("vcctl", "job", "run", "-N", "a", "-n", namespace) == "run job a successfully\n"
    made = objects.one(VC_JOBS, namespace, "a")
    amounts = {"cpu": "1000m", "memory": "100Mi"}
    container = {"name": "a", "image": "busybox", "imagePullPolicy": "IfNotPresent"}
    template = {
        "metadata": {"name": "a", "labels": {"job.volcano.sh": "a"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{**container, "resources": {"limits": amounts, "requests": amounts}}],
        },
    }
    assert made["spec"]["tasks"][0]["template"] == template
    assert (made["spec"]["minAvailable"], made["spec"]["tasks"][0]["replicas"]) == (1, 1)
    assert made["spec"]["schedulerName"] == "volcano"


def test_run_takes_all_its_flags(console: Console, objects: Objects, namespace: str) -> None:
    flags = "-i alpine -m 2 -r 3 -R cpu=2,nvidia.com/gpu=1 -L cpu=4 -S mine -q blue --priority-class high"
    console.good("vcctl", "job", "run", "a", "-n", namespace, *flags.split(), "-c", "sh -c 'echo hi'")
    spec = objects.one(VC_JOBS, namespace, "a")["spec"]
    container = spec["tasks"][0]["template"]["spec"]["containers"][0]
    assert (container["image"], container["command"]) == ("alpine", ["sh", "-c", "echo hi"])
    assert container["resources"] == {"requests": {"cpu": "2", "nvidia.com/gpu": "1"}, "limits": {"cpu": "4"}}
    chosen = [spec[key] for key in ("schedulerName", "queue", "priorityClassName", "minAvailable")]
    assert (chosen, spec["tasks"][0]["replicas"]) == (["mine", "blue", "high", 2], 3)


def test_run_takes_a_job_from_a_file_or_standard_input(
    console: Console, objects: Objects, namespace: str, tmp_path: Path
) -> None:
    for name in ("f", "g"):
        body = job(namespace, name) | {"apiVersion": VC_JOBS.api_version, "kind": "Job"}
        del body["metadata"]["namespace"]
        file = tmp_path / f"{name}.yaml"
        file.write_text(yaml.safe_dump(body))
        given = {"input": file.read_bytes()} if name == "g" else {}
        path = "-" if name == "g" else str(file)
        assert (
            console.good("vcctl", "job", "run", "-f", path, "-n", namespace, **given)
            == f"run job {name} successfully\n"
        )
        assert objects.one(VC_JOBS, namespace, name)["spec"]["tasks"][0]["replicas"] == 2


def test_a_field_that_jobs_do_not_have_is_named_by_run(console: Console, namespace: str, tmp_path: Path) -> None:
    body = job(namespace, "typo", task("a", 2, minAvail=1)) | {"apiVersion": VC_JOBS.api_version, "kind": "Job"}
    file = tmp_path / "typo.yaml"
    file.write_text(yaml.safe_dump(body))
    ran = console("vcctl", "job", "run", "-f", str(file), "-n", namespace)
    assert (ran.code, ran.out) == (0, "run job typo successfully\n")
    assert ran.err == 'Warning: unknown field "spec.tasks[0].minAvail"\n'


def test_a_file_that_is_no_job_is_refused_with_the_reason(console: Console, tmp_path: Path) -> None:
    file = tmp_path / "q.yaml"
    for text, words in (
        ("kind: Queue\napiVersion: scheduling.volcano.sh/v1beta1\n", "has a Queue of scheduling.volcano.sh/v1beta1"),
        ("a: [", "line 2, column 1: not valid YAML"),
        ("--- {}\n--- {}\n", "has 2 objects: one job is needed"),
        ("text", "a document is not an object"),
    ):
        file.write_text(text)
        said = console.failed("vcctl", "job", "run", "-f", str(file))
        assert said.startswith("Failed to run job: failed to unmarshal file, err:  ")
        assert words in said


def test_vsub_takes_defaults_from_the_environment(console: Console, objects: Objects, namespace: str) -> None:
    environment = {"VOLCANO_DEFAULT_IMAGE": "alpine", "VOLCANO_DEFAULT_JOB_NAMESPACE": namespace}
    said = console.good("vsub", "-n", "a", "-c", "sh -c 'echo hi'", VOLCANO_SCHEDULER_NAME="mine", **environment)
    assert said == "run job a successfully\n"
    spec = objects.one(VC_JOBS, namespace, "a")["spec"]
    container = spec["tasks"][0]["template"]["spec"]["containers"][0]
    assert (container["image"], container["command"]) == ("alpine", ["sh", "-c", "echo hi"])
    assert spec["schedulerName"] == "mine"
    console.good("vsub", "-n", "b", "-i", "debian", "-N", namespace, **environment)
    other = objects.one(VC_JOBS, namespace, "b")["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    assert (other["image"], "command" in other) == ("debian", False)


# --- list


def test_a_list_has_the_columns_of_volcano(console: Console, three: str) -> None:
    compare("job-list.txt", console.good("vcctl", "job", "list", "-n", three))
    compare("job-list-wide.txt", console.good("vcctl", "job", "list", "-n", three, "-o", "wide"))
    assert console.good("vjobs", "-N", three) == console.good("vcctl", "job", "list", "-n", three)


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ("-q research", ["solve"]),
        ("-S other", ["sweep-with-a-longer-name"]),
        ("--selector s", ["solve", "sweep-with-a-longer-name"]),
        ("--phase running,pending", ["solve", "train"]),
        ("-q default --phase Completed", ["sweep-with-a-longer-name"]),
    ],
)
def test_filters_leave_what_they_name(console: Console, three: str, filters: str, left: list[str]) -> None:
    out = console.good("vcctl", "job", "list", "-n", three, "--no-headers", *filters.split())
    assert [line.split()[0] for line in out.splitlines()] == left
    names = console.good("vcctl", "job", "list", "-n", three, "-o", "name", *filters.split()).split()
    assert names == [f"job.batch.volcano.sh/{name}" for name in left]


def test_nothing_left_is_said_by_vcctl_and_shown_as_a_heading_by_vjobs(console: Console, three: str) -> None:
    assert console.good("vcctl", "job", "list", "-n", three, "--selector", "zzz") == "No resources found\n"
    assert console.good("vjobs", "-N", three, "-S", "missing").split()[:3] == ["Name", "Creation", "Phase"]
    assert console.good("vjobs", "-N", "empty") == "No resources found\n"


def test_another_server_may_be_named(console: Console, server: Server) -> None:
    said = console.failed("vcctl", "job", "list", "--master", "https://127.0.0.1:1")
    assert said.startswith("Failed to list job: https://127.0.0.1:1: GET /apis/batch.volcano.sh/")
    assert console.good("vcctl", "job", "list", "-s", server.url, "-n", "empty") == "No resources found\n"


def test_all_namespaces_come_with_their_names(console: Console, three: str) -> None:
    lines = console.good("vcctl", "job", "list", "--all-namespaces", "-q", "research").splitlines()
    assert lines[0].startswith("Namespace")
    assert [line.split()[:2] for line in lines[1:] if line.startswith(three)] == [[three, "solve"]]


def test_json_and_yaml_are_lists_of_objects_as_the_server_has_them(
    console: Console, objects: Objects, three: str
) -> None:
    found = data(console.good("vcctl", "job", "list", "-n", three, "-o", "json"))
    assert (found["kind"], found["apiVersion"]) == ("List", "v1")
    for item in objects.all(VC_JOBS, three):
        item["metadata"].pop("managedFields", None)
        assert item in found["items"]
    assert yaml.safe_load(console.good("vcctl", "job", "list", "-n", three, "-o", "yaml")) == found
    assert data(console.good("vcctl", "job", "list", "-n", "empty", "-o", "json"))["items"] == []


# --- view


def test_view_shows_a_job_and_why_it_waits(console: Console, objects: Objects, namespace: str) -> None:
    body = job(
        namespace,
        "train",
        task("ps", 1),
        task("worker", 3, minAvailable=2, dependsOn={"name": ["ps"]}),
        labels={"team": "blue"},
        plugins={"svc": [], "env": [], "ssh": ["--no-root"]},
        policies=[{"event": "PodEvicted", "action": "RestartJob"}, {"exitCode": 3, "action": "AbortJob"}],
        minAvailable=3,
    )
    conditions = [{"status": "Pending", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    made = objects.put(VC_JOBS, body, state("Pending", minAvailable=3) | {"conditions": conditions})
    uid = made["metadata"]["uid"]
    blocked = {
        "type": "Unschedulable",
        "status": "True",
        "reason": "NotEnoughResources",
        "message": "3/4 tasks in gang unschedulable: pod group is not ready, 1 Pending, 3 minAvailable",
        "transitionID": "1",
    }
    group = {"metadata": {"name": f"train-{uid}", "namespace": namespace}, "spec": {"minMember": 3, "queue": "default"}}
    objects.put(POD_GROUPS, group, {"phase": "Inqueue", "conditions": [blocked]})
    about = {"apiVersion": VC_JOBS.api_version, "kind": "Job", "name": "train", "namespace": namespace, "uid": uid}
    event = {
        "metadata": {"name": "train.1", "namespace": namespace},
        "involvedObject": about,
        "type": "Warning",
        "reason": "PodGroupPending",
        "message": "PodGroup is waiting",
        "source": {"component": "vc-controller-manager"},
        "count": 2,
    }
    objects.put(EVENTS, event)
    other = event | {"metadata": {"name": "train.2", "namespace": namespace}, "involvedObject": about | {"uid": "old"}}
    objects.put(EVENTS, other)
    out = console.good("vcctl", "job", "view", "train", "-n", namespace).replace(namespace, "test-N")
    compare("job-view.txt", out)
    short = console.good("vjobs", "-n", "train", "-N", namespace)
    assert short.count("Conditions:") == out.count("Conditions:") - 1
    assert data(console.good("vcctl", "job", "view", "train", "-n", namespace, "-o", "json"))["metadata"]["uid"] == uid


def test_view_of_a_job_that_no_one_has_looked_at_says_so(console: Console, objects: Objects, namespace: str) -> None:
    objects.put(VC_JOBS, job(namespace, "new"))
    out = console.good("vcctl", "job", "view", "-N", "new", "-n", namespace)
    assert "no controller has created one yet" in out
    assert out.endswith("Events: \t<none>\n")
    said = console.failed("vcctl", "job", "view", "-N", "none")
    assert said == 'Failed to view job: jobs.batch.volcano.sh "none" not found\n'


# --- orders


@pytest.mark.parametrize(
    ("words", "action"),
    [
        ("vcctl job suspend -N a -n", "AbortJob"),
        ("vcctl job resume -N a -n", "ResumeJob"),
        ("vcctl job restart a -n", "RestartJob"),
        ("vcctl job terminate a -n", "TerminateJob"),
        ("vcctl job complete a -n", "CompleteJob"),
        ("vsuspend -n a -N", "AbortJob"),
        ("vresume -n a -N", "ResumeJob"),
    ],
)
def test_an_order_is_a_command_that_the_job_owns(
    console: Console, objects: Objects, namespace: str, words: str, action: str
) -> None:
    uid = objects.put(VC_JOBS, job(namespace, "a"), state("Running"))["metadata"]["uid"]
    verb = {"AbortJob": "suspend"}.get(action, action.removesuffix("Job").lower())
    assert console.done(*words.split(), namespace) == f"request to {verb} job a sent\n"
    (command,) = objects.all(COMMANDS, namespace)
    assert command["metadata"]["name"].startswith(f"a-{action.lower()}-")
    owner = {"apiVersion": VC_JOBS.api_version, "kind": "Job", "name": "a", "uid": uid}
    assert command["target"] == {**owner, "controller": True, "blockOwnerDeletion": True}
    assert command["metadata"]["ownerReferences"] == [command["target"]]
    assert command["action"] == action


def test_orders_that_would_do_nothing_are_refused(console: Console, objects: Objects, namespace: str) -> None:
    objects.put(VC_JOBS, job(namespace, "done"), state("Completed"))
    objects.put(VC_JOBS, job(namespace, "held"), state("Aborted"))
    said = console.failed("vcctl", "job", "restart", "done", "-n", namespace)
    assert said == "Failed to restart job: job done is already Completed\n"
    said = console.failed("vcctl", "job", "terminate", "held", "-n", namespace)
    assert said == "Failed to terminate job: job held is already Aborted: resume it first\n"
    assert objects.all(COMMANDS, namespace) == []


def test_waiting_ends_with_what_it_saw_when_the_time_is_up(console: Console, objects: Objects, namespace: str) -> None:
    objects.put(VC_JOBS, job(namespace, "a"), state("Running"))
    said = console.failed("vcctl", "job", "suspend", "a", "-n", namespace, "--wait", "--timeout", "300ms")
    assert said == "Failed to suspend job: timed out after 0.3s: job a is still Running\n"


def test_waiting_for_what_is_so_already_ends_at_once(console: Console, objects: Objects, namespace: str) -> None:
    objects.put(VC_JOBS, job(namespace, "a"), state("Aborted"))
    assert console.good("vcctl", "job", "suspend", "a", "-n", namespace, "--wait") == "job a is Aborted\n"


def test_delete_and_cancel_delete(console: Console, objects: Objects, namespace: str) -> None:
    for name in ("a", "b", "c"):
        objects.put(VC_JOBS, job(namespace, name))
    assert console.good("vcctl", "job", "delete", "-N", "a", "-n", namespace) == "delete job a successfully\n"
    assert console.good("vcancel", "-n", "b", "-N", namespace) == "cancel job b successfully\n"
    assert console.good("vcctl", "job", "delete", "c", "-n", namespace, "--wait") == "delete job c successfully\n"
    assert objects.all(VC_JOBS, namespace) == []
    said = console.failed("vcctl", "job", "delete", "-N", "a", "-n", namespace)
    assert said == 'Failed to delete job: jobs.batch.volcano.sh "a" not found\n'


# --- scale


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("worker=4", ([2, 4], [2, 2], 4)),
        ("worker=1", ([2, 1], [2, 1], 3)),
        ("ps=3,worker=4", ([3, 4], [3, 2], 4)),
        ("worker=4 --min 5", ([2, 4], [2, 2], 5)),
    ],
)
def test_scale_changes_tasks_and_the_minimums_with_them(
    console: Console, objects: Objects, namespace: str, words: str, expected: Any
) -> None:
    tasks = [task("ps", 2, minAvailable=2), task("worker", 3, minAvailable=2)]
    objects.put(VC_JOBS, job(namespace, "a", *tasks, minAvailable=4))
    said = console.good("vcctl", "job", "scale", "a", "-n", namespace, "-r", *words.split())
    assert said == "scale job a successfully\n"
    spec = objects.one(VC_JOBS, namespace, "a")["spec"]
    found = [[each[key] for each in spec["tasks"]] for key in ("replicas", "minAvailable")]
    assert (*found, spec["minAvailable"]) == expected


def test_scale_says_which_tasks_there_are(console: Console, objects: Objects, namespace: str) -> None:
    objects.put(VC_JOBS, job(namespace, "a", task("ps", 2), task("worker", 3)))
    for words, said in (
        ("4", "the job has 2 tasks: name the task, for example ps=4"),
        ("none=4", 'task "none" does not exist: the job has ps, worker'),
        ("ps=many", 'invalid number of pods "many" for task ps: use 0 or more'),
    ):
        assert console.failed("vcctl", "job", "scale", "a", "-n", namespace, "-r", words) == (
            f"Failed to scale job: {said}\n"
        )
