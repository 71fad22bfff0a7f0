"""What must hold of Volcano's jobs at the end of a history: they rest, their books are right, nothing is left over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from kilauea.api.kinds import (
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
from kilauea.api.times import SECOND, parse_time
from system.job_laws import OVER, TASK, VERSION
from system.laws import ENDED
from system.limits import Limits
from system.users import Users

Obj = dict[str, Any]
RESTS = ("Pending", "Running", "Aborted", *OVER)


LATE = 60
"""Seconds that something may take that is due."""


def jobs_at_the_end(users: Users, limits: Limits, now: int) -> Iterator[str]:
    """What is not as it should be after the quiet, at a time in microseconds since 1970."""
    jobs, pods = users.all(VC_JOBS), users.all(PODS)
    made = [each for kind in (SERVICES, CONFIG_MAPS, NETWORK_POLICIES) for each in users.all(kind)]
    groups = {each["metadata"]["name"]: each for each in users.all(POD_GROUPS)}
    for command in users.all(COMMANDS):
        yield f"command {command['metadata']['name']} was not heard: {command['action']}"
    yield from _orphans(users, jobs)
    yield from _flows(users.all(JOB_FLOWS), jobs)
    for job in jobs:
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        own = [pod for pod in pods if _owner(pod) == uid]
        phase = (job.get("status") or {}).get("state", {}).get("phase")
        if job["metadata"].get("deletionTimestamp"):
            yield f"job {name} never goes"
        elif phase not in RESTS:
            yield f"job {name} is {phase} forever"
        else:
            group = groups.get(f"{name}-{uid}")
            yield from _counts(job, own)
            if phase in ("Pending", "Running"):
                yield from _at_work(job, own, group, limits)
            else:
                yield from _at_rest(job, own, group, [each for each in made if _owner(each) == uid])
                yield from _outlived(job, now)


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


def _flows(flows: list[Obj], jobs: list[Obj]) -> Iterator[str]:
    """A flow has made the jobs whose turn it is; one that has succeeded has none left if it was to keep none."""
    phases = {job["metadata"]["name"]: job["status"]["state"]["phase"] for job in jobs if "status" in job}
    for flow in flows:
        name, phase = flow["metadata"]["name"], flow["status"]["state"]["phase"]
        listed = {each["name"]: each.get("state") for each in flow["status"].get("jobStatusList") or ()}
        ended = {each["name"]: f"{name}-{each['name']}" for each in flow["spec"]["flows"]}
        for vertex in flow["spec"]["flows"] if phase in ("Pending", "Running") else ():
            targets = [ended[target] for target in (vertex.get("dependsOn") or {}).get("targets") or ()]
            ready = all("Completed" in (phases.get(each), listed.get(each)) for each in targets)
            job = ended[vertex["name"]]
            if ready and job not in phases and listed.get(job) != "Completed":
                yield f"flow {name} is {phase} and does not make {job}"
        kept = sorted(phases.keys() & ended.values())
        if phase == "Succeed" and flow["spec"]["jobRetainPolicy"] == "delete" and kept:
            yield f"flow {name} has succeeded and keeps {kept}"


def _outlived(job: Obj, now: int) -> Iterator[str]:
    """A job with a time to live is gone when that is over."""
    state, seconds = job["status"]["state"], job["spec"].get("ttlSecondsAfterFinished")
    if state["phase"] in OVER and seconds is not None:
        age = (now - parse_time(state["lastTransitionTime"])) / SECOND
        if age > seconds + LATE:
            yield f"job {job['metadata']['name']} is {state['phase']} for {age:.0f} s, and was to stay {seconds}"


def _at_rest(job: Obj, pods: list[Obj], group: Obj | None, made: list[Obj]) -> Iterator[str]:
    """A job that is over, or stopped, has no pods at work, no group, and nothing that plugins have made."""
    name, phase = job["metadata"]["name"], job["status"]["state"]["phase"]
    busy = [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") not in ENDED]
    if busy:
        yield f"job {name} is {phase}, and {busy} are at work"
    if group is not None:
        yield f"job {name} is {phase}, and its group {group['status'].get('phase')}"
    if made:
        yield f"job {name} is {phase}, and keeps {[each['metadata']['name'] for each in made]}"


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
        if not pods and limits.allow(asked["queue"], cores):  # those that have pods may have given way to others
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
