"""Checks of the resources of pods and containers: amounts, claims, and resize policies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction
from typing import Any

from kilauea.api.names import label_problems, qualified_name_problems, subdomain_problems
from kilauea.apiserver.fields import (
    check_name,
    duplicate,
    forbidden_field,
    invalid_value,
    missing_reference,
    not_supported,
    required,
)
from kilauea.apiserver.schema.scalars import quantity
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object
from kilauea.apiserver.strategies.quantities import NEGATIVE, amount
from kilauea.apiserver.strategies.quotas import COUNTED_RESOURCES, STANDARD_RESOURCES

Amounts = Mapping[str, str]

LONGEST_NAMES = 1024
"""Characters of the names that an error lists."""
_MOST, _MOST_AMOUNTS, _LONGEST = 4096, 16, 256
_VALID: set[tuple[tuple[str, str] | None, ...]] = set()
"""Valid requests and limits of containers, since most containers have the same as others."""
_HUGE = "hugepages-"
_OF_CONTAINERS = frozenset(("cpu", "memory", "ephemeral-storage"))
_OF_PODS = ("cpu", _HUGE, "memory")
_STANDARD = STANDARD_RESOURCES | {"storage"}
_NO_LIMIT = "Limit must be set for non overcommitable resources"
_ALONE = "HugePages require cpu or memory"
_RESIZES = ("NotRequired", "RestartContainer")
_RESIZED = ("cpu", "memory")


def check_resources(path: str, resources: Object, claims: Collection[str]) -> list[Cause]:
    """Check the requests and limits of a container.

    Args:
        path: the path of the resources.
        resources: requests, limits and claims.
        claims: the names of the claims of the pod.
    """
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    amounts = (*requests.items(), None, *limits.items())
    causes: list[Cause] = []
    if amounts not in _VALID:
        causes += _check_amounts(path, requests, limits)
        if not causes and len(amounts) <= _MOST_AMOUNTS and all(len(each[1]) <= _LONGEST for each in amounts if each):
            if len(_VALID) >= _MOST:
                _VALID.clear()
            _VALID.add(amounts)
    if resources.get("claims"):
        causes += _check_used_claims(f"{path}.claims", resources["claims"], claims)
    return causes


def _check_amounts(path: str, requests: Amounts, limits: Amounts) -> list[Cause]:
    causes = [cause for name, text in limits.items() for cause in _check_amount(f"{path}.limits[{name}]", name, text)]
    for name, text in requests.items():
        causes += _check_amount(f"{path}.requests[{name}]", name, text)
        causes += _check_limit(path, name, text, limits.get(name))
        if name.startswith(_HUGE):
            causes += _check_pages(f"{path}.requests[{name}]", name, text)
    return [*causes, *_check_huge(path, requests, limits)]


def _check_amount(path: str, name: str, text: str) -> Iterator[Cause]:
    """Check the name and the amount of one resource of a container."""
    yield from check_container_resource(path, name)
    yield from check_number(path, name, text)
    if name.startswith(_HUGE) and ".limits[" in path:
        yield from _check_pages(path, name, text)


def check_container_resource(path: str, name: str) -> Iterator[Cause]:
    """Check that containers can request a resource."""
    yield from check_resource_name(path, name)
    if "/" not in name:
        if name not in _OF_CONTAINERS and not name.startswith(_HUGE):
            yield invalid_value(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        yield invalid_value(path, name, "doesn't follow extended resource name standard")


def check_resource_name(path: str, name: str) -> Iterator[Cause]:
    """Check the name of any resource."""
    problems = qualified_name_problems(name)
    yield from check_name(path, name, problems)
    if "/" not in name and not problems and name not in _STANDARD and not _is_huge(name):
        yield invalid_value(path, name, "must be a standard resource type or fully qualified")


def _is_huge(name: str) -> bool:
    return name.startswith((_HUGE, f"requests.{_HUGE}"))


def is_native(name: str) -> bool:
    """Return True if a resource is native to Kubernetes."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Return True for an extended resource, which nodes advertise, such as devices."""
    return not is_native(name) and not name.startswith("requests.") and not qualified_name_problems(f"requests.{name}")


def check_number(path: str, name: str, text: str) -> Iterator[Cause]:
    """Check that an amount is not negative, and an integer if the resource is counted."""
    number = amount(text) or Fraction(0)
    if number < 0:
        yield invalid_value(path, text, NEGATIVE)
    if (name in COUNTED_RESOURCES or is_extended(name)) and number.denominator != 1:
        yield invalid_value(path, text, "must be an integer")


def _check_pages(path: str, name: str, text: str) -> Iterator[Cause]:
    """Check that huge pages are requested as whole pages."""
    page, number = amount(name.removeprefix(_HUGE)), amount(text)
    if page is None or number is None or number <= 0 or number % page:
        yield invalid_value(path, text, f"{text} is not positive integer multiple of {name}")


def _check_limit(path: str, name: str, text: str, limit: str | None) -> Iterator[Cause]:
    """Check that a request does not exceed its limit, and equals it if the resource cannot be overcommitted."""
    shared = is_native(name) and not name.startswith(_HUGE)
    if limit is None:
        if not shared:
            yield required(f"{path}.limits", _NO_LIMIT)
        return
    asked, most = amount(text), amount(limit)
    if text == limit or asked is None or most is None or asked == most:
        return
    if not shared:
        yield invalid_value(f"{path}.requests", text, f"must be equal to {name} limit of {limit}")
    elif asked > most:
        yield invalid_value(f"{path}.requests", text, f"must be less than or equal to {name} limit of {limit}")


def _check_huge(path: str, requests: Amounts, limits: Amounts) -> Iterator[Cause]:
    names = requests.keys() | limits.keys()
    if names.isdisjoint(_RESIZED) and any(name.startswith(_HUGE) for name in names):
        yield forbidden_field(path, _ALONE)


def _check_used_claims(path: str, used: list[Object], claims: Collection[str]) -> Iterator[Cause]:
    """Check the claims that a container uses: each request at most once."""
    seen: set[str] = set()
    parts: Counter[str] = Counter()
    """The number of requests of each claim that are used by themselves."""
    known = _some_of(claims)
    for number, each in enumerate(used):
        name, request, where = each.get("name", ""), each.get("request") or "", f"{path}[{number}]"
        if not name:
            yield required(where)
            continue
        if name in seen:
            yield duplicate(where, name)
        else:
            key = f"{name}/{request}" if request else name
            yield from check_name(f"{where}.request", request, label_problems(request) if request else ())
            if key in seen:
                yield duplicate(where, key)
            elif not request:
                yield from (duplicate(where, name) for _ in range(parts[name]))
            if request and key not in seen:
                parts[name] += 1
            seen.add(key)
        if name not in claims:
            cause = missing_reference(where, name)
            yield cause._replace(message=f"{cause.message}: must be one of the names in pod.spec.resourceClaims{known}")


def _some_of(claims: Collection[str]) -> str:
    """Return the names of claims for an error, of which thousands of claims may each have one."""
    if not claims:
        return " which is empty"
    text = ", ".join(sorted(claims))
    return f": {text}" if len(text) <= LONGEST_NAMES else f": {text[:LONGEST_NAMES]}..."


def check_pod_claims(path: str, claims: list[Object]) -> Iterator[Cause]:
    """Check the claims of a pod: each names an existing object or a template."""
    seen: set[str] = set()
    for number, claim in enumerate(claims):
        name, where = claim.get("name", ""), f"{path}[{number}]"
        sources = {field: claim.get(field) for field in ("resourceClaimName", "resourceClaimTemplateName")}
        given = [field for field, value in sources.items() if value is not None]
        told = {field[0].upper() + field[1:]: value for field, value in {"name": name, **sources}.items()}
        if not name:
            yield required(f"{where}.name")
        elif name in seen:
            yield duplicate(f"{where}.name", name)
        else:
            yield from check_name(f"{where}.name", name, label_problems(name))
            seen.add(name)
        if len(given) > 1:
            message = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            yield invalid_value(where, told, message)
        if not given:
            message = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            yield invalid_value(where, told, message)
        for field in given:
            yield from check_name(f"{where}.{field}", sources[field], subdomain_problems(str(sources[field])))


def check_resizes(path: str, policies: list[Object], restart: Any) -> Iterator[Cause]:
    """Check the resize policies, in a pod with this restart policy."""
    seen: set[str] = set()
    for number, policy in enumerate(policies):
        name, then = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in seen:
            yield duplicate(f"{path}[{number}]", name)
        seen.add(name)
        for word, allowed in ((name, _RESIZED), (then, _RESIZES)):
            if not word:
                yield required(path)
            elif word not in allowed:
                yield not_supported(path, word, allowed)
        if restart == "Never" and then != "NotRequired":
            yield invalid_value(path, then, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


def check_amounts_of_pod(path: str, spec: Object) -> Iterator[Cause]:
    """Check pod-level requests and limits, which must cover those of the containers."""
    resources = spec["resources"]
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    if resources.get("claims") is not None:
        yield forbidden_field(f"{path}.claims", "claims may not be set for Resources at pod-level")
    for side, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            where = f"{path}.{side}[{name}]"
            problems = [*check_resource_name(where, name)]
            yield from problems
            if name not in _RESIZED and not name.startswith(_HUGE):
                if not problems:
                    yield not_supported(where, name, _OF_PODS)
                yield from check_number(where, name, text)
                if side == "requests":
                    yield from _check_limit(path, name, text, limits.get(name))
                continue
            yield from check_number(where, name, text)
            if name.startswith(_HUGE):
                yield from _check_pages(where, name, text)
            if side == "requests":
                yield from _check_limit(path, name, text, limits.get(name))
    yield from _check_huge(path, requests, limits)
    if resources.get("claims") is not None:
        names = {claim.get("name", "") for claim in spec.get("resourceClaims") or ()} - {""}
        yield from _check_used_claims(f"{path}.claims", resources["claims"], names)
    for name, text in requests.items():
        needed, most = _needed(spec, name), amount(text)
        if needed is not None and most is not None and most < needed:
            message = f"must be greater than or equal to aggregate container requests of {_text(spec, name, needed)}"
            yield invalid_value(f"{path}.requests[{name}]", text, message)
    for number, container in enumerate(spec.get("containers") or ()):
        for name, text in ((container.get("resources") or {}).get("limits") or {}).items():
            own, whole = amount(text), amount(limits.get(name, ""))
            if own is not None and whole is not None and own > whole:
                message = f"must be less than or equal to pod limits of {limits[name]}"
                yield invalid_value(f"{path}.containers[{number}][{name}].limits", text, message)


def _needed(spec: Object, name: str) -> Fraction | None:
    """Return the sum of the requests of the containers of a pod; None if they request nothing."""
    found = [
        amount(text)
        for container in spec.get("containers") or ()
        for text in [((container.get("resources") or {}).get("requests") or {}).get(name)]
        if text is not None
    ]
    return sum((each for each in found if each is not None), Fraction(0)) if found else None


def _text(spec: Object, name: str, needed: Fraction) -> str:
    """Return a sum as text, in the container's notation if a single one requests all of it."""
    for container in spec.get("containers") or ():
        text = ((container.get("resources") or {}).get("requests") or {}).get(name)
        if text is not None and amount(text) == needed:
            return str(text)
    return quantity(str(needed.numerator) if needed.denominator == 1 else f"{needed * 1000}m")
