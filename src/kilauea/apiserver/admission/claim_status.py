"""Permissions for parts of the status of resource claims: allocations by schedulers, data of devices by their drivers.

Permission to write the status of claims does not cover all of it. Two synthetic subresources represent its parts in
roles: `resourceclaims/binding` for the allocation and its consumers, `resourceclaims/driver` for the data of devices.
In rules for the latter, resource names are drivers, and verbs begin with the location of the caller:
`associated-node:patch` is for a driver's pod on the node of the claim, `arbitrary-node:patch` for one on any node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kilauea.apiserver import status
from kilauea.apiserver.admission import AdmissionStep
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.fields import forbidden_field
from kilauea.apiserver.rbac.authorizer import Action
from kilauea.apiserver.status import Cause

NODE_OF_CALLER = "authentication.kubernetes.io/node-name"
"""The extra field with the node of a service account's pod, if its token is bound to one."""
_GROUP, _CLAIMS = "resource.k8s.io", "resourceclaims"
Claim = Mapping[str, Any]


class ClaimStatusRights(AdmissionStep):
    """Rejects changes of a claim's status by users without permission for that part."""

    name = "ResourceClaimStatusRights"
    kinds = frozenset({(_GROUP, _CLAIMS)})

    def validate(self, attributes: Attributes) -> None:
        """Check each part of the status that changes."""
        if attributes.subresource != "status" or attributes.operation != "UPDATE":
            return
        causes = [*_about_binding(attributes), *_about_devices(attributes)]
        if causes:
            raise status.invalid(attributes.resource.kind, _GROUP, attributes.object_name(), causes)


def _about_binding(attributes: Attributes) -> Iterator[Cause]:
    new, old = _status(attributes.obj), _status(attributes.old)
    if all((new.get(part) or None) == (old.get(part) or None) for part in ("allocation", "reservedFor")):
        return
    action = Action(attributes.verb, _GROUP, _CLAIMS, "binding")
    if not _may(attributes, action):
        yield forbidden_field(
            "status.allocation", _words(attributes, action, action.verb, "allocation or status.reservedFor")
        )


def _about_devices(attributes: Attributes) -> Iterator[Cause]:
    new, old = _by_driver(attributes.obj), _by_driver(attributes.old)
    for driver in sorted(name for name in new.keys() | old.keys() if new.get(name) != old.get(name)):
        verbs = [f"arbitrary-node:{attributes.verb}"]
        if _is_on_node_of_claim(attributes):
            verbs.insert(0, f"associated-node:{attributes.verb}")
        actions = [Action(verb, _GROUP, _CLAIMS, "driver", attributes.namespace, driver) for verb in verbs]
        if not any(_may(attributes, action) for action in actions):
            yield forbidden_field("status.devices", _words(attributes, actions[0], f"[{' '.join(verbs)}]", "devices"))


def _words(attributes: Attributes, action: Action, verbs: str, parts: str) -> str:
    """Return the message about parts of the status without permission."""
    name = f' "{action.name}"' if action.name else ""
    where = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
    return (
        f'changing status.{parts} requires resource="{action.whole_resource}", verb="{verbs}" permission: '
        f'{_CLAIMS}.{_GROUP}{name} is forbidden: User "{attributes.user.name}" cannot {action.verb} resource '
        f'"{action.whole_resource}" in API group "{_GROUP}" {where}'
    )


def _may(attributes: Attributes, action: Action) -> bool:
    return attributes.backend.authorizer.reason(attributes.user, action) is not None


def _status(claim: Claim | None) -> Claim:
    return (claim or {}).get("status") or {}


def _by_driver(claim: Claim | None) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for device in _status(claim).get("devices") or ():
        found.setdefault(device.get("driver") or "", []).append(device)
    return found


def _is_on_node_of_claim(attributes: Attributes) -> bool:
    """Return True if the caller is a service account in a pod on the node for which the claim is allocated."""
    nodes = list(attributes.user.extra.get(NODE_OF_CALLER) or ())
    if len(nodes) != 1 or not attributes.user.name.startswith("system:serviceaccount:"):
        return False
    allocation = _status(attributes.old).get("allocation") or {}
    terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    return len(terms) == 1 and any(
        each.get("key") == "metadata.name" and each.get("operator") == "In" and each.get("values") == nodes
        for each in terms[0].get("matchFields") or ()
    )
