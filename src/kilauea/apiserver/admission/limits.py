"""LimitRange: what containers get that ask for nothing, and how little or much containers, pods and claims may ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kilauea.apiserver.admission import AdmissionStep, Attributes, forbidden
from kilauea.apiserver.admission.amounts import ZERO, Amount, Amounts, parse, parse_all
from kilauea.apiserver.admission.pod_resources import container_amounts, pod_amounts
from kilauea.apiserver.admission.view import Derived, Metadata, Record, reader

ANNOTATION = "kubernetes.io/limit-ranger"
_NONE: Mapping[str, str] = {}


class LimitItem(Record, frozen=True):
    """The limits of one type of thing."""

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
    """Fills in the defaults of a namespace and enforces its limits."""

    name = "LimitRanger"
    kinds = frozenset({("", "pods"), ("", "persistentvolumeclaims")})

    def __init__(self) -> None:
        self._limits = Derived(_limits_in)

    def mutate(self, attributes: Attributes) -> None:
        """Give the containers of a new pod what they do not say."""
        if attributes.resource.plural == "pods" and _concerns(attributes) and attributes.obj is not None:
            for limits in self._limits_of(attributes):
                _fill_in(attributes.obj, limits)

    def validate(self, attributes: Attributes) -> None:
        """Refuse what is outside of the limits of one LimitRange, with all that is wrong."""
        if not _concerns(attributes) or attributes.obj is None:
            return
        spec = attributes.obj.get("spec") or {}
        check = _claim_problems if attributes.resource.plural == "persistentvolumeclaims" else _pod_problems
        for limits in self._limits_of(attributes):
            problems = list(dict.fromkeys(each for item in limits for each in check(item, spec)))
            if problems:
                raise forbidden(attributes, problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")

    def _limits_of(self, attributes: Attributes) -> Sequence[Sequence[LimitItem]]:
        """The limits of the namespace, of each LimitRange."""
        return self._limits.of(attributes.backend.store, f"/core/limitranges/{attributes.namespace}/")


def _concerns(attributes: Attributes) -> bool:
    """New pods and pods that are resized, and every write of a claim, unless the object is being deleted."""
    resource, subresource = attributes.resource, attributes.subresource
    if resource.group or resource.plural not in ("pods", "persistentvolumeclaims"):
        return False
    if attributes.old is not None and attributes.old["metadata"].get("deletionTimestamp"):
        return False
    if resource.plural == "persistentvolumeclaims":
        return not subresource
    return subresource == "resize" if attributes.operation == "UPDATE" else not subresource


def _limits_in(values: Sequence[bytes]) -> Sequence[Sequence[LimitItem]]:
    """The limits of each LimitRange."""
    return [_read(value).spec.limits or [] for value in values]


def _fill_in(pod: dict[str, Any], limits: Sequence[LimitItem]) -> None:
    """Defaults for the containers of a pod, and the annotation that tells of them."""
    most: dict[str, str] = {}
    least: dict[str, str] = {}
    for item in limits:
        if item.type == "Container":
            most |= item.default or {}
            least |= item.default_request or {}
    spec, told = pod.get("spec") or {}, []
    for part, title in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(part) or ():
            for side, defaults, word in (("requests", least, "request"), ("limits", most, "limit")):
                added = _add_missing(container, side, defaults)
                if added:
                    told.append(f"{', '.join(added)} {word} for {title} {container.get('name', '')}")
    if told:
        annotations = pod["metadata"].get("annotations") or {}
        pod["metadata"]["annotations"] = {**annotations, ANNOTATION: f"LimitRanger plugin set: {'; '.join(told)}"}


def _add_missing(container: dict[str, Any], side: str, defaults: dict[str, str]) -> list[str]:
    """Add amounts that a container lacks; returns their names."""
    resources = container.get("resources") or {}
    given = resources.get(side) or {}
    added = sorted(name for name in defaults if name not in given)
    if added:
        container["resources"] = {**resources, side: {**given, **{name: defaults[name] for name in added}}}
    return added


# --- what is outside of the limits


def _pod_problems(item: LimitItem, spec: dict[str, Any]) -> Iterator[str]:
    """Errors in a pod, or in its containers."""
    if item.type == "Container":
        for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
            amounts = container_amounts(container, "requests"), container_amounts(container, "limits")
            yield from _problems(item, *amounts)
    elif item.type == "Pod":
        yield from _problems(item, pod_amounts(spec, "requests"), pod_amounts(spec, "limits"))


def _problems(item: LimitItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for bounds, check in ((item.min, _below), (item.max, _above), (item.max_limit_request_ratio, _apart)):
        yield from _each(bounds, item.type, check, requests, limits)


def _claim_problems(item: LimitItem, spec: dict[str, Any]) -> Iterator[str]:
    """Errors in a claim; only its requests count."""
    if item.type != "PersistentVolumeClaim":
        return
    requests = parse_all((spec.get("resources") or {}).get("requests"))
    yield from _each(item.min, item.type, _below, requests, {})
    yield from _each(item.max, item.type, _request_above, requests, {})


_Check = Callable[[str, str, Amount, Amount | None, Amount | None], str]


def _each(bounds: dict[str, str] | None, kind: str, check: _Check, requests: Amounts, limits: Amounts) -> Iterator[str]:
    """The problems with each resource that has a bound, by name."""
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
