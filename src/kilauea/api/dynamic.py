"""The kinds of dynamic resource allocation: devices of nodes, device classes, and claims.

The types hold what `resource.k8s.io/v1`, `v1beta2` and `v1beta1` write: the oldest has the fields of a request beside
its name and those of a device under `basic`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kilauea.api.core import NodeSelector, Taint, Toleration
from kilauea.api.meta import Condition, Object, ObjectMeta, ResourceMap, Wire

EXACT_COUNT, ALL = "ExactCount", "All"
"""Modes of allocation."""
FINALIZER = "resource.kubernetes.io/delete-protection"
"""Keeps a claim that is being deleted until its devices are given back."""
CLAIM_OF_POD = "resource.kubernetes.io/pod-claim-name"
"""Annotation of claims that were made from a template: the name that the pod has for it."""
EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""Annotation, `true`, of the claim that a scheduler makes for the extended resources of a pod."""
OF_EXTENDED_RESOURCES = "-extended-resources-"
"""Follows the name of the pod in the name of that claim."""
MOST_CONSUMERS = 256
"""This many pods may use a claim at a time."""
MOST_EXPRESSION = 10 * 1024
"""Length of the longest selector, in characters."""

# --- what is asked


class CELSelector(Wire):
    """An expression over one device."""

    expression: str = ""


class DeviceToleration(Toleration):
    """A taint of devices that a request stands, maybe only for some seconds after it was added."""

    toleration_seconds: int | None = None


class DeviceSelector(Wire):
    """One selector; all selectors of a request must be true for a device."""

    cel: CELSelector | None = None


class CapacityRequirements(Wire):
    """The least that a device must have."""

    requests: ResourceMap | None = None


class DeviceSubRequest(Wire):
    """One way to satisfy a request."""

    name: str = ""
    device_class_name: str = ""
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str | None = None
    count: int | None = None
    admin_access: bool | None = None
    tolerations: list[DeviceToleration] | None = None
    capacity: CapacityRequirements | None = None


class DeviceRequest(DeviceSubRequest):
    """A request of a claim: exactly this, or the first that can be had. `v1beta1` has the exact one's fields here."""

    exactly: DeviceSubRequest | None = None
    first_available: list[DeviceSubRequest] | None = None


class DeviceConstraint(Wire):
    """An attribute that the devices of some requests (of all, if none is named) have in common, or must not have."""

    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceConfiguration(Wire):
    """Parameters for a driver, which are handed on unread."""

    requests: list[str] | None = None
    opaque: dict[str, Any] | None = None


class DeviceClaim(Wire):
    """`spec.devices` of a claim."""

    requests: list[DeviceRequest] | None = None
    constraints: list[DeviceConstraint] | None = None
    config: list[DeviceConfiguration] | None = None


class ResourceClaimSpec(Wire):
    """`spec` of a claim."""

    devices: DeviceClaim | None = None


# --- what was given


class AllocatedDevice(Wire):
    """A device that a request got."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: list[DeviceToleration] | None = None
    share_id: str | None = msgspec.field(name="shareID", default=None)
    """The share of a device that several claims use."""
    consumed_capacity: ResourceMap | None = None
    """Amounts that the share takes of the device."""
    binding_conditions: list[str] | None = None
    """Conditions of the device in the claim's status that must be true before a pod is bound."""
    binding_failure_conditions: list[str] | None = None
    """Conditions of which none may be true."""


class AllocatedConfiguration(DeviceConfiguration):
    """Parameters for a driver, and whether the class or the claim has them."""

    source: str = ""


class AllocatedDevices(Wire):
    """Devices of a claim, and parameters for their drivers."""

    results: list[AllocatedDevice] | None = None
    config: list[AllocatedConfiguration] | None = None


class Allocation(Wire):
    """`status.allocation` of a claim."""

    devices: AllocatedDevices = msgspec.field(default_factory=AllocatedDevices)
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None
    """Time of the allocation, from which on binding conditions have time to become true."""


class AllocatedDeviceStatus(Wire):
    """Report of a driver about a device of a claim."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(name="shareID", default=None)
    conditions: list[Condition] | None = None


class Consumer(Wire):
    """One entry of `status.reservedFor`."""

    api_group: str | None = None
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(Wire):
    """`status` of a claim."""

    allocation: Allocation | None = None
    reserved_for: list[Consumer] | None = None
    devices: list[AllocatedDeviceStatus] | None = None


class ResourceClaim(Object):
    """A claim on devices."""

    spec: ResourceClaimSpec = msgspec.field(default_factory=ResourceClaimSpec)
    status: ResourceClaimStatus | None = None


class ResourceClaimTemplateSpec(Wire):
    """Labels, annotations and `spec` of the claims that are made from a template."""

    metadata: ObjectMeta | None = None
    spec: ResourceClaimSpec = msgspec.field(default_factory=ResourceClaimSpec)


class ResourceClaimTemplate(Object):
    """The form of the claim that each pod gets for itself."""

    spec: ResourceClaimTemplateSpec = msgspec.field(default_factory=ResourceClaimTemplateSpec)


# --- what there is


class DeviceClassSpec(Wire):
    """`spec` of a class."""

    selectors: list[DeviceSelector] | None = None
    config: list[DeviceConfiguration] | None = None
    extended_resource_name: str | None = None
    """The extended resource that devices of the class serve, on nodes that do not offer it themselves."""


class DeviceClass(Object):
    """Devices that selectors choose, under a name."""

    spec: DeviceClassSpec = msgspec.field(default_factory=DeviceClassSpec)


class DeviceAttribute(Wire):
    """A property of a device; one of the fields is set."""

    int_: int | None = msgspec.field(name="int", default=None)
    bool_: bool | None = msgspec.field(name="bool", default=None)
    string: str | None = None
    version: str | None = None


class CapacityRange(Wire):
    """The least and the most that a claim may take of a capacity, and the step from the least on."""

    min: str | int | float | None = None
    max: str | int | float | None = None
    step: str | int | float | None = None


class CapacityRequestPolicy(Wire):
    """The amounts of a capacity that a claim may take of a device that several claims share."""

    default: str | int | float | None = None
    valid_values: list[str | int | float] | None = None
    valid_range: CapacityRange | None = None


class DeviceCapacity(Wire):
    """An amount that a device has."""

    value: str | int | float = 0
    request_policy: CapacityRequestPolicy | None = None


class Counter(Wire):
    """An amount of something that the devices of a pool share."""

    value: str | int | float = 0


class CounterSet(Wire):
    """Counters under a name."""

    name: str = ""
    counters: dict[str, Counter] | None = None


class CounterConsumption(Wire):
    """The amounts that a device takes of a set of counters while it is in use."""

    counter_set: str = ""
    counters: dict[str, Counter] | None = None


class BasicDevice(Wire):
    """Properties of a device."""

    attributes: dict[str, DeviceAttribute] | None = None
    capacity: dict[str, DeviceCapacity] | None = None
    consumes_counters: list[CounterConsumption] | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: list[Taint] | None = None
    allow_multiple_allocations: bool | None = None
    binds_to_node: bool | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None


class Device(BasicDevice):
    """A device of a slice; `v1beta1` has its properties under `basic`."""

    name: str = ""
    basic: BasicDevice | None = None


class ResourcePool(Wire):
    """The pool that a slice is part of."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class ResourceSliceSpec(Wire):
    """`spec` of a slice."""

    driver: str = ""
    pool: ResourcePool = msgspec.field(default_factory=ResourcePool)
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: list[Device] | None = None
    shared_counters: list[CounterSet] | None = None


class ResourceSlice(Object):
    """Devices that a driver offers on a node, or on several."""

    spec: ResourceSliceSpec = msgspec.field(default_factory=ResourceSliceSpec)


class DeviceTaintSelector(Wire):
    """Devices by the names of their driver, pool and device, as far as they are stated."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    device_class_name: str | None = None
    """In `v1alpha3` only, as the next field."""
    selectors: list[DeviceSelector] | None = None


class DeviceTaintRuleSpec(Wire):
    """`spec` of a rule for taints."""

    device_selector: DeviceTaintSelector | None = None
    taint: Taint = msgspec.field(default_factory=Taint)


class DeviceTaintRule(Object):
    """A taint that an administrator puts on devices."""

    spec: DeviceTaintRuleSpec = msgspec.field(default_factory=DeviceTaintRuleSpec)
