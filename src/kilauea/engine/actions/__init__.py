"""The actions of a cycle, one per file, and the list of all of them."""

from __future__ import annotations

from kilauea.engine.action import Action
from kilauea.engine.actions.allocate import Allocate
from kilauea.engine.actions.backfill import Backfill
from kilauea.engine.actions.enqueue import Enqueue
from kilauea.engine.actions.gangpreempt import GangPreempt
from kilauea.engine.actions.gangreclaim import GangReclaim
from kilauea.engine.actions.preempt import Preempt
from kilauea.engine.actions.reclaim import Reclaim
from kilauea.engine.actions.shuffle import Shuffle

ACTIONS: dict[str, type[Action]] = {
    action.name: action for action in (Enqueue, Allocate, Backfill, Preempt, Reclaim, GangPreempt, GangReclaim, Shuffle)
}
