"""Cluster roles with an `aggregationRule` contain the rules of the roles that it selects."""

from __future__ import annotations

from kilauea.api.aggregation import aggregated_rules
from kilauea.api.kinds import CLUSTER_ROLES
from kilauea.api.ports import Interest, Key, Obj, Outcome, Patch, View
from kilauea.controllers.objects import name_of

EVERY = Key("", "")
"""Any role may select any other, and there are few, so all are reconciled together."""


def _every(_: Obj) -> list[Key]:
    return [EVERY]


class ClusterRoleAggregation:
    """Updates the rules of aggregated cluster roles."""

    name = "clusterrole-aggregation-controller"
    interests = (Interest(CLUSTER_ROLES, _every),)

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Write the rules of roles that differ from the selected ones; roles that select these are updated next."""
        roles = view.list(CLUSTER_ROLES)
        wanted = [(role, aggregated_rules(role, roles)) for role in roles]
        return Outcome(
            [
                Patch(CLUSTER_ROLES, Key("", name_of(role)), {"rules": rules})
                for role, rules in wanted
                if rules is not None and rules != (role.get("rules") or [])
            ]
        )
