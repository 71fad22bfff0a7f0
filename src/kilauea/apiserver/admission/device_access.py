"""Administrative access to devices: allowed only in namespaces with a label for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kilauea.apiserver import status
from kilauea.apiserver.admission import AdmissionStep
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.admission.view import Record, reader
from kilauea.apiserver.fields import forbidden_field

ADMIN_ACCESS = "resource.kubernetes.io/admin-access"
"""The label of such namespaces."""
_CLAIMS, _TEMPLATES = "resourceclaims", "resourceclaimtemplates"


class _Metadata(Record, frozen=True):
    labels: dict[str, str] | None = None


class _Namespace(Record, frozen=True):
    metadata: _Metadata = _Metadata()


_read = reader(_Namespace)


class DeviceAdminAccess(AdmissionStep):
    """Rejects claims that request administrative access, and allocations with it, in other namespaces."""

    name = "DeviceAdminAccess"

    def validate(self, attributes: Attributes) -> None:
        """Check new claims and templates, and claims that get devices."""
        resource, obj = attributes.resource, attributes.obj
        if resource.group != "resource.k8s.io" or resource.plural not in (_CLAIMS, _TEMPLATES) or obj is None:
            return
        where = _asked(attributes, obj)
        if not where:
            return
        stored = attributes.backend.store.get(f"/core/namespaces/{attributes.namespace}")
        labels = (_read(stored.value).metadata.labels if stored is not None else None) or {}
        if labels.get(ADMIN_ACCESS) != "true":
            message = f"admin access to devices requires the `{ADMIN_ACCESS}: true` label on the containing namespace"
            raise status.invalid(
                resource.kind, resource.group, attributes.object_name(), [forbidden_field(where, message)]
            )


def _asked(attributes: Attributes, obj: Mapping[str, Any]) -> str:
    """Return the field that requests the access; empty if none does."""
    if attributes.subresource == "status":
        return "" if _granted(attributes.old or {}) else _granted(obj)
    if attributes.operation != "CREATE":
        return ""
    spec = obj.get("spec") or {}
    if attributes.resource.plural == _TEMPLATES:
        spec = spec.get("spec") or {}
    requests = (spec.get("devices") or {}).get("requests") or ()
    return _first("spec.devices.requests", ((each.get("exactly") or each) for each in requests))


def _granted(obj: Mapping[str, Any]) -> str:
    allocation = (obj.get("status") or {}).get("allocation") or {}
    return _first("status.allocation.devices.results", (allocation.get("devices") or {}).get("results") or ())


def _first(path: str, items: Iterable[Mapping[str, Any]]) -> str:
    return next((f"{path}[{i}].adminAccess" for i, each in enumerate(items) if each.get("adminAccess")), "")
