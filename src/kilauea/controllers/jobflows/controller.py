"""The controller of flows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kilauea.api.kinds import JOB_FLOWS, JOB_TEMPLATES, VC_JOBS
from kilauea.api.ports import (
    Create,
    Delete,
    Interest,
    Key,
    Obj,
    Outcome,
    Patch,
    Record,
    Single,
    Together,
    View,
    key_of,
    no_keys,
)
from kilauea.controllers.jobflows import BY_FLOW, BY_TEMPLATE
from kilauea.controllers.jobflows.status import job_name, phases, vertices_of, wanted_status
from kilauea.controllers.objects import (
    DEBOUNCE_SECONDS,
    NOTHING,
    ItsController,
    is_going,
    merge_patch,
    name_of,
    own_key,
    owned_by,
    owner_reference,
    retry_delay,
    spec_of,
    status_of,
    uid_of,
)

LONGEST_LABEL = 63
MISSING_SECONDS = 5.0
"""Seconds until a new flow checks again for a missing object."""
MOST_TOLD = 10
"""Maximum number of vertices to report at a time whose jobs cannot be created: a flow may have tens of thousands."""


class JobFlowController:
    """Creates the jobs of flows in the order of their dependencies."""

    name = "jobflow-controller"
    interests = (
        Interest(JOB_FLOWS, own_key),
        Interest(VC_JOBS, ItsController(JOB_FLOWS), delay=DEBOUNCE_SECONDS),
        Interest(JOB_TEMPLATES, no_keys),
    )

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Update the status of a flow, create the jobs that can start, and delete all after success if requested."""
        flow = view.get(JOB_FLOWS, key)
        if flow is None or is_going(flow):
            return NOTHING
        jobs = owned_by(view, VC_JOBS, flow)
        status = wanted_status(flow, jobs)
        operations = _status_patch(flow, status)
        if status["state"]["phase"] in ("Pending", "Running"):
            chains = list(_starts(flow, jobs, view)) or list(_endless(flow, jobs))
            stuck = any(not isinstance(chain[0], Create) for chain in chains)
            again = retry_delay(flow, now, MISSING_SECONDS) if stuck else None
            return Outcome([*operations, Together(chains)] if chains else operations, again)
        if status["state"]["phase"] == "Succeed" and spec_of(flow).get("jobRetainPolicy") == "delete":
            there = [job for job in jobs if not is_going(job)]
            return Outcome([*operations, *(Delete(VC_JOBS, key_of(job), uid_of(job)) for job in there)])
        return Outcome(operations)


def _status_patch(flow: Obj, status: Mapping[str, Any]) -> list[Patch]:
    changes = merge_patch(status_of(flow), status)
    return [Patch(JOB_FLOWS, key_of(flow), {"status": changes}, subresource="status")] if changes else []


def _starts(flow: Obj, jobs: Sequence[Obj], view: View) -> Iterator[list[Single]]:
    """For each vertex that can start, operations that create its job; for the first that cannot, the obstacle."""
    found, entries = phases(flow, jobs), _entries(flow)
    done = {name for name in entries if found.get(job_name(flow, name)) == "Completed"}
    told = 0
    for name, vertices in entries.items():
        if job_name(flow, name) in found:
            continue
        ready = next((each for each in vertices if _targets(each) <= done), None)
        if ready is None:
            chain = _unknown(flow, vertices, entries)
        else:
            chain = [*_start(flow, name, view), *_ignored(flow, ready)]
        told += bool(chain) and not isinstance(chain[0], Create)
        if chain and (isinstance(chain[0], Create) or told <= MOST_TOLD):
            yield chain


def _unknown(flow: Obj, vertices: Sequence[Mapping[str, Any]], entries: Mapping[str, Any]) -> list[Single]:
    """Report a vertex that depends on a missing one; empty if there are none."""
    # Target by target: a set difference with the keys of a mapping would iterate over all of these.
    unknown = sorted(target for each in vertices for target in _targets(each) if target not in entries)
    if not unknown:
        return []
    message = f'{vertices[0]["name"]} depends on "{unknown[0]}", which is not in spec.flows: name one that is'
    return [_failure(flow, message)]


def _entries(flow: Obj) -> dict[str, list[Mapping[str, Any]]]:
    """The vertices by name; of several with one name, the first that can start creates their job."""
    entries: dict[str, list[Mapping[str, Any]]] = {}
    for vertex in vertices_of(flow):
        entries.setdefault(vertex["name"], []).append(vertex)
    return entries


def _targets(vertex: Mapping[str, Any]) -> frozenset[str]:
    """The vertices that a vertex depends on."""
    return frozenset((vertex.get("dependsOn") or {}).get("targets") or ())


def _endless(flow: Obj, jobs: Sequence[Obj]) -> Iterator[list[Single]]:
    """Report why an unfinished flow cannot continue, although it does not wait for a running job."""
    found, names = phases(flow, jobs), dict.fromkeys(each["name"] for each in vertices_of(flow))
    waiting = [name for name in names if job_name(flow, name) not in found]
    if not names:
        yield [_failure(flow, "spec.flows is empty: name a jobtemplate in it")]
    elif waiting and all(each == "Completed" for each in found.values()):
        message = f"{', '.join(waiting)} form a dependency cycle: remove one dependsOn"
        yield [_failure(flow, message)]


def _start(flow: Obj, vertex: str, view: View) -> list[Single]:
    """Create the job of a vertex; reports the reason if that is not possible."""
    namespace, name = flow["metadata"]["namespace"], job_name(flow, vertex)
    template = view.get(JOB_TEMPLATES, Key(namespace, vertex))
    labels = {BY_TEMPLATE: f"{namespace}.{vertex}", BY_FLOW: f"{namespace}.{name_of(flow)}"}
    if template is None:
        return [_failure(flow, f'jobtemplate "{vertex}" does not exist: create it, or name another in spec.flows')]
    if view.get(VC_JOBS, Key(namespace, name)) is not None:
        return [_failure(flow, f'job "{name}" exists and does not belong to this flow: rename it or the flow')]
    long = max(labels.values(), key=len)
    if len(long) > LONGEST_LABEL:
        return [
            _failure(
                flow, f'"{long}" is too long for a label: use a namespace and a name of {LONGEST_LABEL - 1} together'
            )
        ]
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": labels,
        "annotations": labels,
        "ownerReferences": [owner_reference(JOB_FLOWS, flow)],
    }
    job = {"apiVersion": VC_JOBS.api_version, "kind": VC_JOBS.kind, "metadata": metadata, "spec": spec_of(template)}
    return [Create(VC_JOBS, job, about=flow), Record(flow, "Normal", "Created", f"create a job named {name}!")]


def _ignored(flow: Obj, vertex: Mapping[str, Any]) -> Iterator[Record]:
    """Warn of fields of a vertex that have no effect, here as in the original."""
    given = {"patch": vertex.get("patch"), "dependsOn.probe": (vertex.get("dependsOn") or {}).get("probe")}
    for field, what in given.items():
        if what:
            message = f"{field} of {vertex['name']} has no effect: only the template and dependsOn.targets count"
            yield Record(flow, "Warning", "IgnoredField", message)


def _failure(flow: Obj, why: str) -> Record:
    return Record(flow, "Warning", "SyncJobFlow", f"SyncJobFlow JobFlow failed for {why}")
