"""A cluster of `kilauea up` in which the kinds of waiting are played one after another, and what it says of each.

with running_up(folder, "--nodes", "0") as server:
    stage = Stage(server)
    stage.play(case.docs, case.conf)
    stage.console.good("kilauea", "explain", "job", "j")
    stage.clear()
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from functools import partial
from typing import Any

from cluster.api_process import Server
from cluster.up_process import ask, until
from kilauea.api.kinds import (
    CLAIMS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    HYPER_NODES,
    JOBS,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VC_JOBS,
    VOLUMES,
)
from kilauea.api.ports import Resource
from kilauea.client.rest import collection_path
from kilauea.controllers.configuration import FILE, PLACE
from kilauea.nodes.annotations import NODE_STATE, NOT_READY
from support.vcctl_runs import Console
from support.waiting_objects import Doc

REPLACED = ("Job", "StatefulSet")
"""Kinds that are deleted and created again, as most of their fields cannot change."""
IN_NAMESPACE = tuple(
    Resource("", "v1", f"{kind.lower()}s", kind) for kind in ("ResourceQuota", "LimitRange", "ServiceAccount")
)
KINDS = {
    (kind.api_version, kind.kind): kind
    for kind in (
        VC_JOBS,
        JOBS,
        DEPLOYMENTS,
        STATEFUL_SETS,
        POD_GROUPS,
        PODS,
        CLAIMS,
        VOLUMES,
        STORAGE_CLASSES,
        PRIORITY_CLASSES,
        *IN_NAMESPACE,
        QUEUES,
    )
} | {(kind.api_version, kind.kind): kind for kind in (HYPER_NODES, NODES)}
"""Kinds of the cases, in the order in which they are deleted."""
NAMESPACE = "default"
OF_A_JOB = f"{VC_JOBS.plural}.{VC_JOBS.group},{POD_GROUPS.plural}.{POD_GROUPS.group},pods"
"""The kinds that belong to a job, as kubectl takes them."""
KEPT = ("root", "default", "system-cluster-critical", "system-node-critical")
"""Objects that every cluster has."""
SET_BY_CONTROLLERS = "node.kubernetes.io/"
"""With which taints begin that follow from the state of a node."""
SET_BY_SERVER = ("uid", "creationTimestamp")
AGAINST = ("Unschedulable", "PodsNotCreated", "NoScheduler", "PodScheduled")
"""Conditions that say why something waits."""


class Stage:
    """Plays cases in the namespace `default`.

    Attributes:
        server: of the cluster.
        console: calls commands at it.
    """

    def __init__(self, server: Server) -> None:
        self.server, self.console = server, Console(server.kubeconfig)
        self._client = server.client()
        self._docs: list[Doc] = []
        self._conf = self._client.get(_path(CONFIG_MAPS, PLACE.namespace, PLACE.name))["data"][FILE]

    # --- the objects of a case

    def play(self, docs: Iterable[Doc], conf: str) -> None:
        """Create the objects of a case, the job or group that waits last; with this configuration of the scheduler."""
        self._configure(conf or self._conf)
        self._docs = [copy.deepcopy(doc) for doc in docs]
        for doc in sorted(self._docs, key=_order):
            self._create(doc)

    def put(self, api_version: str, kind: str, name: str, spec: Doc) -> None:
        """Create a workload of Kubernetes, which `clear` deletes with its pods."""
        self._create({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})

    def change_to(self, docs: Iterable[Doc]) -> None:
        """Make the objects those of the changed documents, as a user would: what cannot change is created again."""
        wanted = [copy.deepcopy(doc) for doc in docs]
        before = {_name(doc): doc for doc in self._docs}
        for name in before.keys() - {_name(doc) for doc in wanted}:
            self._delete(before[name])
        for doc in sorted(wanted, key=_order):
            old = before.get(_name(doc))
            if old is not None and _plain(old) == _plain(doc):
                continue
            if doc["kind"] == "PersistentVolumeClaim" and old is not None:
                continue  # its volume names it, and the controller binds the two
            if old is not None and doc["kind"] in REPLACED:
                self._delete(old, wait=True)
                old = None
            if old is None:
                self._create(doc)
            else:
                self._replace(doc)
        self._docs = wanted

    def clear(self) -> None:
        """Delete everything that cases create, and wait until it is gone."""
        for resource in KINDS.values():
            for obj in self._all(resource):
                if obj["metadata"]["name"] not in KEPT:
                    self._delete(obj)
            until(partial(self._is_clear, resource), f"no {resource.plural}")
        self._docs = []

    def _is_clear(self, resource: Resource) -> bool:
        return not self._left(resource)

    def _left(self, resource: Resource) -> list[Doc]:
        return [obj for obj in self._all(resource) if obj["metadata"]["name"] not in KEPT]

    def _all(self, resource: Resource) -> list[Doc]:
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        found = self._client.get(collection_path(resource, NAMESPACE if resource.namespaced else ""))
        return [head | obj for obj in found["items"]]

    def _create(self, doc: Doc) -> None:
        resource = _resource(doc)
        path = collection_path(resource, NAMESPACE if resource.namespaced else "")
        answer = self._client.send("POST", path, _plain(doc))
        assert answer.code == 201, answer.content
        if doc["kind"] == "Node":
            amounts = doc["status"]["allocatable"]
            self._patch(f"{_address(doc)}/status", {"status": {"capacity": amounts, "allocatable": amounts}})
            until(lambda: self._is_ready(doc) != _is_silent(doc), f"node {doc['metadata']['name']}")

    def _is_ready(self, node: Doc) -> bool:
        found = self._client.get(_address(node))
        conditions = found["status"].get("conditions") or ()
        ready = any((c["type"], c["status"]) == ("Ready", "True") for c in conditions)
        return ready and not any("not-ready" in taint["key"] for taint in found["spec"].get("taints") or ())

    def _replace(self, doc: Doc) -> None:
        spec: Doc = doc.get("spec") or {}
        if doc["kind"] == "Node":
            spec = {"unschedulable": None, "taints": None, **spec}
            self._patch(_address(doc), {"metadata": {"annotations": {NODE_STATE: None}}})
        metadata = {"labels": None} | {
            key: doc["metadata"][key] for key in ("labels", "annotations") if key in doc["metadata"]
        }
        self._patch(_address(doc), {"spec": spec, "metadata": metadata})

    def _delete(self, doc: Doc, wait: bool = False) -> None:
        body = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        answer = self._client.send("DELETE", _address(doc), body)
        assert answer.code in (200, 202, 404), answer.content
        if wait:
            until(lambda: not self._of_job(), f"the pods and the group of the {doc['kind']} to go")

    def _of_job(self) -> list[Doc]:
        """What is left of the job `j`."""
        found = [*self._all(PODS), *self._all(POD_GROUPS), *self._all(VC_JOBS), *self._all(STATEFUL_SETS)]
        return [obj for obj in found if obj["metadata"]["name"] == "j" or obj["metadata"]["name"].startswith("j-")]

    def _patch(self, path: str, patch: Doc) -> None:
        answer = self._client.send("PATCH", path, patch, Content_Type="application/merge-patch+json")
        assert answer.code == 200, answer.content

    def _configure(self, conf: str) -> None:
        path = _path(CONFIG_MAPS, PLACE.namespace, PLACE.name)
        if self._client.get(path)["data"][FILE] != conf:
            before = self._loaded()
            self._patch(path, {"data": {FILE: conf}})
            until(lambda: self._loaded() > before, "the configuration to be used")

    def _loaded(self) -> int:
        """How often the scheduler has said that it uses a changed configuration."""
        said = (event for event in self._all(EVENTS) if event["reason"] == "ConfigurationLoaded")
        return sum(event.get("count") or 1 for event in said)

    # --- what is said

    def started(self) -> int:
        """Pods of `j` that have a node."""
        pods = self._all(PODS)
        return sum(1 for pod in pods if pod["metadata"]["name"].startswith("j-") and pod["spec"].get("nodeName"))

    def has_pods(self) -> bool:
        """True if pods of `j` are there: those of a job are created once its group is admitted."""
        return any(pod["metadata"]["name"].startswith("j-") for pod in self._all(PODS))

    def conditions(self) -> str:
        """What the status of the job, its group and its pods says, one reason a line."""
        lines = []
        for obj in self._of_job():
            status = obj.get("status") or {}
            lines.append(str((status.get("state") or {}).get("message") or ""))
            for condition in status.get("conditions") or ():
                if condition.get("type") in AGAINST and condition["status"] == str(obj["kind"] == "PodGroup"):
                    lines.append(str(condition.get("message") or ""))
        return "\n".join(lines)

    def events(self) -> str:
        """The events about the job, its group and its pods, one a line."""
        uids = {obj["metadata"]["uid"] for obj in self._of_job()}
        found = [event for event in self._all(EVENTS) if event["involvedObject"].get("uid") in uids]
        return "\n".join(f"{event['reason']}: {event['message']}" for event in found)

    def described(self, kinds: str = OF_A_JOB) -> str:
        """What kubectl says about a job, its group and its pods, or other kinds, without line breaks."""
        done = ask(self.server, "describe", kinds, "-n", NAMESPACE)
        assert done.returncode == 0, done.stderr
        return " ".join(done.stdout.split())

    def explained(self, subject: str) -> str:
        """What `kilauea explain` says of a subject."""
        return self.console("kilauea", "explain", *subject.split()).out

    def explained_as_data(self, subject: str) -> Any:
        """The same as data."""
        told: Any = json.loads(self.console("kilauea", "explain", *subject.split(), "-o", "json").out)
        if told["change"] is not None:
            told["change"]["object"] = self._named(told["change"]["object"])
        return told

    def _named(self, key: str) -> str:
        """The name of the job that a pod group belongs to, as its user knows it; else what is given."""
        groups = {f"{NAMESPACE}/{group['metadata']['name']}": group for group in self._all(POD_GROUPS)}
        owners = groups[key]["metadata"].get("ownerReferences") or () if key in groups else ()
        return next((f"{NAMESPACE}/{owner['name']}" for owner in owners if owner["kind"] == "Job"), key)


def _resource(doc: Doc) -> Resource:
    return KINDS[doc["apiVersion"], doc["kind"]]


def _is_silent(node: Doc) -> bool:
    """True if a node is not to become ready."""
    return any(taint["key"].endswith("not-ready") for taint in node["spec"].get("taints") or ())


def _order(doc: Doc) -> tuple[bool, int]:
    """What others need comes first, and what waits last."""
    waits = doc["metadata"]["name"] == "j" or doc["metadata"]["name"].startswith("j-")
    return waits, -list(KINDS).index((doc["apiVersion"], doc["kind"]))


def _name(doc: Doc) -> tuple[str, str]:
    return doc["kind"], doc["metadata"]["name"]


def _path(resource: Resource, namespace: str, name: str) -> str:
    return f"{collection_path(resource, namespace)}/{name}"


def _address(doc: Doc) -> str:
    resource = _resource(doc)
    return _path(resource, NAMESPACE if resource.namespaced else "", doc["metadata"]["name"])


def _plain(doc: Doc) -> Doc:
    """A document without what the server or a controller says."""
    out: Doc = copy.deepcopy({name: part for name, part in doc.items() if name != "status"})
    for name in SET_BY_SERVER:
        out["metadata"].pop(name, None)
    if doc["kind"] in ("PersistentVolumeClaim", "PersistentVolume"):
        out["metadata"].pop("annotations", None)
        out["spec"].get("claimRef", {}).pop("uid", None)
    if doc["kind"] == "PersistentVolume":
        out["spec"].setdefault("hostPath", {"path": "/disk"})
    if doc["kind"] == "Node":
        taints = out["spec"].get("taints") or ()
        out["spec"]["taints"] = [taint for taint in taints if not taint["key"].startswith(SET_BY_CONTROLLERS)]
        if _is_silent(doc):
            out["metadata"]["annotations"] = {NODE_STATE: NOT_READY}
    return out
