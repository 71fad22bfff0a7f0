"""The latest objects of dynamic resource allocation, and what running sessions have decided on top of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from kilauea.api import dynamic as wire
from kilauea.api.core import NodeSelector, NodeSelectorTerm, Pod
from kilauea.api.errors import object_label
from kilauea.api.meta import Object, SelectorRequirement
from kilauea.api.quantity import format_amount
from kilauea.api.selectors import NODE_NAME_FIELD
from kilauea.engine.model.claims.costs import SelectorCosts
from kilauea.engine.model.claims.extended import (
    ContainerAsk,
    SpecialDemand,
    offers,
    served_by,
    special_demand,
    special_name,
)
from kilauea.engine.model.claims.facts import (
    Ask,
    Claim,
    Class,
    Demand,
    Grant,
    Reach,
    Slice,
    TaintRule,
    claim_of,
    class_of,
    slice_of,
    taint_rule_of,
)
from kilauea.engine.model.claims.inventory import Inventory, Use
from kilauea.engine.model.nodes import NodeTable, Offer


class ClaimRef(NamedTuple):
    """A reference of a pod to a claim."""

    name: str
    """The pod's own name for it."""
    key: str
    """`namespace/name`; empty while the claim is not created yet, or if it is not needed."""
    template: str
    """Key of the template from which it is created; empty for a claim that the pod names directly."""
    needed: bool
    """False for a claim of a template that turned out to be unnecessary."""
    special: bool = False
    """True for the claim for the extended resources of the pod."""


class Wish(NamedTuple):
    """One claim of a shape: the claim itself if its identity matters, otherwise only its requests."""

    key: str
    demand: Demand
    special: SpecialDemand | None = None
    """For a special claim: its content if devices serve all resources; on single nodes it may be less."""


BINDING_TIMEOUT = 600
"""Seconds for binding conditions of devices to become true, as in kube-scheduler."""


class Decision(NamedTuple):
    """Devices that a session allocates to a claim without any."""

    grants: tuple[Grant, ...]
    use: Use
    """The devices in the inventory, without admin access."""
    reaches: tuple[Reach, ...]
    """The nodes that reach them, for each device, without repeats."""


class ClaimAllocation(NamedTuple):
    """A resource claim of a pod that starts."""

    claim: str
    """The claim, as `namespace/name`."""
    uid: str
    """Its UID."""
    allocation: wire.Allocation | None
    """The allocation in its status; None if it already has devices."""
    special: SpecialDemand | None = None
    """Its content, if it is the claim for the extended resources of the pod; created if it does not exist."""
    timeout: int = BINDING_TIMEOUT
    """Seconds for binding conditions of its devices to become true."""


def claims_of_pod(pod: Pod) -> tuple[ClaimRef, ...]:
    """Return the claims of a pod, in their order."""
    made = {each.name: each for each in (pod.status.resource_claim_statuses if pod.status else None) or ()}
    out = []
    for each in pod.spec.resource_claims or ():
        if each.resource_claim_name:
            out.append(ClaimRef(each.name, f"{pod.namespace}/{each.resource_claim_name}", "", needed=True))
            continue
        template, found = f"{pod.namespace}/{each.resource_claim_template_name or ''}", made.get(each.name)
        name = found.resource_claim_name if found else None
        key = f"{pod.namespace}/{name}" if name else ""
        out.append(ClaimRef(each.name, key, template, needed=found is None or bool(name)))
    return tuple(out)


class ResourceClaimTable:
    """Claims, classes and slices by key."""

    def __init__(self) -> None:
        self.claims: dict[str, Claim] = {}
        self._demands: WeakValueDictionary[Demand, Demand] = WeakValueDictionary()
        """Each distinct demand once, as thousands of claims request the same."""
        self.classes: dict[str, Class] = {}
        self.slices: dict[str, Slice] = {}
        self.taint_rules: dict[str, TaintRule | None] = {}
        self.binding_timeout = BINDING_TIMEOUT
        """As set by the session opened last."""
        self.selector_costs = SelectorCosts()
        """Without a limit, unless a live scheduler sets one."""
        self.templates: dict[str, bool] = {}
        """Existing templates."""
        self.decided: dict[str, Decision] = {}
        """By claim: devices that the running sessions allocate."""
        self.special: dict[tuple[str, str], list[str]] = {}
        """By key and UID of a pod: keys of the claims for its extended resources, usually one."""
        self.contents: dict[str, SpecialDemand] = {}
        """By special claim: the requests of its pod."""
        self.stale_pods: dict[str, None] = {}
        """Pods whose special claims changed since `claim_extended` last read them."""
        self._renamed: dict[str, None] = {}
        """Pods whose special claims have other names than usual, because other claims have these."""
        self._served: dict[str, str] | None = {}
        self._readable = True
        self._inventory: Inventory | None = None
        self._kinds: dict[str, tuple[dict[str, Any], Callable[[Any], Any]]] = {
            "ResourceClaim": (self.claims, self._read_claim),
            "DeviceClass": (self.classes, class_of),
            "ResourceSlice": (self.slices, slice_of),
            "DeviceTaintRule": (self.taint_rules, taint_rule_of),
            "ResourceClaimTemplate": (self.templates, lambda _: True),
        }

    def _read_claim(self, obj: wire.ResourceClaim) -> Claim:
        claim = claim_of(obj)
        return replace(claim, demand=self._demands.setdefault(claim.demand, claim.demand))

    @property
    def kinds(self) -> list[str]:
        """Kinds that are stored here."""
        return list(self._kinds)

    def keys(self, kind: str) -> list[str]:
        """Keys of the objects of a kind; empty for kinds that are not stored here."""
        if kind == "ResourceClaim":
            return [key for key, claim in self.claims.items() if claim.exists]
        return list(self._kinds[kind][0]) if kind in self._kinds else []

    def put(self, obj: Object) -> None:
        """Store an object.

        Raises:
            ValueError: the object is invalid.
        """
        table, read = self._kinds[obj.kind]
        key, found = object_label(obj), read(obj)
        self.drop(obj.kind, key)
        table[key] = found
        if obj.kind == "ResourceClaim" and found.special:
            self.release_extended(found.special, found.owner)
            self.special.setdefault((found.special, found.owner), []).append(key)
            self.stale_pods[found.special] = None

    def drop(self, kind: str, key: str) -> None:
        """Remove an object."""
        gone = self._kinds[kind][0].pop(key, None)
        self._forget(kind)
        if kind == "ResourceClaim" and gone is not None:
            self.stale_pods.update(self._renamed)
            if gone.special:
                self._forget_special(gone)

    def _forget_special(self, claim: Claim) -> None:
        self.contents.pop(claim.key, None)
        of_pod = self.special[claim.special, claim.owner]
        of_pod.remove(claim.key)
        if not of_pod:
            del self.special[claim.special, claim.owner]
        self.stale_pods[claim.special] = None

    def _forget(self, kind: str) -> None:
        if kind == "DeviceClass":
            self._served = None
        if kind in ("ResourceSlice", "DeviceTaintRule") or (kind == "DeviceClass" and self.taint_rules):
            self._inventory = None

    def inventory(self, nodes: NodeTable) -> Inventory:
        """The devices of all slices, for these nodes."""
        if self._inventory is None or self._inventory.nodes is not nodes:
            self._inventory = Inventory(list(self.slices.values()), nodes, self._rules(), self.selector_costs)
        return self._inventory

    def _rules(self) -> list[TaintRule]:
        """The taint rules, with the selectors of the classes that they name; rules with unknown classes are omitted."""
        out = []
        for rule in (self.taint_rules[name] for name in sorted(self.taint_rules)):
            if rule is not None and rule.class_name in self.classes:
                out.append(rule._replace(selectors=(*self.classes[rule.class_name].selectors, *rule.selectors)))
            elif rule is not None and not rule.class_name:
                out.append(rule)
        return out

    def wishes(self, refs: tuple[ClaimRef, ...], uid: str) -> tuple[Wish, ...]:
        """The claims of a pod, for its shape.

        If only this pod may use a claim and the claim has no devices yet, only its content counts, so the pods of a job
        have one shape.
        """
        out = []
        for ref in refs:
            claim = self.claims.get(ref.key)
            if claim is None:
                out.append(Wish(ref.key, Demand((), ())))
            elif claim.allocated or claim.owner != uid or claim.key in self.decided:
                out.append(Wish(claim.key, claim.demand, self.contents.get(claim.key)))
            else:
                out.append(Wish("", claim.demand, self.contents.get(claim.key)))
        return tuple(out)

    # --- extended resources

    @property
    def served(self) -> dict[str, str]:
        """The class whose devices serve each extended resource."""
        if self._served is None:
            self._served = served_by(self.classes.values()) if self._readable else {}
        return self._served

    def readable(self, known: bool) -> None:
        """Set if claims can be read; if not, devices in use are unknown, and none serves a resource."""
        if known != self._readable:
            self._readable, self._served = known, None

    def offers(self, nodes: NodeTable, served: Iterable[tuple[str, str]]) -> dict[str, Offer]:
        """By extended resource (and class), the amounts that devices serve."""
        return offers(self.inventory(nodes), self.classes, served)

    def claim_extended(
        self, pod: str, uid: str, asks: tuple[ContainerAsk, ...], served: tuple[tuple[str, str], ...], *, waits: bool
    ) -> ClaimRef | None:
        """Return the claim for the extended resources of a pod; None if it has none and needs none.

        Args:
            pod: key of the pod.
            uid: its UID.
            asks: the extended resources that it requests.
            served: resources, and the classes that serve them.
            waits: True if it does not have a node yet.
        """
        self.release_extended(pod, uid)
        known = self._special_of(pod, uid)
        names = {name for ask in asks for name, _, _ in ask.amounts}
        content = special_demand(asks, tuple(each for each in served if each[0] in names))
        needed = waits and bool(content.resources)
        if known is None and needed:
            known = self._claim_to_make(pod, uid, content.demand)
        elif known is None:
            return None
        self.claims[known.key] = known if known.allocated else replace(known, demand=content.demand)
        self.contents[known.key] = content
        return ClaimRef("", known.key, "", needed=True, special=True)

    def _special_of(self, pod: str, uid: str) -> Claim | None:
        """The claim for the extended resources of a pod; of several, one with devices, then the first by name."""
        found = [self.claims[key] for key in self.special.get((pod, uid), ())]
        return min(found, key=lambda claim: (not claim.allocated, claim.key), default=None)

    def _claim_to_make(self, pod: str, uid: str, demand: Demand) -> Claim:
        """A new claim for the extended resources of a pod, under a name that no other claim has."""
        namespace, _, name = pod.partition("/")
        names = (special_name(name, uid, number) for number in count())
        own = next(each for each in names if f"{namespace}/{each}" not in self.claims)
        if own != special_name(name, uid):
            self._renamed[pod] = None
        key = f"{namespace}/{own}"
        self.special[pod, uid] = [key]
        return Claim(key, own, "", uid, demand, False, (), None, (), False, (), pod, exists=False)

    def release_extended(self, pod: str, uid: str) -> None:
        """Drop the claim that a pod would get: the pod is gone, is read again, or has an existing claim."""
        self._renamed.pop(pod, None)
        for claim in [self.claims[key] for key in self.special.get((pod, uid), ())]:
            if not claim.exists:
                del self.claims[claim.key]
                self._forget_special(claim)

    # --- results in plans

    def allocations(self, refs: tuple[ClaimRef, ...]) -> tuple[ClaimAllocation, ...]:
        """The claims of a pod that starts, with the devices allocated to those without any."""
        out = []
        for ref in refs:
            claim = self.claims.get(ref.key)
            if claim is not None and (claim.allocated or claim.key in self.decided):
                decision = None if claim.allocated else self.decided[claim.key]
                allocation = None if decision is None else self._written(claim, decision)
                content = self.contents.get(ref.key) if ref.special else None
                if content is not None:
                    grants = claim.grants if decision is None else decision.grants
                    content = content.of_requests({grant.request for grant in grants})
                out.append(ClaimAllocation(claim.key, claim.uid, allocation, content, self.binding_timeout))
        return tuple(out)

    def _written(self, claim: Claim, decision: Decision) -> wire.Allocation:
        """The `status.allocation` of a claim."""
        asked = claim.demand.by_name
        results = [
            self._granted(claim, number, grant, asked[grant.request]) for number, grant in enumerate(decision.grants)
        ]
        used = dict.fromkeys(grant.request for grant in decision.grants)
        config = [
            wire.AllocatedConfiguration([name], each.opaque, "FromClass")
            for name in used
            if (of := self.classes.get(asked[name].class_name)) is not None
            for each in of.config
        ]
        config += [
            wire.AllocatedConfiguration(each.requests, each.opaque, "FromClaim")
            for each in claim.config
            if not each.requests or any(name in each.requests or name.split("/")[0] in each.requests for name in used)
        ]
        return wire.Allocation(wire.AllocatedDevices(results, config or None), _selector(decision.reaches))

    def _granted(self, claim: Claim, number: int, grant: Grant, way: Ask) -> wire.AllocatedDevice:
        """One device in the status of a claim."""
        out = wire.AllocatedDevice(grant.request, *grant.device, admin_access=grant.admin or None)
        row = self._inventory.index.get(grant.device, -1) if self._inventory is not None else -1
        device = self._inventory.devices[row] if self._inventory is not None and row >= 0 else None
        if grant.consumed:
            shared = (device.shared if device is not None else None) or {}
            out.share_id = _share_id(claim, number)
            out.consumed_capacity = {shared[name].name: _quantity(amount) for name, amount in grant.consumed}
        if way.tolerations:
            out.tolerations = [
                wire.DeviceToleration(t.key or None, t.operator, t.value or None, t.effect or None, seconds)
                for t, seconds in zip(way.tolerations, way.patience, strict=True)
            ]
        if device is not None and device.binding is not None:
            out.binding_conditions = list(device.binding.conditions) or None
            out.binding_failure_conditions = list(device.binding.failures) or None
        return out


def _share_id(claim: Claim, number: int) -> str:
    """The name of a share, in the form of a UUID; it depends on the claim alone, so plans are reproducible."""
    text = hashlib.sha256(f"{claim.uid or claim.key}/{number}".encode()).hexdigest()
    return "-".join((text[:8], text[8:12], f"4{text[13:16]}", f"8{text[17:20]}", text[20:32]))


def _quantity(amount: int) -> str:
    """Format an amount in thousandths as a quantity."""
    return f"{amount}m" if amount % 1000 else format_amount("memory", amount // 1000)


def _selector(reaches: tuple[Reach, ...]) -> NodeSelector | None:
    """The nodes that reach all of the devices; None for all nodes."""
    for reach in reaches:
        if reach.node:
            field = SelectorRequirement(key=NODE_NAME_FIELD, operator="In", values=[reach.node])
            return NodeSelector([NodeSelectorTerm(match_fields=[field])])
    terms: list[NodeSelectorTerm] | None = None
    for selector in (reach.selector for reach in reaches if reach.selector is not None):
        more = selector.node_selector_terms or []
        terms = more if terms is None else [_both(one, other) for one in terms for other in more]
    return None if terms is None else NodeSelector(terms)


def _both(one: NodeSelectorTerm, other: NodeSelectorTerm) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        match_expressions=[*(one.match_expressions or ()), *(other.match_expressions or ())] or None,
        match_fields=[*(one.match_fields or ()), *(other.match_fields or ())] or None,
    )
