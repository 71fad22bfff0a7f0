"""Reclaim for gangs, within one network domain, what other queues hold beyond what they deserve.

Jobs of other queues give way with the tasks that they can spare before whole gangs, and queues keep what
`kilauea.engine.eviction.floor` says. How the room is searched is in `kilauea.engine.eviction.by_domain`. Spec of the
scheduler, 5.8.
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
        "`pending` makes room for every pod that waits, `starving` only for jobs that plugins find starving.",
        choices=(PENDING, STARVING),
    )


class GangReclaim(Action):
    """Queues get back for their gangs what they deserve."""

    name = "gangreclaim"
    acts_unprompted = False
    Arguments = GangReclaimArguments

    def execute(self, session: Session) -> None:
        starving = self.arguments.serves == STARVING
        policy = GangsOfOtherQueues(session)
        make_room(session, policy, self.arguments, serve_starving if starving else serve_pending)
