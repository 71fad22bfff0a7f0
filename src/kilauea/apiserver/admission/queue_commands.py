"""Commands to queues are only accepted from users who may update the queue.

A Command is namespaced, and a queue cluster-scoped: otherwise users who may create Commands in a namespace could close
the queues of all others.
"""

from __future__ import annotations

from kilauea.apiserver.admission import AdmissionStep, forbidden
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.rbac.authorizer import Action

_GROUP, _KIND = "scheduling.volcano.sh", "Queue"


class QueueCommands(AdmissionStep):
    """Rejects Commands whose author may not update the target queue."""

    name = "QueueCommands"
    kinds = frozenset({("bus.volcano.sh", "commands")})

    def validate(self, attributes: Attributes) -> None:
        """Check a Command that is written."""
        target = (attributes.obj or {}).get("target") or {}
        if target.get("kind") != _KIND or attributes.subresource:
            return
        name = str(target.get("name") or "")
        action = Action("update", _GROUP, "queues", name=name)
        if attributes.backend.authorizer.reason(attributes.user, action) is None:
            message = f'user "{attributes.user.name}" may not update the queue "{name}", which the command is for'
            raise forbidden(attributes, message)
