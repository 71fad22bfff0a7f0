"""Validation of claims, as in the real server: requests, constraints, parameters and allocations."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from kilauea.api.cel import CelError
from kilauea.api.cel.typing import BOOL, DYN, STRING, check_expression, map_of, object_of
from kilauea.api.device_selectors import device_matcher
from kilauea.api.dynamic import ALL, EXACT_COUNT, MOST_CONSUMERS, MOST_EXPRESSION
from kilauea.api.names import label_problems, label_value_problems, qualified_name_problems, subdomain_problems
from kilauea.apiserver.fields import check_name, duplicate, forbidden_field, invalid_value, not_supported, required
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.placement import check_node_selector

Object = Mapping[str, Any]

MOST_REQUESTS = MOST_CONSTRAINTS = MOST_CONFIGURATIONS = MOST_SELECTORS = MOST_RESULTS = 32
MOST_ALTERNATIVES = 8
MOST_DRIVER_NAME, MOST_POOL_NAME, MOST_IDENTIFIER = 63, 253, 32
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IDENTIFIER_WORDS = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)
EFFECTS = ("NoExecute", "NoSchedule", "None")
_REFERENCE = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"


def too_many(path: str, count: int, most: int) -> Cause:
    """Return the error for a list that is too long."""
    return Cause(path, "FieldValueTooMany", f"Too many: {count}: must have at most {most} items")


def too_long(path: str, most: int) -> Cause:
    """Return the error for a string that is too long."""
    return Cause(path, "FieldValueTooLong", f"Too long: may not be more than {most} bytes")


def check_items(
    path: str,
    items: Sequence[Any] | None,
    most: int,
    check: Callable[[str, Any], list[Cause]],
    key: Callable[[Any], Any] | None = None,
) -> list[Cause]:
    """Check the length of a list, each item, and that keys are unique."""
    items = items or ()
    if most >= 0 and len(items) > most:
        return [too_many(path, len(items), most)]
    causes = [cause for number, item in enumerate(items) for cause in check(f"{path}[{number}]", item)]
    known = []
    for number, item in enumerate(items if key else ()):
        name = key(item) if key else None
        if name in known:
            causes.append(duplicate(f"{path}[{number}]", name))
        known.append(name)
    return causes


def check_label(path: str, text: str) -> list[Cause]:
    """Check that a name is a DNS label."""
    return check_name(path, text, label_problems(text))


def check_driver(path: str, text: str) -> list[Cause]:
    """Check the name of a driver."""
    if not text:
        return [required(path)]
    if len(text) > MOST_DRIVER_NAME:
        return [too_long(path, MOST_DRIVER_NAME), *check_name(path, text, subdomain_problems(text.lower()))]
    return check_name(path, text, subdomain_problems(text.lower()))


def check_key(path: str, text: str) -> list[Cause]:
    """Check a name in the format of label keys."""
    return check_name(path, text, qualified_name_problems(text))


# --- specifications


def check_claim(path: str, spec: Object) -> list[Cause]:
    """Return the errors in the specification of a claim."""
    devices = spec.get("devices") or {}
    names = _request_names(devices.get("requests") or ())
    place = f"{path}.devices"
    return [
        *check_items(f"{place}.requests", devices.get("requests"), MOST_REQUESTS, _check_request, _name),
        *check_items(
            f"{place}.constraints", devices.get("constraints"), MOST_CONSTRAINTS, lambda p, c: _constraint(p, c, names)
        ),
        *check_items(f"{place}.config", devices.get("config"), MOST_CONFIGURATIONS, lambda p, c: _config(p, c, names)),
    ]


def _name(item: Object) -> str:
    return str(item.get("name") or "")


def _request_names(requests: Iterable[Object]) -> set[str]:
    """Return the names that constraints and parameters may use: those of requests and `request/alternative`."""
    names = set()
    for request in requests:
        names.add(_name(request))
        names |= {f"{_name(request)}/{_name(way)}" for way in request.get("firstAvailable") or ()}
    return names


def _check_request(path: str, request: Object) -> list[Cause]:
    causes = check_label(f"{path}.name", _name(request))
    exactly, first = request.get("exactly"), request.get("firstAvailable")
    message = "exactly one of `exactly` or `firstAvailable` is required"
    if exactly is None and not first:
        causes.append(required(path, message))
    elif exactly is not None and first:
        causes.append(invalid_value(path, None, f"{message}, but multiple fields are set"))
    elif exactly is not None:
        causes += _check_way(f"{path}.exactly", exactly)
    else:
        causes += check_items(f"{path}.firstAvailable", first, MOST_ALTERNATIVES, _check_alternative, _name)
    return causes


def _check_alternative(path: str, way: Object) -> list[Cause]:
    return [*check_label(f"{path}.name", _name(way)), *_check_way(path, way)]


def _check_way(path: str, way: Object) -> list[Cause]:
    of = way.get("deviceClassName") or ""
    place = f"{path}.deviceClassName"
    causes = check_name(place, of, subdomain_problems(of)) if of else [required(place)]
    causes += check_selectors(f"{path}.selectors", way.get("selectors"))
    mode, count = way.get("allocationMode", ""), way.get("count") or 0
    if mode not in (EXACT_COUNT, ALL):
        causes.append(not_supported(f"{path}.allocationMode", mode, (ALL, EXACT_COUNT)))
    elif mode == ALL and count:
        causes.append(invalid_value(f"{path}.count", count, f"must not be specified when allocationMode is '{ALL}'"))
    elif mode == EXACT_COUNT and count <= 0:
        causes.append(invalid_value(f"{path}.count", count, "must be greater than zero"))
    for number, each in enumerate(way.get("tolerations") or ()):
        causes += _check_toleration(f"{path}.tolerations[{number}]", each)
    return causes


def check_selectors(path: str, selectors: Sequence[Any] | None) -> list[Cause]:
    """Check selectors of devices."""
    return check_items(path, selectors, MOST_SELECTORS, _check_selector)


def _check_selector(path: str, selector: Object) -> list[Cause]:
    if not selector.get("cel"):
        return [required(f"{path}.cel")]
    expression, place = selector["cel"].get("expression", ""), f"{path}.cel.expression"
    if len(expression) > MOST_EXPRESSION:
        return [too_long(place, MOST_EXPRESSION)]
    try:
        found = str(check_expression(expression, _SCOPE).type)
        device_matcher(expression)
    except CelError as error:
        return [invalid_value(place, expression, str(error))]
    if found not in _SELECTING:
        told = found.replace("dyn", "google.protobuf.Any")
        return [invalid_value(place, expression, f"must evaluate to bool or the unknown type, not {told}")]
    return []


_PROPERTIES = map_of(STRING, map_of(STRING, DYN))
_DEVICE = {
    "driver": STRING,
    "allowMultipleAllocations": BOOL,
    "attributes": _PROPERTIES,
    "capacity": map_of(STRING, map_of(STRING, object_of("kubernetes.Quantity", {}))),
}
_SCOPE = {"device": object_of("kubernetes.DRADevice", _DEVICE)}
_SELECTING = ("bool", "dyn")


def _check_toleration(path: str, toleration: Object) -> list[Cause]:
    key, value, effect = (toleration.get(name) or "" for name in ("key", "value", "effect"))
    causes = check_key(f"{path}.key", key) if key else []
    operator = toleration.get("operator") or ""
    if operator == "Exists" and value:
        causes.append(invalid_value(f"{path}.value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        causes += check_name(f"{path}.value", value, label_value_problems(value))
    elif not operator:
        causes.append(required(f"{path}.operator"))
    elif operator != "Exists":
        causes.append(not_supported(f"{path}.operator", operator, ("Equal", "Exists")))
    if effect and effect not in EFFECTS:
        causes.append(not_supported(f"{path}.effect", effect, EFFECTS))
    return causes


def _constraint(path: str, constraint: Object, names: Collection[str]) -> list[Cause]:
    causes = _references(f"{path}.requests", constraint.get("requests"), names)
    for kind in ("matchAttribute", "distinctAttribute"):
        if constraint.get(kind) is not None:
            return causes + _check_attribute(f"{path}.{kind}", constraint[kind])
    message = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
    return [*causes, required(path, message)]


def _check_attribute(path: str, name: str) -> list[Cause]:
    causes = check_property(path, name)
    if "/" not in name:
        message = "a fully qualified name must be a domain and a name separated by a slash"
        causes.append(invalid_value(path, name, message))
    return causes


def check_property(path: str, name: str) -> list[Cause]:
    """Check the name of an attribute or a capacity: an identifier with an optional domain."""
    domain, slash, identifier = name.rpartition("/")
    causes = check_driver(path, domain) if domain else []
    if slash and not domain:
        causes.append(invalid_value(path, "", "the domain must not be empty"))
    if slash and not identifier:
        return [*causes, invalid_value(path, "", "the name must not be empty")]
    if len(identifier) > MOST_IDENTIFIER:
        causes.append(too_long(path, MOST_IDENTIFIER))
    if not _IDENTIFIER.fullmatch(identifier):
        causes.append(invalid_value(path, identifier, _IDENTIFIER_WORDS))
    return causes


def _references(path: str, named: Sequence[str] | None, names: Collection[str]) -> list[Cause]:
    return check_items(path, named, MOST_REQUESTS, lambda p, name: _reference(p, name, names), str)


def _reference(path: str, name: str, names: Collection[str]) -> list[Cause]:
    causes = [cause for part in name.split("/") for cause in check_label(path, part)] if name.count("/") < 2 else []
    return causes if name in names else [*causes, invalid_value(path, name, _REFERENCE)]


def _config(path: str, config: Object, names: Collection[str]) -> list[Cause]:
    return [*_references(f"{path}.requests", config.get("requests"), names), *check_parameters(path, config)]


def check_parameters(path: str, config: Object) -> list[Cause]:
    """Check parameters for a driver."""
    if config.get("opaque") is None:
        return [required(f"{path}.opaque")]
    place, parameters = f"{path}.opaque", config["opaque"].get("parameters")
    causes = check_driver(f"{place}.driver", config["opaque"].get("driver") or "")
    if parameters is None:
        return [*causes, required(f"{place}.parameters")]
    if not isinstance(parameters, dict):
        causes.append(invalid_value(f"{place}.parameters", "<value omitted>", "must be a valid JSON object"))
    return causes


# --- status


def check_claim_status(path: str, claim: Object, old: Object) -> list[Cause]:
    """Return the errors in a change of the status of a claim."""
    status, before = claim.get("status") or {}, old.get("status") or {}
    causes = check_items(f"{path}.reservedFor", status.get("reservedFor"), MOST_CONSUMERS, _check_consumer, _uid)
    had, has = before.get("allocation"), status.get("allocation")
    if status.get("reservedFor") and has is None:
        causes.append(forbidden_field(f"{path}.reservedFor", "may not be specified when `allocated` is not set"))
    elif claim["metadata"].get("deletionTimestamp"):
        known = before.get("reservedFor") or []
        if any(each not in known for each in status.get("reservedFor") or ()):
            message = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            causes.append(forbidden_field(f"{path}.reservedFor", message))
    if had is not None and has is not None:
        return causes if had == has else [*causes, invalid_value(f"{path}.allocation", has, "field is immutable")]
    return causes if has is None else causes + _check_allocation(f"{path}.allocation", has, claim)


def _uid(consumer: Object) -> str:
    return str(consumer.get("uid") or "")


def _check_consumer(path: str, consumer: Object) -> list[Cause]:
    return [required(f"{path}.{name}") for name in ("resource", "name", "uid") if not consumer.get(name)]


def _check_allocation(path: str, allocation: Object, claim: Object) -> list[Cause]:
    names = _request_names(((claim.get("spec") or {}).get("devices") or {}).get("requests") or ())
    devices = allocation.get("devices") or {}
    causes = check_items(
        f"{path}.devices.results", devices.get("results"), MOST_RESULTS, lambda p, r: _check_result(p, r, names)
    )
    causes += check_items(
        f"{path}.devices.config",
        devices.get("config"),
        2 * MOST_CONFIGURATIONS,
        lambda p, c: [*_check_source(p, c), *_config(p, c, names)],
    )
    selector = allocation.get("nodeSelector")
    return causes if selector is None else causes + check_node_selector(f"{path}.nodeSelector", selector)


def _check_result(path: str, result: Object, names: Collection[str]) -> list[Cause]:
    pool = result.get("pool") or ""
    return [
        *_reference(f"{path}.request", result.get("request") or "", names),
        *check_driver(f"{path}.driver", result.get("driver") or ""),
        *check_pool(f"{path}.pool", pool),
        *check_label(f"{path}.device", result.get("device") or ""),
    ]


def check_pool(path: str, name: str) -> list[Cause]:
    """Check the name of a pool: DNS subdomains separated by slashes."""
    if not name:
        return [required(path)]
    causes = [too_long(path, MOST_POOL_NAME)] if len(name) > MOST_POOL_NAME else []
    return causes + [cause for part in name.split("/") for cause in check_name(path, part, subdomain_problems(part))]


def _check_source(path: str, config: Object) -> list[Cause]:
    source = config.get("source") or ""
    if not source:
        return [required(f"{path}.source")]
    if source not in ("FromClaim", "FromClass"):
        return [not_supported(f"{path}.source", source, ("FromClaim", "FromClass"))]
    return []
