"""Nonsense of every kind of Volcano's for `kilauea up`: it is refused, or said on the object; and the cluster rests."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client.exceptions import ApiException

from cluster.api_process import Client, Server, running_server
from cluster.up_process import GROUPS, apply, ask, group, kubectl, phases, queue, running_up, said, until
from kubernetes import client as k8s
from kubernetes import config

Obj = dict[str, Any]
HUGE = 2147483647
QUIET_SECONDS = 5.0
BUSY_SECONDS = 1.0
"""Processor time in so many seconds of quiet that is more than rest; it takes a tenth of that."""
PLURALS = {
    "Job": ("batch.volcano.sh", "v1alpha1", "jobs"),
    "CronJob": ("batch.volcano.sh", "v1alpha1", "cronjobs"),
    "JobFlow": ("flow.volcano.sh", "v1alpha1", "jobflows"),
    "JobTemplate": ("flow.volcano.sh", "v1alpha1", "jobtemplates"),
    "Command": ("bus.volcano.sh", "v1alpha1", "commands"),
    "PodGroup": ("scheduling.volcano.sh", "v1beta1", "podgroups"),
    "Queue": ("scheduling.volcano.sh", "v1beta1", "queues"),
    "HyperNode": ("topology.volcano.sh", "v1alpha1", "hypernodes"),
}
"""Group, version and plural of each kind."""
CLUSTER_WIDE = ("Queue", "HyperNode")


def made(kind: str, name: str, spec: Any, **more: Any) -> Obj:
    """An object of one of the kinds."""
    place, version, _ = PLURALS[kind]
    return {"apiVersion": f"{place}/{version}", "kind": kind, "metadata": {"name": name}, "spec": spec, **more}


def task(name: str = "a", replicas: int = 1, *, pod: Obj | None = None, **more: Any) -> Obj:
    """A task whose pods sleep for long, unless their specification says otherwise."""
    container = {"name": "c", "image": "demo", "command": ["sleep", "3600"]}
    return {
        "name": name,
        "replicas": replicas,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container], **(pod or {})}},
        **more,
    }


def job(name: str, *tasks: Obj, **spec: Any) -> Obj:
    """A job, of one good task unless others are given."""
    return made("Job", name, {"tasks": list(tasks or (task(),)), **spec})


def holding(**resources: Obj) -> Obj:
    """The specification of a pod that asks for this."""
    return {"containers": [{"name": "c", "image": "demo", "resources": resources}]}


def volume(**fields: Any) -> list[Obj]:
    return [{"mountPath": "/a", **fields}]


def policy(**fields: Any) -> list[Obj]:
    return [{"action": "AbortJob", **fields}]


def cron(name: str, schedule: str = "0 0 1 1 *", **spec: Any) -> Obj:
    return made("CronJob", name, {"schedule": schedule, "jobTemplate": {"spec": {"tasks": [task()]}}, **spec})


def flow(name: str, *flows: Obj, **spec: Any) -> Obj:
    return made("JobFlow", name, {"flows": list(flows), **spec})


def after(name: str, *targets: str) -> Obj:
    """A vertex of a flow."""
    return {"name": name, "dependsOn": {"targets": list(targets)}} if targets else {"name": name}


def command(name: str, action: str, target: str, kind: str = "Job") -> Obj:
    place, version, _ = PLURALS[kind]
    reference = {"apiVersion": f"{place}/{version}", "kind": kind, "name": target, "uid": "u"}
    body = made("Command", name, None, action=action, target=reference)
    del body["spec"]
    return body


def hyper(name: str, *selectors: Obj, kind: str = "Node", tier: int = 1) -> Obj:
    return made("HyperNode", name, {"tier": tier, "members": [{"type": kind, "selector": each} for each in selectors]})


REFUSED: list[tuple[Obj, str]] = [
    (job("plugin", plugins={"svcc": []}), "unable to find job plugin: svcc;"),
    (job("mpi", plugins={"mpi": ["--master=boss"]}), "The specified mpi master task was not found"),
    (job("negative", task(replicas=-1)), "spec.tasks[0].replicas in body should be greater than or equal to 0"),
    (job("min", minAvailable=9), "'minAvailable' should not be greater than total replicas in tasks"),
    (job("task-min", task(minAvailable=3)), "'minAvailable' is greater than 'replicas' in task: a, job: task-min"),
    (job("queue", queue="missing"), 'unable to find job queue: queue.scheduling.volcano.sh "missing" not found'),
    (job("circle", task(dependsOn={"name": ["a"]})), "doesn't form a directed acyclic graph(DAG)"),
    (job("hollow", task(pod={"containers": []})), "spec.task[0].template.spec.containers: Required value"),
    (job("cpu", task(pod=holding(requests={"cpu": "-4"}))), 'Invalid value: "-4": must be greater than or equal to 0'),
    (
        job("limit", task(pod=holding(requests={"cpu": "4"}, limits={"cpu": "1"}))),
        "must be less than or equal to cpu limit of 1",
    ),
    (job("action", policies=policy(event="PodFailed", action="Explode")), '"Explode": invalid policy action'),
    (job("event", policies=policy(event="PodSneezed")), 'Unsupported value: "PodSneezed"'),
    (job("zero", policies=policy(exitCode=0)), "0 is not a valid error code"),
    (
        job("timeout", policies=policy(event="PodFailed", timeout="soon")),
        'spec.policies.timeout: Invalid value: "soon": "soon" is not a duration: use numbers with units such as 1h30m',
    ),
    (job("estimate", runningEstimate="a while"), 'spec.runningEstimate: Invalid value: "a while"'),
    (job("nothing", volumes=volume()), "either VolumeClaim or VolumeClaimName must be specified"),
    (job("twice", volumes=volume(volumeClaimName="c") * 2), "duplicated mountPath: /a"),
    (job("x" * 63), "name part must be no more than 63 bytes"),
    (job("same", task(), task()), "duplicated task name a"),
    (job("upper", task("A_B")), "spec.tasks[0].name in body should match"),
    (job("ttl", ttlSecondsAfterFinished=-1), "in body should be greater than or equal to 0"),
    (job("numa", task(topologyPolicy="single-numa-node")), "the cpu request isn't an integer in spec.task[0]"),
    (
        job("parts", task(partitionPolicy={"totalPartitions": 3, "partitionSize": 2})),
        "'Replicas' are not equal to TotalPartitions*PartitionSize",
    ),
    (made("Job", "text", "words"), "spec in body must be of type object"),
    (made("Job", "number", {"tasks": 5}), "spec.tasks in body must be of type array"),
    (made("Job", "empty", {"tasks": []}), "spec.tasks in body should have at least 1 items"),
    (made("Job", "none", {}), "No task specified in job spec"),
    (cron("schedule", "whenever"), "schedule is not a valid cron expression"),
    (cron("zone", timeZone="Mars/Phobos"), "invalid timeZone"),
    (cron("policy", concurrencyPolicy="Sometimes"), 'Unsupported value: "Sometimes"'),
    (cron("c" * 60), "cronJob name must be no more than 52 characters"),
    (flow("unknown", after("one", "two")), "vertex is not defined: two"),
    (flow("circle", after("one", "two"), after("two", "one")), "jobflow Flow is not DAG"),
    (flow("retain", after("one"), jobRetainPolicy="forever"), 'Unsupported value: "forever"'),
    (made("JobTemplate", "empty", {"tasks": []}), "spec.tasks in body should have at least 1 items"),
    (group("negative", -1), "spec.minMember in body should be greater than or equal to 0"),
    (group("queue", 1, "missing"), 'unable to find queue: queue.scheduling.volcano.sh "missing" not found'),
    (queue("self", parent="self"), "queue self cannot use itself as parent"),
    (queue("weight", weight=-1), "spec.weight in body should be greater than or equal to 1"),
    (queue("less", capability={"cpu": "-5"}), 'Invalid value: "-5": must be greater than or equal to 0'),
    (queue("yes", reclaimable="yes"), "spec.reclaimable in body must be of type boolean"),
    (hyper("pattern", {"regexMatch": {"pattern": "(("}}), "member regexMatch pattern is invalid"),
    (hyper("type", {"exactMatch": {"name": "n"}}, kind="Rack"), 'Unsupported value: "Rack"'),
    (hyper("tier", {"exactMatch": {"name": "n"}}, tier=-1), "spec.tier in body should be greater than or equal to 0"),
]
"""What is refused, and with which words."""

ODD: list[tuple[Obj, str]] = [
    (job("plugin", minAvailable=1, plugins={"svcc": []}), "PluginError: .*failed to get plugin svcc: there is svc"),
    (job("flag", plugins={"svc": ["--odd"]}), "UnknownPluginArgument: .*unknown argument '--odd' is ignored"),
    (job("port", plugins={"pytorch": ["--port=-1"]}), "PluginError: .*--port is '-1': write a port from 1 to 65535"),
    (job("nowhere", queue="missing"), "QueueError: queue missing is not found"),
    (job("claim", volumes=volume(volumeClaimName="missing")), "PVCError: .*pvc missing is not found"),
    (job("claimless", volumes=volume()), r"PVCError: .*spec.volumes\[0\] has no claim: set volumeClaimName"),
    (
        job("modes", volumes=volume(volumeClaim={})),
        "PVCError: Failed to create PVC, err: .*spec.accessModes: Required value",
    ),
    (job("hollow", task(pod={"containers": []})), "FailedCreate: .*spec.containers: Required value"),
    (job("class", task(pod={"priorityClassName": "missing"})), "FailedCreate: .*no PriorityClass with name missing"),
    (job("account", task(pod={"serviceAccountName": "missing"})), 'FailedCreate: .*serviceaccount "missing" not found'),
    (job("dots.in.name", plugins={"svc": []}), "PluginError: .*Service .dots.in.name. is invalid"),
    (job("endless", task(replicas=HUGE), minAvailable=1), f"FailedCreate: .*{HUGE} pods are requested.*: set fewer"),
    (job("short", minAvailable=9), "PodGroupPending: .*9 minAvailable"),
    (command("odd", "Explode", "endless"), ""),
    (command("part", "RestartPod", "endless"), ""),
    (command("missing", "AbortJob", "missing"), ""),
    (command("shut", "CloseQueue", "nowhere", "Queue"), ""),
    (command("dance", "Dance", "default", "Queue"), ""),
    (cron("schedule", "whenever"), 'UnParseableCronJobSchedule: .*invalid schedule "whenever"'),
    (cron("zone", timeZone="Mars/Phobos"), 'InvalidTimeZone: .*unknown time zone "Mars/Phobos"'),
    (flow("lost", after("missing")), 'SyncJobFlow: .*jobtemplate "missing" does not exist: create it'),
    (
        flow("circle", after("one", "two"), after("two", "one")),
        "SyncJobFlow: .*form a dependency cycle",
    ),
    (flow("bare"), "SyncJobFlow: .*spec.flows is empty"),
    (flow("refused", after("queueless")), 'FailedCreate: .*"missing" not found'),
    (made("JobTemplate", "queueless", {"queue": "missing", "tasks": [task()]}), ""),
    (made("PodGroup", "below", {"minMember": 1, "minTaskMember": {"a": -3}}), r"InvalidObject: .*-3 is out of range"),
    (
        made("PodGroup", "amount", {"minMember": 1, "minResources": {"cpu": "-5"}}),
        "InvalidObject: .*is negative",
    ),
    (group("nowhere", 1, "missing"), "QueueNotFound: queue missing of pod group default/nowhere does not exist"),
    (queue("lost", parent="nowhere"), "SyncQueue: the parent queue nowhere does not exist"),
    (queue("less", capability={"cpu": "-5"}), "FailedUpdate: .*must be greater than or equal to 0"),
    (queue("self", parent="self"), "ParentCycle: cycle detected"),
    (hyper("pattern", {"regexMatch": {"pattern": "(("}}), "InvalidObject: .*member regexMatch pattern is invalid"),
    (hyper("self", {"exactMatch": {"name": "self"}}, kind="HyperNode"), "InvalidObject: .*cyclic dependency detected"),
]
"""What is there from before admission looked, and what is said on it, as a pattern; nothing, if it concerns others."""
SAID_ON_OTHERS = [
    ("Job", "endless", 'CommandIssued: invalid action "Explode" for a job: use one of AbortJob, '),
    ("Job", "endless", "CommandIssued: RestartPod needs a target"),
    ("Queue", "default", 'CommandIssued: invalid action "Dance" for a queue: use OpenQueue or CloseQueue'),
]
"""What commands have others say."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A cluster full of nonsense from a time when no admission looked at it; it ends cleanly, whatever was sent."""
    folder = tmp_path_factory.mktemp("odd") / "data"
    with running_server(folder, "--durability", "normal") as server:
        first = [queue("root"), queue("default")]
        given = yaml.safe_dump_all([*first, *(obj for obj, _ in ODD)])
        done = ask(server, "create", "--validate=false", "-f", "-", given=given)
        assert done.returncode == 0, done.stderr
    with running_up(folder, "--nodes", "2") as server:
        yield server


@pytest.fixture(scope="module")
def custom(cluster: Server) -> Iterator[k8s.CustomObjectsApi]:
    with config.new_client_from_config(str(cluster.kubeconfig)) as api:
        yield k8s.CustomObjectsApi(api)


def named(value: Obj | str) -> str:
    """How a test names an object."""
    return "" if isinstance(value, str) else f"{value['kind']} {value['metadata']['name']}"


@pytest.mark.parametrize(("obj", "words"), REFUSED, ids=named)
def test_it_is_refused_with_the_reason(cluster: Server, custom: k8s.CustomObjectsApi, obj: Obj, words: str) -> None:
    done = ask(cluster, "create", "--validate=false", "-f", "-", given=json.dumps(obj))
    assert done.returncode == 1
    assert words in done.stderr
    with pytest.raises(ApiException) as raised:
        create(custom, obj)
    assert raised.value.status in (400, 422)
    assert words in json.loads(raised.value.body or "")["message"]


def create(custom: k8s.CustomObjectsApi, obj: Obj) -> None:
    """Create an object with the official client."""
    place, version, plural = PLURALS[obj["kind"]]
    if obj["kind"] in CLUSTER_WIDE:
        custom.create_cluster_custom_object(place, version, plural, obj)
    else:
        custom.create_namespaced_custom_object(place, version, "default", plural, obj)


def test_what_is_there_all_the_same_says_what_is_wrong(cluster: Server) -> None:
    client = cluster.client()
    for obj, pattern in ODD:
        until_said(client, obj["kind"], obj["metadata"]["name"], pattern)
    for kind, name, words in SAID_ON_OTHERS:
        until_said(client, kind, name, words)


def until_said(client: Client, kind: str, name: str, pattern: str) -> None:
    """Wait for an event about an object."""
    until(lambda: re.search(pattern, said(client, kind, name)), f"{pattern} on {kind} {name}")


def test_what_makes_sense_runs_beside_it_and_then_all_rests(cluster: Server) -> None:
    """Controllers that fight each other, or never have enough, would go on writing."""
    client = cluster.client()
    apply(cluster, job("sound", task(replicas=2)))
    until(lambda: phases(client, "sound-") == {"Running": 2}, "a sound job to run")
    until(lambda: is_at_rest(cluster), "the cluster to rest", 120.0)
    assert cluster.process.poll() is None
    assert "Traceback" not in cluster.log.read_text(), cluster.log.read_text()


def is_at_rest(server: Server) -> bool:
    """Whether nothing is written for a while but events and signs of life, and next to nothing is computed."""
    client = server.client()
    before, used = versions(client), processor_seconds(server)
    time.sleep(QUIET_SECONDS)
    return versions(client) == before and processor_seconds(server) - used < BUSY_SECONDS


def versions(client: Client) -> dict[str, str]:
    """The resource versions of all objects that controllers look after."""
    kinds = [f"/apis/{place}/{version}/{plural}" for place, version, plural in PLURALS.values()]
    kinds += [f"/api/v1/{plural}" for plural in ("pods", "services", "configmaps", "secrets", "persistentvolumeclaims")]
    items = (each["metadata"] for path in kinds for each in client.get(path)["items"])
    return {each["uid"]: each["resourceVersion"] for each in items}


def processor_seconds(server: Server) -> float:
    """What the process has computed since it began."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_what_is_mended_runs_and_the_rest_can_be_taken_away(cluster: Server) -> None:
    client = cluster.client()
    kubectl(cluster, "create", "serviceaccount", "missing")
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    apply(cluster, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "missing"}, "spec": spec})
    until(lambda: phases(client, "account-") == {"Running": 1}, "the job whose account is there now to run", 120.0)
    until(lambda: phases(client, "claim-"), "the job whose claim is there now to have a pod", 120.0)
    jobs = "jobs.batch.volcano.sh,jobflows,jobtemplates,cronjobs.batch.volcano.sh"
    kubectl(cluster, "delete", jobs, "--all", "--timeout=50s")
    theirs = {obj["metadata"]["name"] for obj, _ in ODD if obj["kind"] == "PodGroup"}
    until(lambda: {each["metadata"]["name"] for each in client.get(GROUPS)["items"]} == theirs, "groups of jobs to go")
