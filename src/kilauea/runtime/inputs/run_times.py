"""Run times of pods: declared, implied by their commands on simulated nodes, or observed in similar pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kilauea.api.core import Pod
from kilauea.api.kinds import JOBS, VC_JOBS
from kilauea.api.meta import Object
from kilauea.api.numbers import plural
from kilauea.api.ports import Obj
from kilauea.api.quantity import QuantityError, resource_amounts
from kilauea.api.times import SECOND, parse_duration
from kilauea.api.wellknown import TASK_ROLE
from kilauea.engine.model.kubernetes_groups import named_group
from kilauea.history.estimates import Estimate, RunTimes
from kilauea.history.facts import TITLE, USER, declared_time
from kilauea.nodes.program import JOB_RUN_TIME, program_of
from kilauea.simulator.expected_start import Forecast

JOB_LABEL, BATCH_LABEL = "volcano.sh/job-name", "batch.kubernetes.io/job-name"
INSTANCE_TYPE, SIMULATED = "node.kubernetes.io/instance-type", "simulated"
LATE = 5 * SECOND
"""Microseconds by which a pod may exceed its declared run time before the declaration is ignored."""
EARLY = 0.1
"""Fraction of a time limit from which on a pod may end."""


@dataclass(frozen=True)
class _Template:
    """The run times that a workload states for its pods.

    Attributes:
        estimate: microseconds by `spec.runningEstimate`; 0 for none.
        limit: microseconds by `activeDeadlineSeconds`; 0 for none.
        program: microseconds of the command on a simulated node; None if endless or unknown.
        told: True if the command states it itself.
        name: name of the job, as its user set it.
        user: the user who submitted it.
        queue: queue of the job.
    """

    estimate: int = 0
    limit: int = 0
    program: int | None = None
    told: bool = False
    name: str = ""
    user: str = ""
    queue: str = ""


_NO_TEMPLATE = _Template()


class PodRunTimes:
    """Forecasts for the pods of a cluster.

    Args:
        objects: the cluster.
        workloads: its jobs, undecoded.
        past: run times of other jobs; None without a history.
    """

    def __init__(self, objects: Iterable[Object], workloads: Iterable[Obj], past: RunTimes | None = None) -> None:
        nodes = [obj for obj in objects if obj.kind == "Node"]
        # Only on simulated nodes do commands take exactly the stated time.
        self._simulated = bool(nodes) and all(node.labels.get(INSTANCE_TYPE) == SIMULATED for node in nodes)
        self._past = past
        self._templates: dict[tuple[str, str, str], _Template] = {}
        for workload in workloads:
            self._templates.update(_templates(workload))

    def __call__(self, pod: Pod, elapsed: int | None) -> Forecast | None:
        """The forecast for a pod that has run for `elapsed`; None if nothing is known."""
        template = self._template(pod)
        ran = elapsed or 0
        if (time := declared_time(pod.annotations)) and ran < time + LATE:
            return _exact(time, "run-time annotation")
        if template.estimate and ran < template.estimate + LATE:
            return _exact(template.estimate, "runningEstimate")
        if self._simulated and template.told and template.program is not None:
            return _exact(template.program, "its command")
        limit = template.limit
        if self._past is not None and (found := self._estimate(pod, template, ran)) is not None:
            low, middle, high, *times = (
                min(time, limit) if limit else time for time in (found.low, found.middle, found.high, *found.times)
            )
            return Forecast(low, middle, high, plural(found.runs, "similar run"), tuple(times))
        if limit:
            return Forecast(max(int(limit * EARLY), ran), limit, limit, "activeDeadlineSeconds, at the latest")
        return None

    def _estimate(self, pod: Pod, template: _Template, ran: int) -> Estimate | None:
        if self._past is None:
            return None
        name = template.name or (named_group(pod).partition("/")[2] or pod.name)
        task = pod.annotations.get(TASK_ROLE, "")
        return self._past.estimate(pod.namespace or "", name, template.user, template.queue, task, _requests(pod), ran)

    def _template(self, pod: Pod) -> _Template:
        namespace, labels = pod.namespace or "", pod.labels
        job = labels.get(JOB_LABEL) or pod.annotations.get(JOB_LABEL, "")
        if job:
            return self._templates.get((namespace, job, pod.annotations.get(TASK_ROLE, "")), _NO_TEMPLATE)
        return self._templates.get((namespace, f"{JOBS.kind}/{labels.get(BATCH_LABEL, '')}", ""), _NO_TEMPLATE)


def _exact(time: int, source: str) -> Forecast:
    return Forecast(time, time, time, source)


def _templates(workload: Obj) -> Mapping[tuple[str, str, str], _Template]:
    """The templates of a job, by namespace, job and task."""
    metadata, spec = workload["metadata"], workload.get("spec") or {}
    namespace, name, version = (
        metadata.get("namespace") or "default",
        metadata.get("name") or "",
        workload.get("apiVersion"),
    )
    notes = metadata.get("annotations") or {}
    about = (notes.get(TITLE) or name, notes.get(USER, ""))
    if version == VC_JOBS.api_version and workload.get("kind") == VC_JOBS.kind:
        estimate = _duration(spec.get("runningEstimate"))
        queue = spec.get("queue") or "default"
        return {
            (namespace, name, str(task.get("name") or f"default{number}")): _template(
                task, estimate, *about, queue, None
            )
            for number, task in enumerate(spec.get("tasks") or ())
            if isinstance(task, Mapping)
        }
    if version == JOBS.api_version and workload.get("kind") == JOBS.kind:
        owner = [{"kind": "Job", "apiVersion": "batch/v1"}]
        whole = {"template": spec.get("template")}
        return {(namespace, f"{JOBS.kind}/{name}", ""): _template(whole, 0, *about, "", owner)}
    return {}


def _template(
    task: Mapping[str, object], estimate: int, name: str, user: str, queue: str, owners: Sequence[Obj] | None
) -> _Template:
    found = task.get("template")
    template: Mapping[str, object] = found if isinstance(found, Mapping) else {}
    spec, meta = template.get("spec"), template.get("metadata")
    spec = spec if isinstance(spec, Mapping) else {}
    meta = meta if isinstance(meta, Mapping) else {}
    limit = spec.get("activeDeadlineSeconds")
    pod = {"metadata": {**meta, **({"ownerReferences": owners} if owners else {})}, "spec": spec}
    program, told = _program(pod)
    return _Template(estimate, limit * SECOND if isinstance(limit, int) else 0, program, told, name, user, queue)


def _program(pod: Obj) -> tuple[int | None, bool]:
    """The run time of a pod's commands on a simulated node, and True if all of them state it."""
    containers = [
        each for each in pod["spec"].get("containers") or () if isinstance(each, Mapping) and each.get("name")
    ]
    try:
        programs = [program_of(pod, container, default=JOB_RUN_TIME) for container in containers]
    except (KeyError, TypeError, AttributeError):  # no such template would become a pod
        return None, False
    times = [program.run_time for program in programs]
    known = [time for time in times if time is not None]
    if not known or len(known) < len(times) or any(program.guessed for program in programs):
        return None, False
    return max(known), True


def _duration(text: object) -> int:
    try:
        return max(0, parse_duration(text)) if isinstance(text, str) and text else 0
    except ValueError:
        return 0


def _requests(pod: Pod) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in pod.spec.containers or ():
        try:
            amounts = resource_amounts(container.resources.requests if container.resources else None)
        except QuantityError:
            continue
        for name, amount in amounts.items():
            total[name] = total.get(name, 0) + amount
    return total
