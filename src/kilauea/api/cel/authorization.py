"""Authorization checks in CEL: `authorizer.group('apps').resource('deployments').check('get').allowed()`.

The value `authorizer` contains a function that decides; this module only builds the questions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kilauea.api.cel.values import CelError, check_type
from kilauea.api.names import label_problems, subdomain_problems

PREFIX = "kubernetes.authorization."
COST_OF_CHECK = 350_000
"""Cost of one check, as in Kubernetes, which allows two in an expression."""


class Question(NamedTuple):
    """An action to authorize: on a path, or on a resource; `account` is `namespace:name`, empty for the caller."""

    verb: str
    account: str = ""
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True)
class Decision:
    """The answer to a check. `problem` is empty unless the check itself failed."""

    is_allowed: bool
    text: str = ""
    problem: str = ""
    cel_type = PREFIX + "Decision"


Decide = Callable[[Question], Decision]


@dataclass(frozen=True)
class Authorizer:
    """The variable `authorizer`: the caller, or a service account."""

    decide: Decide
    account: str = ""
    cel_type = PREFIX + "Authorizer"


@dataclass(frozen=True)
class _PathCheck:
    of: Authorizer
    path: str
    cel_type = PREFIX + "PathCheck"


@dataclass(frozen=True)
class _GroupCheck:
    of: Authorizer
    group: str
    cel_type = PREFIX + "GroupCheck"


@dataclass(frozen=True)
class ResourceCheck:
    """A check of a resource; `authorizer.requestResource` is one of the request itself.

    Selectors restrict a check. They are kept for authorizers that support them; roles do not.
    """

    of: Authorizer
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""
    cel_type = PREFIX + "ResourceCheck"


class Place(NamedTuple):
    """The object of a request, for `authorizer.requestResource`."""

    group: str
    resource: str
    subresource: str
    namespace: str
    name: str


REQUEST_RESOURCE = "authorizer.requestResource"


def authorizer_values(decide: Decide, place: Place) -> dict[str, Any]:
    """Return the variables with which expressions check the permissions of the caller."""
    authorizer = Authorizer(decide)
    return {"authorizer": authorizer, REQUEST_RESOURCE: ResourceCheck(authorizer, *place)}


def place_of(values: Mapping[str, Any]) -> Place | None:
    """Return the object of the request from such variables; None if missing."""
    check = values.get(REQUEST_RESOURCE)
    if check is None:
        return None
    return Place(check.group, check.resource, check.subresource, check.namespace, check.name)


def _path(authorizer: Any, path: Any) -> _PathCheck:
    check_type(Authorizer, authorizer)
    check_type(str, path)
    if not path.strip():
        raise CelError("path must not be empty")
    return _PathCheck(authorizer, path)


def _group(authorizer: Any, group: Any) -> _GroupCheck:
    check_type(Authorizer, authorizer)
    check_type(str, group)
    return _GroupCheck(authorizer, group)


def _service_account(authorizer: Any, namespace: Any, name: Any) -> Authorizer:
    check_type(Authorizer, authorizer)
    check_type(str, namespace, name)
    if subdomain_problems(name):
        raise CelError("Invalid service account name")
    if label_problems(namespace):
        raise CelError("Invalid service account namespace")
    return Authorizer(authorizer.decide, f"{namespace}:{name}")


def _resource(check: Any, resource: Any) -> ResourceCheck:
    check_type(_GroupCheck, check)
    check_type(str, resource)
    if not resource.strip():
        raise CelError("resource must not be empty")
    return ResourceCheck(check.of, check.group, resource)


def _narrowed(field: str) -> Callable[[Any, Any], ResourceCheck]:
    """Return the function that sets one field of a check."""

    def run(check: Any, value: Any) -> ResourceCheck:
        check_type(ResourceCheck, check)
        check_type(str, value)
        changed: ResourceCheck = replace(check, **{field: value})
        return changed

    return run


def _check(check: Any, verb: Any) -> Decision:
    check_type(str, verb)
    if check.__class__ is _PathCheck:
        return _asked(check.of, Question(verb, check.of.account, check.path))
    check_type(ResourceCheck, check)
    asked = Question(
        verb, check.of.account, "", check.group, check.resource, check.subresource, check.namespace, check.name
    )
    return _asked(check.of, asked)


def _asked(authorizer: Authorizer, question: Question) -> Decision:
    return authorizer.decide(question)


def _of_decision(read: Callable[[Decision], Any]) -> Callable[[Any], Any]:
    def run(decision: Any) -> Any:
        check_type(Decision, decision)
        return read(decision)

    return run


METHODS: Mapping[str, Callable[..., Any]] = {
    "allowed": _of_decision(lambda decision: decision.is_allowed),
    "check": _check,
    "error": _of_decision(lambda decision: decision.problem),
    "errored": _of_decision(lambda decision: bool(decision.problem)),
    "fieldSelector": _narrowed("field_selector"),
    "group": _group,
    "labelSelector": _narrowed("label_selector"),
    "name": _narrowed("name"),
    "namespace": _narrowed("namespace"),
    "path": _path,
    "reason": _of_decision(lambda decision: decision.text),
    "resource": _resource,
    "serviceAccount": _service_account,
    "subresource": _narrowed("subresource"),
}
"""Methods of values; the first argument is the target."""
