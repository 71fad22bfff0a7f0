"""Fixes that `kilauea explain` proposes, done to documents as a user would do them."""

from __future__ import annotations

import copy

from kilauea.api.quantity import amount, format_amount
from support.waiting_objects import Doc, queue


def the(docs: list[Doc], kind: str, name: str) -> Doc:
    return next(d for d in docs if d["kind"] == kind and d["metadata"]["name"] == name.rpartition("/")[2])


def templates(docs: list[Doc]) -> list[Doc]:
    return [task["template"]["spec"] for task in the(docs, "Job", "j")["spec"]["tasks"]]


def more(limits: Doc, resource: str, by: str) -> None:
    limits[resource] = format_amount(resource, amount(resource, limits[resource]) + amount(resource, by))


def fix(docs: list[Doc], change: Doc) -> None:
    """Do what the change says."""
    what, name, by = change["what"], change["object"], change["by"]
    if what in ("queue", "open"):
        docs[:] = [d for d in docs if (d["kind"], d["metadata"]["name"]) != ("Queue", name)] + [queue(name)]
    elif what == "resume":
        the(docs, "Queue", name)["metadata"]["annotations"] = {"kilauea.dev/paused": "false"}
    elif what == "traverse":
        the(docs, "Queue", name)["spec"]["dequeueStrategy"] = "traverse"
    elif what == "leaf":
        the(docs, "PodGroup", "j")["spec"]["queue"] = name
    elif what == "ready":
        for each in name.split(", "):
            the(docs, "Node", each)["spec"] = {}
    elif what == "quota":
        more(the(docs, "Queue", name)["spec"]["capability"], change["resource"], by)
    elif what == "weight":
        the(docs, "Queue", name)["spec"]["weight"] += int(by)
    elif what == "namespaceQuota":
        quota = the(docs, "ResourceQuota", name)
        for part in (quota["spec"], quota.get("status") or {}):
            if "hard" in part:
                more(part["hard"], change["resource"], by)
    elif what == "scheduler":
        the(docs, "Job", "j")["spec"]["schedulerName"] = "volcano"
    elif what == "priorityClass":
        docs.append(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 5}
        )
    elif what == "gates":
        for template in templates(docs):
            template.pop("schedulingGates", None)
    elif what == "uncordon":
        for each in name.split(", "):
            the(docs, "Node", each)["spec"] = {}
    elif what == "taint":
        key, _, value = name.rpartition(":")[0].partition("=")
        for template in templates(docs):
            template["tolerations"] = [{"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"}]
    elif what == "selector":
        for template in templates(docs):
            for pair in name.split(", "):
                del template["nodeSelector"][pair.partition("=")[0]]
    elif what == "spread":
        for template in templates(docs):
            del template["topologySpreadConstraints"]
    elif what in ("affinity", "podAffinity", "podAntiAffinity"):
        for template in templates(docs):
            del template["affinity"]
    elif what == "tier":
        the(docs, "Job", "j")["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": change["to"]}
    elif what == "minimum":
        spec = the(docs, "PodGroup", name)["spec"]
        spec["minMember"] = change["to"]
        if change["minResources"]:
            spec["minResources"] = change["minResources"]
    elif what == "parallel":
        the(docs, "StatefulSet", name)["spec"]["podManagementPolicy"] = "Parallel"
    elif what == "ordered":
        the(docs, "StatefulSet", name)["metadata"]["annotations"] = {"scheduling.volcano.sh/group-min-member": "1"}
    elif what == "minAvailable":
        the(docs, "Job", name)["spec"]["minAvailable"] = change["to"]
    elif what == "job":
        # A group that a job owns goes with its job.
        group = name.rpartition("/")[2]
        docs[:] = [d for d in docs if d["metadata"]["name"] not in (group, group.partition("-default-")[0])]
    elif what == "nodes":
        docs += [twin(the(docs, "Node", name), f"new-{i}") for i in range(int(by))]
    elif what == "node":
        new = twin(the(docs, "Node", name), "new")
        new["status"]["allocatable"][change["resource"]] = by
        docs.append(new)
    else:
        raise AssertionError(f"no fix of kind {what!r} is known")


def twin(like: Doc, name: str) -> Doc:
    new: Doc = copy.deepcopy(like)
    new["metadata"]["name"] = new["metadata"]["labels"]["kubernetes.io/hostname"] = name
    return new


def shrink(of: Doc) -> None:
    """What the message about such a job says."""
    of["spec"]["minAvailable"] = 1
    of["spec"]["tasks"][1]["minAvailable"] = 0
