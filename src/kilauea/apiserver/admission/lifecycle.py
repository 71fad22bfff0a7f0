"""Rules for namespaces: they must exist and must not be terminating, and some cannot be deleted."""

from __future__ import annotations

from kilauea.apiserver import status
from kilauea.apiserver.admission import AdmissionStep, forbidden
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.admission.view import Record, reader
from kilauea.apiserver.status import cause_dict

IMMORTAL = frozenset({"default", "kube-public", "kube-system"})
_ROOT = "/core/namespaces/"


class _Status(Record, frozen=True):
    phase: str = ""


class _Namespace(Record, frozen=True):
    status: _Status = _Status()


_read = reader(_Namespace)


class NamespaceLifecycle(AdmissionStep):
    """Rejects objects in missing or terminating namespaces, and the deletion of protected namespaces."""

    name = "NamespaceLifecycle"

    def mutate(self, attributes: Attributes) -> None:
        """Reject writes without an existing namespace, and new objects in a terminating one."""
        namespace = attributes.namespace
        if not namespace:
            return
        stored = attributes.backend.store.get(_ROOT + namespace)
        if stored is None:
            raise status.not_found("namespaces", "", namespace)
        if attributes.operation == "CREATE" and _read(stored.value).status.phase == "Terminating":
            raise _ending(attributes)

    def recheck(self, attributes: Attributes) -> None:
        """Check again, as the namespace may have been deleted meanwhile."""
        if attributes.operation != "DELETE":
            self.mutate(attributes)

    def validate(self, attributes: Attributes) -> None:
        """Reject the deletion of protected namespaces."""
        resource = attributes.resource
        if attributes.operation != "DELETE" or resource.plural != "namespaces" or resource.group:
            return
        if attributes.name in IMMORTAL:
            raise status.forbidden("namespaces", "", attributes.name, "this namespace may not be deleted")


def _ending(attributes: Attributes) -> status.ApiFault:
    """Return the error for a new object in a terminating namespace."""
    namespace = attributes.namespace
    message = f"unable to create new content in namespace {namespace} because it is being terminated"
    fault = forbidden(attributes, message)
    cause = status.Cause("metadata.namespace", "NamespaceTerminating", f"namespace {namespace} is being terminated")
    fault.status["details"]["causes"] = [cause_dict(cause)]
    return fault
