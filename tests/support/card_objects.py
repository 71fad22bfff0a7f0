"""Nodes, queues, groups and pods with accelerator cards, for the tests of capacity-card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from kilauea.api.meta import Object, OwnerReference
from support.builders import GPU, Data, group, node, pod, queue

A, B, C = "NVIDIA-A100", "NVIDIA-H100", "NVIDIA-H200"
CARDS_RECLAIMED: Data = yaml.safe_load("""
actions: "enqueue, allocate, backfill, reclaim"
tiers:
- plugins:
  - name: priority
  - name: gang
    enableReclaimable: false
  - name: conformance
    enableReclaimable: false
- plugins:
  - name: predicates
  - name: capacity-card
    arguments:
      overCommitFactor: 2
      cardUnlimitedCpuMemory: true
      podOwnerReferenceToServiceType:
        ReplicaSet: inference
        Deployment: inference
        Job: training
  - name: nodeorder
""")
"""Queues of services take cards back from queues of training."""


def labelled(product: str, memory: int | str = 81920, count: int | str = 8, kind: str = "nvidia.com/gpu") -> Data:
    """The labels that tell a node's cards."""
    return {f"{kind}.product": product, f"{kind}.count": str(count), f"{kind}.memory": str(memory)}


def card_node(name: str, card: str, gpu: int = 8, **more: Any) -> Object:
    """A node with so many whole cards of a model, and plenty of everything else."""
    room: dict[str, Any] = {"cpu": 256, "memory": "1Ti"} | more
    return node(name, gpu=gpu, labels=labelled(card), **room)


def annotated(obj: Object, **annotations: str | None) -> Object:
    """The object with annotations `volcano.sh/...`; `card_quota` stands for `card.quota`."""
    more = {f"volcano.sh/{key.replace('_', '.', 1)}": text for key, text in annotations.items() if text is not None}
    obj.metadata.annotations = {**obj.annotations, **more}
    return obj


def counts(cards: Mapping[str, int] | str | None) -> str | None:
    """The JSON of an annotation; text is taken as it is."""
    return cards if cards is None or isinstance(cards, str) else json.dumps(dict(cards))


def card_queue(
    name: str = "q",
    quota: Mapping[str, int] | str | None = None,
    cpu: int | str | None = 100,
    memory: str | None = "1Ti",
    **more: Any,
) -> Object:
    """A queue with a card quota, and much cpu and memory."""
    room = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    return annotated(queue(name, capability=room or None, **more), card_quota=counts(quota))


def card_group(
    name: str = "g",
    request: Mapping[str, int] | str | None = None,
    service: str | None = None,
    cpu: int | str | None = None,
    memory: str | None = None,
    **more: Any,
) -> Object:
    """A group with a card request, a service type, and minResources; `cpu=0` makes them empty."""
    least = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    made = group(name, resources=least if least or request is not None else None, **more)
    return annotated(made, card_request=counts(request), service_type=service)


def card_pod(
    name: str,
    group: str = "g",
    card: str | None = None,
    gpu: int | str = 1,
    *,
    resource: str = GPU,
    limits: Mapping[str, Any] | None = None,
    owner: str = "",
    **more: Any,
) -> Object:
    """A pod that names a card and asks for so many; a pod with a node runs there."""
    asked = {"cpu": more.pop("cpu", "1"), "memory": more.pop("memory", "1Gi")} | ({resource: gpu} if gpu else {})
    made = pod(name, group, requests={k: v for k, v in asked.items() if v is not None}, **more)
    if limits is not None:
        body: Any = made
        body.spec.containers[0].resources.limits = dict(limits)
    if owner:
        made.metadata.owner_references = [OwnerReference(kind=owner, name="o")]
    return annotated(made, card_name=card)


def milli(amounts: Mapping[str, float]) -> dict[str, float]:
    """Amounts in thousandths."""
    return {name: round(amount * 1000) for name, amount in amounts.items()}
