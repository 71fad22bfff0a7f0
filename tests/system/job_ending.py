"""What must hold of Volcano's jobs at the end of a history: they rest, their books are right, nothing is left over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from kilauea.controllers.kinds import (
    CLAIMS,
    COMMANDS,
    CONFIG_MAPS,
    JOB_FLOWS,
    NETWORK_POLICIES,
    POD_GROUPS,
    PODS,
    SERVICES,
    VC_CRON_JOBS,
    VC_JOBS,
)
from system.job_laws import OVER, TASK, VERSION
from system.laws import ENDED
from system.limits import Limits
from system.users import Users

Obj = dict[str, Any]
RESTS = ("Pending", "Running", "Aborted", *OVER)


def jobs_at_the_end(users: Users, limits: Limits) -> Iterator[str]:
    """What is not as it should be after the quiet."""
    jobs, pods = users.all(VC_JOBS), users.all(PODS)
    groups = {each["metadata"]["name"]: each for each in users.all(POD_GROUPS)}
    for command in users.all(COMMANDS):
        yield f"command {command['metadata']['name']} was not heard: {command['action']}"
    yield from _orphans(users, jobs)
    for job in jobs:
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        own = [pod for pod in pods if _owner(pod) == uid]
        phase = (job.get("status") or {}).get("state", {}).get("phase")
        if job["metadata"].get("deletionTimestamp"):
            yield f"job {name} never goes"
        elif phase not in RESTS:
            yield f"job {name} is {phase} for ever"
        else:
            group = groups.get(f"{name}-{uid}")
            yield from _counts(job, own)
            yield from (
                _at_work(job, own, group, limits) if phase in ("Pending", "Running") else _at_rest(job, own, group)
            )


def _orphans(users: Users, jobs: list[Obj]) -> Iterator[str]:
    """What was made for a job, a flow or a cron job goes with it."""
    uids = {each["metadata"]["uid"] for each in [*jobs, *users.all(JOB_FLOWS), *users.all(VC_CRON_JOBS)]}
    for kind in (VC_JOBS, CLAIMS, SERVICES, CONFIG_MAPS, NETWORK_POLICIES):
        for each in users.all(kind):
            if _owner(each) not in ("", *uids):
                yield f"{kind.kind} {each['metadata']['name']} outlives its owner"


def _owner(obj: Obj) -> str:
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((str(each["uid"]) for each in owners if each.get("controller")), "")


def _counts(job: Obj, pods: list[Obj]) -> Iterator[str]:
    """The status counts the pods that are there; that of a job at its end those that were there at the end."""
    status, name = job["status"], job["metadata"]["name"]
    if status["state"]["phase"] in ("Pending", "Running"):
        there = Counter(pod["status"].get("phase", "Pending") for pod in pods)
        said = {phase: status.get(phase.lower(), 0) for phase in ("Pending", "Running", "Succeeded", "Failed")}
        if any(said[phase] != there[phase] for phase in said):
            yield f"job {name} counts {said}, there are {dict(there)}"
        tasks = Counter((pod["metadata"]["annotations"][TASK], pod["status"].get("phase", "Pending")) for pod in pods)
        counted = {
            (task, phase): count
            for task, each in (status.get("taskStatusCount") or {}).items()
            for phase, count in each["phase"].items()
        }
        if counted != dict(tasks):
            yield f"job {name} counts {counted}, there are {dict(tasks)}"
    if status.get("terminating"):
        yield f"job {name} counts {status['terminating']} pods that go"


def _at_rest(job: Obj, pods: list[Obj], group: Obj | None) -> Iterator[str]:
    """A job that is over, or stopped, has no pods at work; one that was stopped has no group either."""
    name, phase = job["metadata"]["name"], job["status"]["state"]["phase"]
    busy = [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") not in ENDED]
    if busy:
        yield f"job {name} is {phase}, and {busy} are at work"
    if group is not None:
        yield f"job {name} is {phase}, and its group {group['status'].get('phase')}"


def _at_work(job: Obj, pods: list[Obj], group: Obj | None, limits: Limits) -> Iterator[str]:
    """A job that waits or runs has its group, and all the pods whose turn it is if that is admitted."""
    name, spec, version = job["metadata"]["name"], job["spec"], job["status"].get("version", 0)
    if group is None:
        yield f"job {name} has no group"
        return
    asked = group["spec"]
    tasks = {each["name"]: each.get("minAvailable", each["replicas"]) for each in spec["tasks"]}
    if asked["minMember"] != spec.get("minAvailable", 0) or asked.get("minTaskMember") != tasks:
        yield f"job {name} needs {spec.get('minAvailable')}, {tasks}, its group {asked}"
    if asked["queue"] != spec["queue"]:
        yield f"job {name} is of {spec['queue']}, its group of {asked['queue']}"
    old = [pod["metadata"]["name"] for pod in pods if int(pod["metadata"]["annotations"][VERSION]) < version]
    if any(pod["status"].get("phase") not in ENDED for pod in pods if pod["metadata"]["name"] in old):
        yield f"job {name} has version {version}, pods {old} are older"
    if group["status"].get("phase") in (None, "Pending"):
        cores = int((asked.get("minResources") or {}).get("cpu", 0))
        if limits.allow(asked["queue"], cores):
            yield f"job {name} waits for {cores} cores, which its queue has"
        return
    for task in spec["tasks"]:
        own = {pod["metadata"]["name"] for pod in pods if pod["metadata"]["annotations"][TASK] == task["name"]}
        wanted = {f"{name}-{task['name']}-{index}" for index in range(task["replicas"])}
        if own - wanted or (wanted - own and _has_its_turn(task, spec["tasks"], pods)):
            yield f"job {name}: task {task['name']} wants {sorted(wanted)}, has {sorted(own)}"


def _has_its_turn(task: Obj, tasks: list[Obj], pods: list[Obj]) -> bool:
    """Whether those are ready on which a task depends."""
    needs = (task.get("dependsOn") or {}).get("name") or []
    ready = []
    for other in tasks:
        if other["name"] in needs:
            phases = [
                pod["status"].get("phase") for pod in pods if pod["metadata"]["annotations"][TASK] == other["name"]
            ]
            least = other.get("minAvailable", 0)
            ready.append(phases.count("Running") + phases.count("Succeeded") >= least)
    return not needs or (any(ready) if task["dependsOn"].get("iteration") == "any" else all(ready))
