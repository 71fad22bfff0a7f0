"""Reclaim resources for gangs, within one network domain, from queues above their deserved share.

In other queues, tasks beyond the minimum of their job are evicted first, then whole gangs.
`kilauea.engine.eviction.floor` limits what queues lose, and `kilauea.engine.eviction.by_domain` describes the search.
Spec of the scheduler, 5.8.
"""

from __future__ import annotations

from dataclasses import dataclass

from kilauea.engine.action import Action
from kilauea.engine.actions.gangpreempt import GangArguments, make_room
from kilauea.engine.conf import argument
from kilauea.engine.eviction.policy import PENDING, STARVING, GangsOfOtherQueues
from kilauea.engine.eviction.serving import serve_pending, serve_starving
from kilauea.engine.session import Session


@dataclass(frozen=True)
class GangReclaimArguments(GangArguments):
    """Arguments of gangreclaim."""

    serves: str = argument(
        "reclaimFor",
        PENDING,
        "`pending` serves every pending pod, `starving` only jobs that plugins report as starving.",
        choices=(PENDING, STARVING),
    )


class GangReclaim(Action):
    """Reclaim the deserved share of queues for their gangs."""

    name = "gangreclaim"
    acts_unprompted = False
    Arguments = GangReclaimArguments

    def execute(self, session: Session) -> None:
        starving = self.arguments.serves == STARVING
        policy = GangsOfOtherQueues(session)
        make_room(session, policy, self.arguments, serve_starving if starving else serve_pending)
