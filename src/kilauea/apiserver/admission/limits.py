"""LimitRange: default requests and limits of containers, and bounds for containers, pods and claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from kilauea.apiserver.admission import AdmissionStep, forbidden
from kilauea.apiserver.admission.amounts import ONE, ZERO, Amount, Amounts, parse, parse_all
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.admission.pod_resources import container_amounts, pod_amounts
from kilauea.apiserver.admission.view import Derived, Metadata, Record, reader

ANNOTATION = "kubernetes.io/limit-ranger"
_NONE: Mapping[str, str] = {}


class LimitItem(Record, frozen=True):
    """The limits of one type, such as Container."""

    type: str = ""
    max: dict[str, str] | None = None
    min: dict[str, str] | None = None
    default: dict[str, str] | None = None
    default_request: dict[str, str] | None = None
    max_limit_request_ratio: dict[str, str] | None = None


class _Spec(Record, frozen=True):
    limits: list[LimitItem] | None = None


class LimitRange(Record, frozen=True):
    """A LimitRange."""

    metadata: Metadata
    spec: _Spec = _Spec()


_read = reader(LimitRange)


class LimitRanger(AdmissionStep):
    """Sets the defaults of a namespace and enforces its limits."""

    name = "LimitRanger"
    kinds = frozenset({("", "pods"), ("", "persistentvolumeclaims")})

    def __init__(self) -> None:
        self._limits = Derived(_limits_in)

    def mutate(self, attributes: Attributes) -> None:
        """Set missing requests and limits of the containers of a new pod."""
        if attributes.resource.plural == "pods" and _concerns(attributes) and attributes.obj is not None:
            for defaults in self._limits_of(attributes).defaults:
                _fill_in(attributes.obj, defaults)

    def validate(self, attributes: Attributes) -> None:
        """Reject an object outside the limits of a LimitRange, with all violations of that one."""
        if not _concerns(attributes) or attributes.obj is None:
            return
        ranges = self._limits_of(attributes).each
        if not ranges:
            return
        spec = attributes.obj.get("spec") or {}
        is_claim = attributes.resource.plural == "persistentvolumeclaims"
        asked = _claim_asked(spec) if is_claim else _pod_asked(spec)
        for limits in ranges:
            problems = list(dict.fromkeys(words for item in limits for words in _problems(item, asked)))
            if problems:
                raise forbidden(attributes, problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")

    def _limits_of(self, attributes: Attributes) -> _Limits:
        """Return the limits of the namespace."""
        return self._limits.of(attributes.backend.store, f"/core/limitranges/{attributes.namespace}/")


def _concerns(attributes: Attributes) -> bool:
    """Return True for new pods, resized pods and every write of a claim, unless the object is being deleted."""
    resource, subresource = attributes.resource, attributes.subresource
    if resource.group or resource.plural not in ("pods", "persistentvolumeclaims"):
        return False
    if attributes.old is not None and attributes.old["metadata"].get("deletionTimestamp"):
        return False
    if resource.plural == "persistentvolumeclaims":
        return not subresource
    return subresource == "resize" if attributes.operation == "UPDATE" else not subresource


class _Defaults(NamedTuple):
    """Requests and limits for containers without them."""

    requests: dict[str, str]
    limits: dict[str, str]


class _Limits(NamedTuple):
    """All LimitRanges of a namespace.

    Attributes:
        each: the limits of each LimitRange.
        defaults: the defaults that no earlier LimitRange has; a container already has the earlier ones.
    """

    each: Sequence[Sequence[LimitItem]]
    defaults: Sequence[_Defaults]


def _limits_in(values: Sequence[bytes]) -> _Limits:
    each = [_read(value).spec.limits or [] for value in values]
    defaults: list[_Defaults] = []
    known = _Defaults({}, {})
    for limits in each:
        found = _Defaults({}, {})
        for item in limits:
            if item.type == "Container":
                found.requests.update(item.default_request or {})
                found.limits.update(item.default or {})
        new = _Defaults(
            *(
                {name: amount for name, amount in side.items() if name not in seen}
                for side, seen in zip(found, known, strict=True)
            )
        )
        if any(new):
            defaults.append(new)
            known.requests.update(new.requests)
            known.limits.update(new.limits)
    return _Limits(each, defaults)


def _fill_in(pod: dict[str, Any], added_to: _Defaults) -> None:
    """Set the defaults of the containers of a pod, and the annotation that lists them."""
    spec, told = pod.get("spec") or {}, []
    for part, title in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(part) or ():
            sides = (("requests", added_to.requests, "request"), ("limits", added_to.limits, "limit"))
            for side, defaults, word in sides:
                added = _add_missing(container, side, defaults)
                if added:
                    told.append(f"{', '.join(added)} {word} for {title} {container.get('name', '')}")
    if told:
        annotations = pod["metadata"].get("annotations") or {}
        pod["metadata"]["annotations"] = {**annotations, ANNOTATION: f"LimitRanger plugin set: {'; '.join(told)}"}


def _add_missing(container: dict[str, Any], side: str, defaults: dict[str, str]) -> list[str]:
    """Add amounts that a container lacks; return their names."""
    resources = container.get("resources") or {}
    given = resources.get(side) or {}
    added = sorted(name for name in defaults if name not in given)
    if added:
        container["resources"] = {**resources, side: {**given, **{name: defaults[name] for name in added}}}
    return added


# --- violations of the limits


class _Asked(NamedTuple):
    """Requests and limits of a container, a pod or a claim."""

    requests: Amounts
    limits: Amounts


class _Things:
    """All items of one type in an object, such as the containers of a pod.

    A namespace may have hundreds of LimitRanges and a pod hundreds of containers. So each limit is compared once, with
    the closest amount, and the items are iterated only for the message of an error.
    """

    def __init__(self, asked: Sequence[_Asked]) -> None:
        self.asked = asked
        self._known: dict[tuple[_Part, str], Fraction | None] = {}

    def is_within(self, item: LimitItem) -> bool:
        """Return True if all are within limits."""
        above = _requested if item.type == "PersistentVolumeClaim" else _most
        return all(
            (closest := self._closest(part, name)) is not None
            and (closest >= parse(bound).nanos if bounds is item.min else closest <= parse(bound).nanos)
            for part, bounds in ((_least, item.min), (above, item.max), (_ratio, item.max_limit_request_ratio))
            for name, bound in (bounds or _NONE).items()
        )

    def _closest(self, part: _Part, name: str) -> Fraction | None:
        """Return the smallest or largest amount of all items; None if one lacks it."""
        key = part, name
        if key not in self._known:
            found = [part(each, name) for each in self.asked]
            amounts = [each for each in found if each is not None]
            closest = min(amounts, default=None) if part is _least else max(amounts, default=None)
            self._known[key] = closest if len(amounts) == len(found) else None
        return self._known[key]


_Part = Callable[[_Asked, str], Fraction | None]
"""The amount of a resource that is compared with a limit."""


def _least(asked: _Asked, name: str) -> Fraction | None:
    """Return the smaller of request and limit; None without a request."""
    request, limit = asked.requests.get(name), asked.limits.get(name)
    return None if request is None else Fraction(min(request.nanos, (limit or request).nanos))


def _most(asked: _Asked, name: str) -> Fraction | None:
    """Return the larger of request and limit; None without a limit."""
    request, limit = asked.requests.get(name), asked.limits.get(name)
    return None if limit is None else Fraction(max(limit.nanos, (request or limit).nanos))


def _requested(asked: _Asked, name: str) -> Fraction | None:
    request = asked.requests.get(name)
    return None if request is None else Fraction(request.nanos)


def _ratio(asked: _Asked, name: str) -> Fraction | None:
    """Return the ratio of limit to request, in billionths; None if either is missing."""
    request, limit = asked.requests.get(name, ZERO), asked.limits.get(name, ZERO)
    return Fraction(limit.nanos * ONE, request.nanos) if request.nanos and limit.nanos else None


def _pod_asked(spec: dict[str, Any]) -> Mapping[str, _Things]:
    """Return requests and limits of the containers of a pod and of the pod, by type."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    asked = [_Asked(container_amounts(each, "requests"), container_amounts(each, "limits")) for each in containers]
    of_pod = _Asked(pod_amounts(spec, "requests"), pod_amounts(spec, "limits"))
    return {"Container": _Things(asked), "Pod": _Things([of_pod])}


def _claim_asked(spec: dict[str, Any]) -> Mapping[str, _Things]:
    """Return the requests of a claim; its limits do not count."""
    requests = parse_all((spec.get("resources") or {}).get("requests"))
    return {"PersistentVolumeClaim": _Things([_Asked(requests, {})])}


def _problems(item: LimitItem, things: Mapping[str, _Things]) -> Iterator[str]:
    """Yield the errors of all items of a type."""
    of_type = things.get(item.type)
    if of_type is None or of_type.is_within(item):
        return
    for requests, limits in of_type.asked:
        if item.type == "PersistentVolumeClaim":
            yield from _each(item.min, item.type, _below, requests, limits)
            yield from _each(item.max, item.type, _request_above, requests, limits)
        else:
            for bounds, check in ((item.min, _below), (item.max, _above), (item.max_limit_request_ratio, _apart)):
                yield from _each(bounds, item.type, check, requests, limits)


_Check = Callable[[str, str, Amount, Amount | None, Amount | None], str]


def _each(bounds: dict[str, str] | None, kind: str, check: _Check, requests: Amounts, limits: Amounts) -> Iterator[str]:
    """Yield the errors of each resource that has a bound, by name."""
    for name, bound in sorted((bounds or _NONE).items()):
        problem = check(name, kind, parse(bound), requests.get(name), limits.get(name))
        if problem:
            yield problem


def _below(name: str, kind: str, bound: Amount, request: Amount | None, limit: Amount | None) -> str:
    message = f"minimum {name} usage per {kind} is {bound}"
    if request is None:
        return f"{message}.  No request is specified"
    if request.nanos < bound.nanos:
        return f"{message}, but request is {request}"
    return f"{message}, but limit is {limit}" if limit is not None and limit.nanos < bound.nanos else ""


def _above(name: str, kind: str, bound: Amount, request: Amount | None, limit: Amount | None) -> str:
    message = f"maximum {name} usage per {kind} is {bound}"
    if limit is None:
        return f"{message}.  No limit is specified"
    if limit.nanos > bound.nanos:
        return f"{message}, but limit is {limit}"
    return f"{message}, but request is {request}" if request is not None and request.nanos > bound.nanos else ""


def _request_above(name: str, kind: str, bound: Amount, request: Amount | None, limit: Amount | None) -> str:
    message = f"maximum {name} usage per {kind} is {bound}"
    if request is None:
        return f"{message}.  No request is specified"
    return f"{message}, but request is {request}" if request.nanos > bound.nanos else ""


def _apart(name: str, kind: str, bound: Amount, request: Amount | None, limit: Amount | None) -> str:
    message = f"{name} max limit to request ratio per {kind} is {bound}"
    request, limit = request or ZERO, limit or ZERO
    if not request.nanos:
        return f"{message}, but no request is specified or request is 0"
    if not limit.nanos:
        return f"{message}, but no limit is specified or limit is 0"
    if limit.nanos * 10**9 <= bound.nanos * request.nanos:
        return ""
    return f"{message}, but provided ratio is {limit.nanos / request.nanos:f}"
