"""The variable `authorizer` of expressions, which queries the server's authorizer about the caller of a write."""

from __future__ import annotations

from typing import Any

from kilauea.api.cel.authorization import Decision, Place, Question, authorizer_values
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.rbac.authorizer import Action
from kilauea.apiserver.rbac.impersonation import account_groups
from kilauea.apiserver.request import User


def authorizer_variables(attributes: Attributes) -> dict[str, Any]:
    """Return the variables with which expressions check the permissions of the caller."""
    resource = attributes.resource
    place = Place(resource.group, resource.plural, attributes.subresource, attributes.namespace, attributes.name)
    return authorizer_values(_Decider(attributes), place)


class _Decider:
    """Decides the checks of one write. Decisions are cached, as expressions often repeat checks."""

    def __init__(self, attributes: Attributes) -> None:
        self._attributes = attributes
        self._known: dict[Question, Decision] = {}

    def __call__(self, question: Question) -> Decision:
        """Return the decision for a check."""
        known = self._known.get(question)
        if known is None:
            known = self._known[question] = self._decided(question)
        return known

    def _decided(self, question: Question) -> Decision:
        user = _account(question.account) if question.account else self._attributes.user
        action = Action(
            question.verb, question.group, question.resource, question.subresource, question.namespace, question.name,
            question.path,
        )  # fmt: skip
        reason = self._attributes.backend.authorizer.reason(user, action)
        return Decision(reason is not None, reason or "")


def _account(account: str) -> User:
    """Return the user of a service account."""
    return User(f"system:serviceaccount:{account}", groups=account_groups(account.partition(":")[0]))
