"""Objects as a watch tells a dashboard of them, and a picture that has been told of some."""

from __future__ import annotations

import json
from typing import Any

from kilauea.api.ports import Seen
from kilauea.dashboard.pages import Cluster
from kilauea.dashboard.picture import Picture
from kilauea.dashboard.series import Series
from kilauea.dashboard.tables import Table

NOW = 1_800_000_000_000_000
Obj = dict[str, Any]


def named(name: str, namespace: str = "", **metadata: Any) -> Obj:
    """Metadata."""
    found = {"name": name, "uid": f"uid-of-{name}", **metadata}
    return found | ({"namespace": namespace} if namespace else {})


def node(name: str, cpu: str = "8", *, ready: bool = True, cordoned: bool = False, **labels: str) -> Obj:
    """A node."""
    status = {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": str(ready)}]}
    spec = {"unschedulable": True} if cordoned else {}
    return {"metadata": named(name, labels={k.replace("_", "/"): v for k, v in labels.items()}), "spec": spec} | {
        "status": status
    }


def pod(name: str, group: str = "", *, on: str = "", cpu: str = "1", phase: str = "Pending", **metadata: Any) -> Obj:
    """A pod of the namespace `team`."""
    notes = {"annotations": {"scheduling.k8s.io/group-name": group}} if group else {}
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], **({"nodeName": on} if on else {})}
    return {"metadata": named(name, "team", **notes, **metadata), "spec": spec, "status": {"phase": phase}}


def queue(name: str, parent: str = "", *, allocated: str = "", deserved: str = "", guarantee: str = "") -> Obj:
    """A queue; amounts are of cpu."""
    spec: Obj = {"parent": parent} if parent else {}
    spec |= {"deserved": {"cpu": deserved}} if deserved else {}
    spec |= {"guarantee": {"resource": {"cpu": guarantee}}} if guarantee else {}
    status = {"state": "Open", **({"allocated": {"cpu": allocated}} if allocated else {})}
    return {"metadata": named(name), "spec": spec, "status": status}


def group(name: str, queue: str = "research", phase: str = "Pending", *, why: str = "", job: str = "") -> Obj:
    """A pod group of the namespace `team`; `why` is `Reason: message` of its condition."""
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": job, "uid": "u", "controller": True}
    metadata = named(name, "team", ownerReferences=[owner] if job else [], creationTimestamp="2026-11-23T10:00:00Z")
    reason, _, message = why.partition(": ")
    condition = {"type": "Unschedulable", "status": "True", "reason": reason, "message": message}
    status = {"phase": phase, "conditions": [condition] if why else []}
    return {"metadata": metadata, "spec": {"queue": queue, "minMember": 2}, "status": status}


def job(name: str, queue: str = "research", phase: str = "Pending", created: str = "2026-11-23T10:00:00Z") -> Obj:
    """A Volcano job of the namespace `team` with one task of two pods."""
    spec = {"queue": queue, "minAvailable": 2, "tasks": [{"name": "worker", "replicas": 2}]}
    metadata = named(name, "team", creationTimestamp=created)
    return {"metadata": metadata, "spec": spec, "status": {"state": {"phase": phase}}}


def event(reason: str, message: str, about: str, at: str = "2026-11-23T10:00:00Z") -> Obj:
    """An event about a pod of the namespace `team`."""
    subject = {"kind": "Pod", "namespace": "team", "name": about, "uid": f"uid-of-{about}"}
    metadata = named(f"{reason}-{about}", "team")
    return {"metadata": metadata, "involvedObject": subject, "reason": reason, "message": message, "lastTimestamp": at}


def text(obj: Obj) -> bytes:
    """An object as a watch gives it."""
    return json.dumps(obj).encode()


def tell(table: Table[Any], *objects: Obj) -> None:
    """Tell of objects that are added or changed."""
    table.on_events([Seen("MODIFIED", text(each), "1") for each in objects])


def gone(table: Table[Any], *objects: Obj) -> None:
    """Tell of objects that are deleted."""
    table.on_events([Seen("DELETED", text(each), "1") for each in objects])


def listed(picture: Picture) -> Picture:
    """The picture, as if all kinds had been listed."""
    for _, table, _ in picture.watched:
        table.complete = True
    return picture


def cluster_of(picture: Picture) -> Cluster:
    """What pages show."""
    return Cluster(listed(picture), Series(), now=NOW)
