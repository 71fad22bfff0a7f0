"""The options of deletions, from the body or the query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from kilauea.apiserver import status
from kilauea.apiserver.fields import invalid_value, not_supported
from kilauea.apiserver.rest.body import SCHEME, read_document, reason_alone, typed
from kilauea.apiserver.rest.call import Call, is_dry_run
from kilauea.apiserver.schema import definition

Propagation = Literal["Background", "Foreground", "Orphan"]
_POLICIES: tuple[Propagation, ...] = ("Foreground", "Background", "Orphan")
_SCHEMA = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_KIND = "DeleteOptions"
_NAMED = (*_POLICIES, "nil")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The options of a deletion.

    Attributes:
        grace: the grace period in seconds; None for that of the object.
        propagation: the policy for dependents; None for the default of the kind.
        uid: the UID that the object must have, or empty.
        revision: the revision that the object must have, or empty.
        dry_run: True to delete nothing.
    """

    grace: int | None = None
    propagation: Propagation | None = None
    uid: str = ""
    revision: str = ""
    dry_run: bool = False


def read_delete_options(call: Call) -> DeleteOptions:
    """Return the options of a call; those in the body take precedence.

    Raises:
        ApiFault: they are malformed.
    """
    return delete_options(options_document(call))


def delete_options(given: dict[str, Any]) -> DeleteOptions:
    """Return the options in a document.

    Raises:
        ApiFault: they are invalid.
    """
    preconditions = given.get("preconditions") or {}
    grace = given.get("gracePeriodSeconds")
    if grace is not None and not isinstance(grace, int):
        raise status.bad_request("gracePeriodSeconds: expected a whole number of seconds")
    return DeleteOptions(
        grace=grace,
        propagation=_propagation(given),
        uid=preconditions.get("uid") or "",
        revision=preconditions.get("resourceVersion") or "",
        dry_run=is_dry_run(given.get("dryRun") or [], _KIND),
    )


def options_document(call: Call) -> dict[str, Any]:
    """Return the options from the body, or from the query if the body is empty."""
    if call.request.body.strip():
        return _read(call)
    given: dict[str, Any] = {key: value for key in ("propagationPolicy",) if (value := call.request.first(key))}
    grace, orphan = call.request.first("gracePeriodSeconds"), call.request.flag("orphanDependents")
    if grace:
        try:
            given["gracePeriodSeconds"] = int(grace)
        except ValueError:
            raise status.bad_request(f'strconv.ParseInt: parsing "{grace}": invalid syntax') from None
    if orphan is not None:
        given["orphanDependents"] = orphan
    given["dryRun"] = [value for key, value in call.request.query if key == "dryRun"]
    return given


def _read(call: Call) -> dict[str, Any]:
    """Return the options from the body; an error has only the reason as its message."""
    try:
        given = read_document(call, _KIND)
        kind = given.get("kind") or _KIND
        if kind != _KIND:
            version = given.get("apiVersion") or "v1"
            raise status.bad_request(f'no kind "{kind}" is registered for version "{version}" in scheme "{SCHEME}"')
        typed(definition(_SCHEMA), given, _KIND)
    except status.ApiFault as fault:
        raise status.bad_request(reason_alone(str(fault), _KIND)) from fault
    return given


def _propagation(given: dict[str, Any]) -> Propagation | None:
    """Return the policy for dependents, also from its old field."""
    policy, orphan = given.get("propagationPolicy"), given.get("orphanDependents")
    found = next((known for known in _POLICIES if policy == known), None)
    causes = []
    if policy is not None and orphan is not None:
        message = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(invalid_value("propagationPolicy", policy, message))
    if policy is not None and found is None:
        causes.append(not_supported("propagationPolicy", policy, _NAMED))
    if causes:
        raise status.invalid(_KIND, "meta.k8s.io", "", causes)
    if orphan is not None:
        return "Orphan" if orphan else "Background"
    return found
