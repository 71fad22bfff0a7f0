"""Table cells of endpoints, ingresses, autoscalers, signing requests and small cluster-scoped kinds."""

from __future__ import annotations

from typing import Any

from kilauea.api.ages import age, human_duration
from kilauea.apiserver.stored_forms.autoscaling import FirstAutoscalers
from kilauea.apiserver.tables.columns import NONE, Object, part, selector_text

UNSET = "<unset>"
_SHOWN = 3
_ADDRESS_WIDTH = 16
_METRICS = {"Resource": "resource", "ContainerResource": "containerResource", "Pods": "pods", "Object": "object"}


def _some(values: list[str], nothing: str) -> str:
    """Return the first values, and the number of others."""
    text = ",".join(values[:_SHOWN]) or nothing
    return f"{text} + {len(values) - _SHOWN} more..." if len(values) > _SHOWN else text


def endpoints(obj: Object, now: int) -> list[Any]:
    """Cells of endpoints: addresses with ports."""
    found: list[str] = []
    for subset in obj.get("subsets") or []:
        hosts = [each.get("ip", "") for each in subset.get("addresses") or []]
        ports = subset.get("ports") or []
        found += [_joined(host, port.get("port", 0)) for port in ports for host in hosts] if ports else hosts
    return [_some(found, NONE), age(obj, now)]


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def endpoint_slice(obj: Object, now: int) -> list[Any]:
    """Cells of an endpoint slice: address type, ports and addresses."""
    ports = [str(each["port"] if each.get("port") is not None else each.get("name", "*")) for each in _ports(obj)]
    hosts = [host for each in obj.get("endpoints") or [] for host in each.get("addresses") or []]
    return [obj.get("addressType", ""), _some(ports, UNSET), _some(hosts, UNSET), age(obj, now)]


def _ports(obj: Object) -> list[Object]:
    return obj.get("ports") or []


def replication_controller(obj: Object, now: int) -> list[Any]:
    """Cells of a replication controller: desired, current and ready pods."""
    spec, state = obj.get("spec") or {}, obj.get("status") or {}
    counts = [spec.get("replicas", 0), state.get("replicas", 0), state.get("readyReplicas", 0)]
    return [*counts, age(obj, now), *_containers(spec), _labels(spec.get("selector"))]


def pod_template(obj: Object, now: int) -> list[Any]:
    """Cells of a pod template: containers, images and labels."""
    return [*_containers(obj), _labels(part(obj, "template", "metadata", "labels"))]


def _containers(spec: Object) -> list[str]:
    containers = part(spec, "template", "spec", "containers") or []
    return [",".join(each.get(key, "") for each in containers) for key in ("name", "image")]


def _labels(labels: Object | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def autoscaler(obj: Object, now: int) -> list[Any]:
    """Cells of an autoscaler: workload, metrics with targets, bounds and replicas."""
    obj = FirstAutoscalers().stored(obj)
    spec, state = obj.get("spec") or {}, obj.get("status") or {}
    target = spec.get("scaleTargetRef") or {}
    least = str(spec["minReplicas"]) if spec.get("minReplicas") is not None else UNSET
    shown = _metrics(spec.get("metrics") or [], state.get("currentMetrics") or [])
    reference = f"{target.get('kind', '')}/{target.get('name', '')}"
    return [reference, shown, least, spec.get("maxReplicas", 0), state.get("currentReplicas", 0), age(obj, now)]


def _metrics(specs: list[Object], states: list[Object]) -> str:
    """Return each metric as `current/target`; at most two."""
    if not specs:
        return NONE
    texts = [_metric(spec, states[number] if number < len(states) else {}) for number, spec in enumerate(specs)]
    shown = ", ".join(texts[:2])
    return f"{shown} + {len(texts) - 2} more..." if len(texts) > 2 else shown


def _metric(spec: Object, state: Object) -> str:
    field = _METRICS.get(spec.get("type", ""), "external")
    source, current = spec.get(field) or {}, part(state, field, "current") or {}
    target = source.get("target") or {}
    if field in ("resource", "containerResource"):
        if target.get("averageValue") is not None:
            return f"{source.get('name')}: {current.get('averageValue', '<unknown>')}/{target['averageValue']}"
        share, wanted = current.get("averageUtilization"), target.get("averageUtilization")
        shown = "<unknown>" if share is None else f"{share}%"
        return f"{source.get('name')}: {shown}/{'<auto>' if wanted is None else f'{wanted}%'}"
    if field == "pods":
        return f"{current.get('averageValue', '<unknown>')}/{target.get('averageValue')}"
    if target.get("averageValue") is not None:
        return f"{current.get('averageValue', '<unknown>')}/{target['averageValue']} (avg)"
    return f"{current.get('value', '<unknown>')}/{target.get('value')}"


def ingress(obj: Object, now: int) -> list[Any]:
    """Cells of an ingress: class, hosts, addresses and ports."""
    spec = obj.get("spec") or {}
    hosts = [each["host"] for each in spec.get("rules") or [] if each.get("host")]
    given = part(obj, "status", "loadBalancer", "ingress") or []
    address = ",".join(sorted({each.get("ip") or each.get("hostname") or "" for each in given} - {""}))
    if len(address) > _ADDRESS_WIDTH:
        address = address[: _ADDRESS_WIDTH - 3] + "..."
    ports = "80, 443" if spec.get("tls") else "80"
    return [spec.get("ingressClassName") or NONE, _some(hosts, "*"), address, ports, age(obj, now)]


def ingress_class(obj: Object, now: int) -> list[Any]:
    """Cells of an ingress class: controller and parameters."""
    spec = obj.get("spec") or {}
    given = spec.get("parameters")
    text = NONE
    if given:
        group = f".{given['apiGroup']}" if given.get("apiGroup") else ""
        text = f"{given.get('kind', '')}{group}/{given.get('name', '')}"
    return [spec.get("controller", ""), text, age(obj, now)]


def runtime_class(obj: Object, now: int) -> list[Any]:
    """Cells of a runtime class: handler."""
    return [obj.get("handler", ""), age(obj, now)]


def volume_attributes(obj: Object, now: int) -> list[Any]:
    """Cells of a volume attributes class: driver."""
    return [obj.get("driverName", ""), age(obj, now)]


def ip_address(obj: Object, now: int) -> list[Any]:
    """Cells of an IP address: the object that has it."""
    parent = part(obj, "spec", "parentRef")
    text = NONE
    if parent:
        kind = f"{parent.get('resource', '')}.{parent['group']}" if parent.get("group") else parent.get("resource", "")
        text = "/".join(filter(None, (kind.lower(), parent.get("namespace"), parent.get("name"))))
    return [text, age(obj, now)]


def address_range(obj: Object, now: int) -> list[Any]:
    """Cells of a service CIDR: its ranges."""
    return [",".join(part(obj, "spec", "cidrs") or []), age(obj, now)]


def flow_schema(obj: Object, now: int) -> list[Any]:
    """Cells of a flow schema: level, precedence, and a missing level."""
    spec = obj.get("spec") or {}
    conditions = part(obj, "status", "conditions") or []
    missing = next((each.get("status") for each in conditions if each.get("type") == "Dangling"), "?")
    level, method = part(spec, "priorityLevelConfiguration", "name"), part(spec, "distinguisherMethod", "type")
    return [level or "", spec.get("matchingPrecedence", 0), method or NONE, age(obj, now), missing]


def priority_level(obj: Object, now: int) -> list[Any]:
    """Cells of a priority level: type, shares and queues."""
    limited = part(obj, "spec", "limited")
    shares = NONE if limited is None else limited.get("nominalConcurrencyShares", NONE)
    queuing = part(limited or {}, "limitResponse", "queuing") or {}
    queues = [queuing.get(field, NONE) for field in ("queues", "handSize", "queueLengthLimit")]
    return [part(obj, "spec", "type") or "", shares, *queues, age(obj, now)]


def api_service(obj: Object, now: int) -> list[Any]:
    """Cells of an API service: service and availability."""
    service = part(obj, "spec", "service")
    text = f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"
    conditions = part(obj, "status", "conditions") or []
    found = next((each for each in conditions if each.get("type") == "Available"), None)
    state = "Unknown" if found is None else str(found.get("status"))
    if found is not None and state != "True":
        state += f" ({found.get('reason', '')})"
    return [text, state, age(obj, now)]


def signing_request(obj: Object, now: int) -> list[Any]:
    """Cells of a signing request: signer, author, duration and state."""
    spec = obj.get("spec") or {}
    seconds = spec.get("expirationSeconds")
    duration = NONE if seconds is None else human_duration(seconds)
    return [age(obj, now), spec.get("signerName") or NONE, spec.get("username", ""), duration, _signing_state(obj)]


def _signing_state(obj: Object) -> str:
    kinds = {each.get("type") for each in part(obj, "status", "conditions") or []}
    words = ["Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"]
    words += ["Failed"] if "Failed" in kinds else []
    return ",".join([*words, *(["Issued"] if part(obj, "status", "certificate") else [])])


def admission_policy(obj: Object, now: int) -> list[Any]:
    """Cells of an admission policy: number of rules and kind of parameters."""
    spec = obj.get("spec") or {}
    kind = spec.get("paramKind")
    text = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET
    return [len(spec.get("validations") or spec.get("mutations") or []), text, age(obj, now)]


def policy_binding(obj: Object, now: int) -> list[Any]:
    """Cells of a policy binding: policy and parameters."""
    spec = obj.get("spec") or {}
    given, text = spec.get("paramRef"), UNSET
    if given and given.get("name"):
        text = f"{given.get('namespace') or '*'}/{given['name']}"
    elif given and given.get("selector") is not None:
        text = selector_text(given["selector"])
    return [spec.get("policyName", ""), text, age(obj, now)]
