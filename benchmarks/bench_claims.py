"""Pods that claim devices: 1,000 nodes of 8 devices, 2,000 pods with claims of every form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import measure
import scenarios
from scenarios import Json

CONF = """actions: "allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
"""
DRIVER, CARDS = "gpu.example.com", 8
CLASS = {"deviceClassName": "gpu"}


def resource(kind: str, name: str, spec: Json, **metadata: Any) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "uid": f"uid-{kind}-{name}", **metadata},
        "spec": spec,
    }


def cards(node: str, form: str) -> Json:
    """The slice of a node: cards on two NUMA nodes, or shared ones."""
    devices: list[Json] = []
    for number in range(CARDS):
        device: Json = {
            "name": f"gpu-{number}",
            "attributes": {"model": {"string": "A100"}, "numa": {"int": number * 2 // CARDS}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        if form == "shared":
            policy = {"default": "10Gi", "validRange": {"min": "5Gi", "step": "5Gi"}}
            device |= {
                "allowMultipleAllocations": True,
                "capacity": {"memory": {"value": "80Gi", "requestPolicy": policy}},
            }
        devices.append(device)
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return resource(
        "ResourceSlice", f"{node}-cards", {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    )


def claims(form: str) -> Json:
    """`spec.devices` of a claim."""
    model = f'device.attributes["{DRIVER}"].model'
    chosen = [{"cel": {"expression": f'{model} == "A100"'}}]
    other = [{"cel": {"expression": f'{model} == "H100"'}}]
    alternatives = [{"name": "h100", **CLASS, "selectors": other}, {"name": "a100", **CLASS, "selectors": chosen}]
    forms: dict[str, Json] = {
        "one device": {"requests": [{"name": "g", "exactly": CLASS}]},
        "four devices": {"requests": [{"name": "g", "exactly": {**CLASS, "count": 4, "selectors": chosen}}]},
        "two on one NUMA node": {
            "requests": [{"name": "g", "exactly": {**CLASS, "count": 2}}],
            "constraints": [{"matchAttribute": f"{DRIVER}/numa"}],
        },
        "the first of two alternatives": {"requests": [{"name": "g", "firstAvailable": alternatives}]},
        "shared": {"requests": [{"name": "g", "exactly": {**CLASS, "capacity": {"requests": {"memory": "20Gi"}}}}]},
    }
    return forms.get(form, forms["one device"])


def cluster(nodes: int, pods: int, size: int, form: str) -> Iterator[Json]:
    """Nodes with cards, one queue, and gangs whose pods have claims of their own (`none`: no claims)."""
    machines = list(scenarios.base(nodes, queues=1))
    yield from machines
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    yield resource("DeviceClass", "gpu", {"selectors": [selector]})
    for machine in machines:
        if machine["kind"] == "Node":
            yield cards(machine["metadata"]["name"], form)
    for number in range(pods // size):
        yield scenarios.group(f"g{number}", number, "q0", size)
        for rank in range(size):
            name = f"g{number}-w-{rank}"
            pod = scenarios.pod(name, f"g{number}", "1")
            if form != "none":
                pod["metadata"].setdefault("uid", f"uid-{name}")
                pod["spec"]["resourceClaims"] = [{"name": "card", "resourceClaimName": f"{name}-card"}]
                owner = {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": name,
                    "uid": pod["metadata"]["uid"],
                    "controller": True,
                }
                place = {"namespace": pod["metadata"]["namespace"], "ownerReferences": [owner]}
                yield resource("ResourceClaim", f"{name}-card", {"devices": claims(form)}, **place)
            yield pod


def body(options: measure.Options) -> None:
    nodes, pods, size = options.size(1000, 20), options.size(2000, 40), options.size(10, 4)
    rows = []
    forms = ("none", "one device", "four devices", "two on one NUMA node", "the first of two alternatives", "shared")
    for number, form in enumerate(forms):
        files = scenarios.write(options.folder, str(number), cluster(nodes, pods, size, form), CONF)
        found = measure.cycles([files.objects], files.conf, options.runs)
        rows.append(
            [
                form,
                f"{found.bound:,}",
                f"{found.waiting:,}",
                measure.seconds(found.load),
                measure.seconds(found.first),
                measure.seconds(found.median),
                measure.per_second(found.decided, found.median),
                measure.memory(found.peak),
            ]
        )
    measure.show(
        f"{nodes:,} nodes of {CARDS} devices, {pods:,} pods, each with a claim of its own",
        ["claims", "bound", "waiting", "load", "first", "median", "pods/s", "peak"],
        rows,
    )


if __name__ == "__main__":
    measure.benchmark(__doc__ or "", body)
