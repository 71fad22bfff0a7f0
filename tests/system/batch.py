"""What users do with Volcano's jobs: submit them at random, order them about, scale and delete them, chain them."""

from __future__ import annotations

from random import Random
from typing import Any

from kilauea.api.kinds import COMMANDS, JOB_FLOWS, JOB_TEMPLATES, PODS, VC_CRON_JOBS, VC_JOBS
from kilauea.api.ports import Propagation
from system.users import EXIT_CODE, RUN_TIME, Users, pod_spec

TASKS = ("master", "worker", "extra")
TEAMS = ("red", "blue", "default")
EVENTS = ("PodFailed", "PodEvicted", "TaskCompleted", "TaskFailed", "PodPending", "Unknown", "*")
ACTIONS = (
    *(3 * ("RestartJob",)),
    *(2 * ("RestartTask", "RestartPod")),
    "AbortJob",
    "TerminateJob",
    "CompleteJob",
    "RestartPartition",
    "ResumeJob",
)
ORDERS = (
    *(3 * ("AbortJob", "ResumeJob")),
    *(2 * ("RestartJob",)),
    "TerminateJob",
    "CompleteJob",
    "RestartTask",
    "None",
)
CODES = (3, 137)
EVERY_MINUTE = "* * * * *"


class Batch:
    """Users of Volcano's jobs.

    Args:
        users: who do it.
        rng: decides.
    """

    def __init__(self, users: Users, rng: Random) -> None:
        self._users, self._rng = users, rng

    # --- acts

    def submit(self, step: str) -> str:
        """A job."""
        name = f"vc{step}"
        return self._users.create(VC_JOBS, name, spec=self._spec())

    def order(self, step: str) -> str:
        """A command to a job, as `vcctl` makes it."""
        jobs = self._users.all(VC_JOBS)
        if not jobs:
            return ""
        job, action = self._rng.choice(jobs), self._rng.choice(ORDERS)
        aborted = [each for each in jobs if _phase(each) == "Aborted"]
        if aborted and self._rng.random() < 0.7:
            job, action = aborted[0], "ResumeJob"
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        target = {"apiVersion": VC_JOBS.api_version, "kind": VC_JOBS.kind, "name": name, "uid": uid, "controller": True}
        fields = {"metadata": {"ownerReferences": [target]}, "target": target, "action": action}
        return f"{action} {name} {self._users.create(COMMANDS, f'order{step}', **fields)}"

    def scale(self, step: str) -> str:
        """Other numbers of pods, and of those that must run together."""
        jobs = self._users.all(VC_JOBS)
        if not jobs:
            return ""
        at_work = [each for each in jobs if _phase(each) in ("", "Pending", "Running")]
        job = self._rng.choice(at_work or jobs)
        tasks = job["spec"]["tasks"]
        for task in tasks:
            task["replicas"] = self._rng.randint(0, 4)
            task["minAvailable"] = self._rng.randint(0, task["replicas"])
        least = self._rng.randint(0, sum(task["replicas"] for task in tasks))
        patch = {"spec": {"tasks": tasks, "minAvailable": least}}
        return f"{job['metadata']['name']} {self._users.patch(VC_JOBS, job['metadata']['name'], patch)}"

    def delete(self, step: str) -> str:
        """A job, or a flow, goes."""
        kind = self._rng.choice((VC_JOBS, VC_JOBS, VC_JOBS, JOB_FLOWS))
        name = self._one_of(kind)
        how: Propagation = self._rng.choice(("Background", "Foreground"))
        return f"{name} {how} {self._users.delete(kind, name, propagation=how)}" if name else ""

    def fail(self, step: str) -> str:
        """A pod that runs fails in a moment."""
        pods = [
            each["metadata"]["name"]
            for each in self._users.all(PODS)
            if each["spec"].get("restartPolicy") == "Never" and each["status"].get("phase") == "Running"
        ]
        if not pods:
            return ""
        name = self._rng.choice(pods)
        notes = {RUN_TIME: "1s", EXIT_CODE: str(self._rng.choice(CODES))}
        return f"{name} {self._users.patch(PODS, name, {'metadata': {'annotations': notes}})}"

    def flow(self, step: str) -> str:
        """Jobs that follow each other."""
        names = [f"t{step}{letter}" for letter in "abc"[: self._rng.randint(2, 3)]]
        flows: list[dict[str, Any]] = []
        ends_well = self._rng.random() < 0.6
        for name in names:
            self._users.create(JOB_TEMPLATES, name, spec=_that_ends(self._spec()) if ends_well else self._spec())
            before = [each["name"] for each in flows if self._rng.random() < 0.6]
            flows.append({"name": name, **({"dependsOn": {"targets": before}} if before else {})})
        spec = {"jobRetainPolicy": self._rng.choice(("retain", "delete")), "flows": flows}
        return self._users.create(JOB_FLOWS, f"flow{step}", spec=spec)

    def cron(self, step: str) -> str:
        """A job every minute."""
        policy = self._rng.choice(("Allow", "Forbid", "Replace"))
        spec = {"schedule": EVERY_MINUTE, "concurrencyPolicy": policy, "jobTemplate": {"spec": self._spec()}}
        return f"{policy} {self._users.create(VC_CRON_JOBS, f'cron{step}', spec=spec)}"

    def calm(self) -> None:
        """Let nothing more be made by the clock."""
        for cron in self._users.all(VC_CRON_JOBS):
            self._users.patch(VC_CRON_JOBS, cron["metadata"]["name"], {"spec": {"suspend": True}})

    def _one_of(self, kind: Any) -> str:
        return str(self._rng.choice([each["metadata"]["name"] for each in self._users.all(kind)] or [""]))

    # --- what jobs are like

    def _spec(self) -> dict[str, Any]:
        """A job that may well wait for itself, but seldom does."""
        rng = self._rng
        cpu, priority = rng.choice((1, 1, 2)), rng.choice(("", "low", "high"))
        policies = self._policies(0.6)
        tasks = [self._task(name, number, cpu, policies) for number, name in enumerate(TASKS[: rng.randint(1, 3)])]
        spec: dict[str, Any] = {"schedulerName": "volcano", "queue": rng.choice(TEAMS), "tasks": tasks}
        firsts = [task for task in tasks if "dependsOn" not in task]
        sure = sum(task.get("minAvailable", task["replicas"]) for task in firsts)
        most = sum(task["replicas"] for task in firsts)
        least = rng.choice((None, sure, sure, rng.randint(1, max(most, 1)), most))
        if least is None and len(firsts) < len(tasks) and rng.random() < 0.9:
            least = sure  # else the gang waits for those that wait for it
        optional: dict[str, Any] = {
            "minAvailable": least,
            "maxRetry": rng.choice((None, 1, 2, 5)),
            "ttlSecondsAfterFinished": rng.choice((None, None, 0, 20)),
            "minSuccess": rng.choice((None, None, None, 1)),
            "priorityClassName": priority or None,
            "policies": policies or None,
            "plugins": rng.choice((None, {"env": []}, {"svc": [], "env": []}, {"pytorch": []})),
            "volumes": self._volumes(),
        }
        return {**spec, **{name: value for name, value in optional.items() if value is not None}}

    def _task(self, name: str, number: int, cpu: int, of_job: list[dict[str, Any]]) -> dict[str, Any]:
        rng = self._rng
        replicas, policies = rng.randint(1, 3), self._policies(0.3)
        task: dict[str, Any] = {"name": name, "replicas": replicas, "template": self._template(cpu, policies + of_job)}
        if policies:
            task["policies"] = policies
        if rng.random() < 0.5:
            task["minAvailable"] = rng.randint(0, replicas)
        if number and rng.random() < 0.25:
            task["dependsOn"] = {
                "name": list(TASKS[: rng.randint(1, number)]),
                "iteration": rng.choice(("all", "any")),
            }
            task["minAvailable"] = rng.choice((0, 0, 1))
        return task

    def _template(self, cpu: int, policies: list[dict[str, Any]]) -> dict[str, Any]:
        """Pods that end well, or with a code, or never; containers begin again only where a policy sees to the end."""
        rng = self._rng
        notes: dict[str, str] = {}
        if rng.random() < 0.8:
            notes[RUN_TIME] = f"{rng.randint(1, 60)}s"
            code = rng.choice((0, 0, *CODES))
            if code:
                notes[EXIT_CODE] = str(code)
        ends = any(
            "TaskFailed" in _events(each) and each["action"] in ("TerminateJob", "AbortJob") for each in policies
        )
        again = "OnFailure" if ends or EXIT_CODE not in notes else "Never"
        spec = {**pod_spec(cpu, ""), "restartPolicy": rng.choice(("Never", "Never", again))}
        return {"metadata": {"annotations": notes}, "spec": spec}

    def _policies(self, likely: float) -> list[dict[str, Any]]:
        """Up to two, not both about the same."""
        rng, made = self._rng, list[dict[str, Any]]()
        while len(made) < 2 and rng.random() < likely:
            policy: dict[str, Any] = {"action": rng.choice(ACTIONS)}
            if rng.random() < 0.25:
                policy["exitCode"] = rng.choice(CODES)
            else:
                policy[rng.choice(("event", "events"))] = rng.choice(EVENTS)
                if "events" in policy:
                    policy["events"] = [policy["events"]]
            if "PodPending" in _events(policy) or rng.random() < 0.25:
                policy["timeout"] = rng.choice(("1s", "10s", "40s"))
            if not any(_clash(policy, each) for each in made):
                made.append(policy)
        return made

    def _volumes(self) -> list[dict[str, Any]] | None:
        if self._rng.random() < 0.9:
            return None
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        return [{"mountPath": "/data", "volumeClaim": claim}]


def _phase(job: dict[str, Any]) -> str:
    return str((job.get("status") or {}).get("state", {}).get("phase") or "")


def _that_ends(spec: dict[str, Any]) -> dict[str, Any]:
    """A job whose pods end well."""
    for task in spec["tasks"]:
        task["template"]["metadata"] = {"annotations": {RUN_TIME: "5s"}}
    return spec


def _events(policy: dict[str, Any]) -> list[str]:
    return [*policy.get("events", ()), *([policy["event"]] if "event" in policy else [])]


def _clash(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether admission refuses the two together."""
    events = _events(one) + _events(other)
    same = len(set(events)) < len(events) or ("*" in events and len(events) > 1)
    return same or one.get("exitCode", -1) == other.get("exitCode", -2)
