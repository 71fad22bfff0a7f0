"""Objects of dynamic resource allocation as values: claims and their requests, slices and their devices, classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

from kilauea.api import dynamic as wire
from kilauea.api.core import NodeSelector
from kilauea.api.device_selectors import capacity_value, device_matcher, version_value
from kilauea.api.quantity import QuantityError, parse_milli
from kilauea.api.selectors import NodeTerm, TaintKey, TolerationKey, node_terms_of, taint_of, toleration_of
from kilauea.engine.model.claims.shares import Shared, shared_of
from kilauea.engine.model.resources import MOST_PODS, within

HARD_EFFECTS = ("NoSchedule", "NoExecute")
MOST_COUNT = 1 << 40
"""Larger counts are reduced to this, which no cluster has."""


class DeviceId(NamedTuple):
    """The name of a device in the cluster."""

    driver: str
    pool: str
    device: str


# --- requests


class Ask(NamedTuple):
    """One way to satisfy a request."""

    name: str
    """`request`, or `request/alternative`."""
    class_name: str
    selectors: tuple[str, ...]
    all: bool
    """True for all matching devices, at least one; False for a number of them."""
    number: int
    admin: bool
    """Admin access, in addition to the user of the device."""
    tolerations: tuple[TolerationKey, ...]
    capacity: tuple[tuple[str, int], ...]
    """The minimum capacities of a device, in thousandths."""
    problem: str
    """The reason why it can never be satisfied; empty if it can."""
    patience: tuple[int | None, ...] = ()
    """Seconds for which each toleration holds; None for no limit."""


class Request(NamedTuple):
    """A request, with the ways to satisfy it, best first."""

    name: str
    ways: tuple[Ask, ...]


class Constraint(NamedTuple):
    """An attribute that must be equal, or distinct, for the devices of some requests (empty: of all)."""

    requests: tuple[str, ...]
    attribute: str
    distinct: bool

    def concerns(self, ask: Ask, request: str) -> bool:
        """Return True if the constraint applies to the devices of a request."""
        return not self.requests or request in self.requests or ask.name in self.requests


@dataclass(frozen=True)
class Demand:
    """Requests and constraints of a claim; equal claims have equal demands."""

    requests: tuple[Request, ...]
    constraints: tuple[Constraint, ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Cached, as demands are looked up for every pod with claims."""
        return hash((self.requests, self.constraints))

    @cached_property
    def by_name(self) -> Mapping[str, Ask]:
        """The ways to satisfy its requests, by name."""
        return {way.name: way for request in self.requests for way in request.ways}

    @cached_property
    def alternatives(self) -> int:
        """Number of requests that have alternatives."""
        return sum(any(way.name != request.name for way in request.ways) for request in self.requests)


class Grant(NamedTuple):
    """A device allocated to a request."""

    request: str
    device: DeviceId
    admin: bool
    consumed: tuple[tuple[str, int], ...] = ()
    """Consumed capacities of a device that several claims share, by `domain/name`, in thousandths."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim."""

    key: str
    name: str
    uid: str
    owner: str
    """UID of the pod that it was created for; empty for a claim that pods share."""
    demand: Demand
    allocated: bool
    grants: tuple[Grant, ...]
    terms: tuple[NodeTerm, ...] | None
    """The nodes that reach the allocated devices; None for all."""
    reserved: tuple[tuple[str, str], ...]
    """Name and UID of the pods for which it is reserved."""
    deleting: bool
    config: tuple[wire.DeviceConfiguration, ...]
    """Parameters for drivers, as written."""
    special: str = ""
    """The pod whose extended resources it serves, as `namespace/name`; empty for other claims."""
    exists: bool = True
    """False for a special claim that is created when its pod is bound."""


def _ask(name: str, of: wire.DeviceSubRequest) -> Ask:
    mode, problem = of.allocation_mode or wire.EXACT_COUNT, ""
    wanted: list[tuple[str, int]] = []
    if mode not in (wire.EXACT_COUNT, wire.ALL):
        problem = f'request {name}: allocationMode "{mode}" is not known: use {wire.EXACT_COUNT} or {wire.ALL}'
    expressions = [each.cel.expression if each.cel else "" for each in of.selectors or ()]
    if "" in expressions:
        problem = f"request {name}: a selector has no CEL expression"
    try:
        asked = (of.capacity.requests if of.capacity else None) or {}
        wanted = sorted((dimension, parse_milli(amount)) for dimension, amount in asked.items())
    except QuantityError as error:
        problem = f"request {name}: {error}"
    return Ask(
        name,
        of.device_class_name,
        tuple(expressions),
        mode == wire.ALL,
        within(of.count or 1, 1, MOST_COUNT),
        bool(of.admin_access),
        tuple(toleration_of(each) for each in of.tolerations or ()),
        tuple(wanted),
        problem,
        tuple(each.toleration_seconds for each in of.tolerations or ()),
    )


def demand_of(spec: wire.ResourceClaimSpec) -> Demand:
    """Read the requests of a claim; an unsatisfiable request gets a problem, never an error."""
    asked = spec.devices or wire.DeviceClaim()
    requests = []
    for each in asked.requests or ():
        if each.first_available:
            ways = tuple(_ask(f"{each.name}/{way.name}", way) for way in each.first_available)
        else:
            ways = (_ask(each.name, each.exactly or each),)
        requests.append(Request(each.name, ways))
    constraints = tuple(
        Constraint(
            tuple(sorted(each.requests or ())),
            each.match_attribute or each.distinct_attribute or "",
            each.match_attribute is None,
        )
        for each in asked.constraints or ()
    )
    return Demand(tuple(requests), constraints)


def _grant(result: wire.AllocatedDevice) -> Grant:
    device = DeviceId(result.driver, result.pool, result.device)
    taken = sorted((full_name(result.driver, name), text) for name, text in (result.consumed_capacity or {}).items())
    return Grant(
        result.request, device, bool(result.admin_access), tuple((name, parse_milli(text)) for name, text in taken)
    )


def grants_of(allocation: wire.Allocation) -> tuple[Grant, ...]:
    """The devices of a claim.

    Raises:
        ValueError: an amount of its devices is invalid.
    """
    return tuple(_grant(each) for each in allocation.devices.results or ())


def full_name(driver: str, name: str) -> str:
    """The name of an attribute or capacity with its domain, by default the driver's."""
    return name if "/" in name else f"{driver}/{name}"


def claim_of(obj: wire.ResourceClaim) -> Claim:
    """Read a claim.

    Raises:
        ValueError: an amount of its devices is invalid.
    """
    allocation = obj.status.allocation if obj.status else None
    owners = [o for o in obj.metadata.owner_references or () if o.controller and o.kind == "Pod"]
    special = bool(owners) and obj.annotations.get(wire.EXTENDED_CLAIM) == "true"
    reserved = (obj.status.reserved_for if obj.status else None) or ()
    selector = allocation.node_selector if allocation else None
    return Claim(
        key=obj.key,
        name=obj.name,
        uid=obj.metadata.uid or "",
        owner=owners[0].uid if owners else "",
        demand=demand_of(obj.spec),
        allocated=allocation is not None,
        grants=grants_of(allocation) if allocation else (),
        terms=node_terms_of(selector),
        reserved=tuple((each.name, each.uid) for each in reserved if each.resource == "pods"),
        deleting=bool(obj.metadata.deletion_timestamp),
        config=tuple((obj.spec.devices.config if obj.spec.devices else None) or ()),
        special=f"{obj.namespace}/{owners[0].name}" if special else "",
    )


# --- devices


class Fault(NamedTuple):
    """An object or part that is skipped, and the reason."""

    where: str
    message: str


@dataclass(frozen=True, slots=True)
class Reach:
    """The nodes that reach a device: one by its name, those of a selector, or all."""

    node: str = ""
    terms: tuple[NodeTerm, ...] | None = None
    selector: NodeSelector | None = field(default=None, compare=False)
    """The terms as written."""

    @classmethod
    def of(cls, part: wire.ResourceSliceSpec | wire.BasicDevice) -> Reach:
        """Read the nodes of a slice, or of a device in it."""
        if part.node_name:
            return cls(part.node_name)
        return cls("", node_terms_of(part.node_selector), part.node_selector)


class Binding(NamedTuple):
    """Conditions that a driver sets on a device of a claim before a pod is bound."""

    conditions: tuple[str, ...]
    """All of them must be true."""
    failures: tuple[str, ...]
    """None of them may be true."""
    to_node: bool
    """True if the claim is available only on the chosen node, although other nodes reach the device."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device of a slice."""

    id: DeviceId
    reach: Reach
    attributes: dict[str, Any]
    """By `domain/name`."""
    capacity: dict[str, int]
    """By `domain/name`, in thousandths."""
    consumes: tuple[tuple[str, int], ...]
    """By `set/counter` of its pool, in thousandths."""
    taints: tuple[TaintKey, ...]
    shared: dict[str, Shared] | None = None
    """Capacities by `domain/name` of a device that several claims share; None for others."""
    binding: Binding | None = None
    """None if the device needs no preparation before pods are bound."""

    @property
    def view(self) -> dict[str, Any]:
        """The device as selectors see it."""
        out: dict[str, Any] = {"driver": self.id.driver, "allowMultipleAllocations": self.shared is not None}
        capacity = {name: capacity_value(amount) for name, amount in self.capacity.items()}
        for kind, values in (("attributes", self.attributes), ("capacity", capacity)):
            by_domain: dict[str, dict[str, Any]] = {}
            for name, value in values.items():
                domain, _, short = name.rpartition("/")
                by_domain.setdefault(domain, {})[short] = value
            out[kind] = by_domain
        return out


@dataclass(frozen=True, slots=True)
class Slice:
    """A ResourceSlice."""

    name: str
    driver: str
    pool: str
    generation: int
    count: int
    """Number of slices in the pool."""
    devices: tuple[Device, ...]
    counters: tuple[tuple[str, int], ...]
    """By `set/counter`, in thousandths."""
    faults: tuple[Fault, ...]


def slice_of(obj: wire.ResourceSlice) -> Slice:
    """Read a slice; invalid devices are skipped and reported in its faults."""
    spec, faults = obj.spec, []
    devices = []
    for each in spec.devices or ():
        try:
            devices.append(_device(spec, each))
        except ValueError as error:
            faults.append(Fault(f"ResourceSlice {obj.name}", f"device {each.name}: {error}; it is left out"))
    counters: list[tuple[str, int]] = []
    try:
        for of_set in spec.shared_counters or ():
            counters += _amounts(of_set.name, of_set.counters)
    except ValueError as error:
        faults.append(Fault(f"ResourceSlice {obj.name}", f"sharedCounters: {error}; they are left out"))
    return Slice(
        obj.name,
        spec.driver,
        spec.pool.name,
        spec.pool.generation,
        within(spec.pool.resource_slice_count, 1, MOST_PODS),
        tuple(devices),
        tuple(counters),
        tuple(faults),
    )


class TaintRule(NamedTuple):
    """A taint for devices by driver, pool and name; None for any."""

    name: str
    names: tuple[str | None, str | None, str | None]
    taint: TaintKey
    class_name: str = ""
    """The class that the devices must match."""
    selectors: tuple[str, ...] = ()
    """Expressions that must be true for a device."""

    def concerns(self, device: Device) -> bool:
        """Return True if a device gets the taint.

        Raises:
            CelError: a selector cannot be compiled, or fails for the device.
        """
        if not all(name is None or name == own for name, own in zip(self.names, device.id, strict=True)):
            return False
        return all(device_matcher(expression)(device.view)[0] for expression in self.selectors)


def taint_rule_of(obj: wire.DeviceTaintRule) -> TaintRule | None:
    """Read a taint rule; None for one that excludes no device."""
    of = obj.spec.device_selector
    if of is None or obj.spec.taint.effect not in HARD_EFFECTS:
        return None
    names, expressions = (of.driver, of.pool, of.device), [each.cel for each in of.selectors or ()]
    return TaintRule(
        obj.name,
        names,
        taint_of(obj.spec.taint),
        of.device_class_name or "",
        tuple(each.expression if each else "" for each in expressions),
    )


def _amounts(name: str, counters: dict[str, wire.Counter] | None) -> list[tuple[str, int]]:
    return [(f"{name}/{counter}", parse_milli(of.value)) for counter, of in sorted((counters or {}).items())]


def _device(spec: wire.ResourceSliceSpec, device: wire.Device) -> Device:
    """Read a device.

    Raises:
        ValueError: a version or a quantity is invalid.
    """
    facts = device.basic or device

    full = partial(full_name, spec.driver)
    amounts = sorted((facts.capacity or {}).items())
    taken: list[tuple[str, int]] = []
    for each in facts.consumes_counters or ():
        taken += _amounts(each.counter_set, each.counters)
    return Device(
        DeviceId(spec.driver, spec.pool.name, device.name),
        Reach.of(facts) if spec.per_device_node_selection else Reach.of(spec),
        {full(name): _value(attribute) for name, attribute in sorted((facts.attributes or {}).items())},
        {full(name): parse_milli(amount.value) for name, amount in amounts},
        tuple(taken),
        tuple(taint_of(t) for t in facts.taints or () if t.effect in HARD_EFFECTS),
        {full(name): shared_of(name, amount) for name, amount in amounts} if facts.allow_multiple_allocations else None,
        _binding(facts),
    )


def _binding(facts: wire.BasicDevice) -> Binding | None:
    if not facts.binding_conditions and not facts.binds_to_node:
        return None
    conditions, failures = facts.binding_conditions or (), facts.binding_failure_conditions or ()
    return Binding(tuple(conditions), tuple(failures), bool(facts.binds_to_node))


def _value(attribute: wire.DeviceAttribute) -> Any:
    if attribute.version is not None:
        return version_value(attribute.version)
    for value in (attribute.string, attribute.bool_, attribute.int_):
        if value is not None:
            return value
    raise ValueError("an attribute has no value: give it a string, bool, int or version")


@dataclass(frozen=True, slots=True)
class Class:
    """A DeviceClass."""

    name: str
    selectors: tuple[str, ...]
    config: tuple[wire.DeviceConfiguration, ...]
    extended: str = ""
    """The extended resource that its devices serve."""
    created: str = ""
    """Its creation time, as written."""


def class_of(obj: wire.DeviceClass) -> Class:
    """Read a class.

    Raises:
        ValueError: a selector has no expression.
    """
    expressions = tuple(each.cel.expression if each.cel else "" for each in obj.spec.selectors or ())
    if "" in expressions:
        raise ValueError("spec.selectors: a selector has no CEL expression: give it cel.expression")
    extended, created = obj.spec.extended_resource_name or "", obj.metadata.creation_timestamp or ""
    return Class(obj.name, expressions, tuple(obj.spec.config or ()), extended, created)
