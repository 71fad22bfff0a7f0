"""Points at which plugins choose victims of evictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from kilauea.engine.conf import PluginConf
from kilauea.engine.extension.points.answers import ABSTAIN, PluginFault, VictimVote, WhySpared
from kilauea.engine.extension.points.registry import Registry
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import SpareReason


def victims_and_vote(point: str, plugin: str, answer: Any) -> tuple[Sequence[Task], int]:
    """An answer about victims, if it is one: tasks and a vote."""
    fits = isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], int)
    if not fits or not isinstance(answer[0], Sequence) or not all(isinstance(task, Task) for task in answer[0]):
        raise PluginFault(plugin, point, f"expected a list of tasks and a vote, got {answer!r}")
    return answer[0], answer[1]


class Spares(Enum):
    """Tasks of other jobs that a vote always spares, whatever else it is asked about."""

    NOT_LOWER = "tasks of jobs whose priority is not lower than the preemptor's"
    AT_MINIMUM = "tasks of gangs without spare pods, unless they were placed in this cycle"


class VictimPoints(Registry):
    """Victims of evictions: which tasks may be evicted for which preemptor."""

    def __init__(self, tiers: Sequence[Sequence[PluginConf]]) -> None:
        super().__init__(tiers)
        self._vetoes: set[tuple[str, str]] = set()
        """(point, plugin) of the votes about victims whose veto is final."""
        self._why_spared: dict[tuple[str, str], WhySpared] = {}
        self._spares: dict[tuple[str, str], Spares] = {}
        """The tasks that votes about victims always spare, by point and plugin."""

    def close(self) -> None:
        """Also drop the plugins' reasons, which may be bound methods."""
        super().close()
        self._why_spared.clear()

    # --- victims

    def add_preemptable(
        self,
        plugin: str,
        vote: VictimVote,
        *,
        veto: bool = False,
        why: WhySpared | None = None,
        spares: Spares | None = None,
    ) -> None:
        """Add a vote: the candidates that may be evicted for a task of the same queue.

        With `veto`, a candidate that the plugin spares stays spared, even if other plugins select it. `why` is the
        reason that explanations show for a task that the plugin spares, or a function that returns it. `spares` are
        tasks that it always spares, so that searches need not ask about them.
        """
        self._add_victim_vote("preemptable", plugin, vote, veto, why, spares)

    def add_reclaimable(
        self,
        plugin: str,
        vote: VictimVote,
        *,
        veto: bool = False,
        why: WhySpared | None = None,
        spares: Spares | None = None,
    ) -> None:
        """Add a vote: the tasks of other queues that may be evicted for a task; otherwise as `add_preemptable`."""
        self._add_victim_vote("reclaimable", plugin, vote, veto, why, spares)

    def add_unified_evictable(
        self,
        plugin: str,
        vote: Callable[..., tuple[Sequence[Task], int]],
        *,
        veto: bool = False,
        why: WhySpared | None = None,
    ) -> None:
        """Add a vote: the candidates that may be evicted for a whole gang; otherwise as above. No flag disables it."""
        self._add_victim_vote("unified_evictable", plugin, vote, veto, why)

    def _add_victim_vote(
        self,
        point: str,
        plugin: str,
        vote: Callable[..., tuple[Sequence[Task], int]],
        veto: bool,
        why: WhySpared | None,
        spares: Spares | None = None,
    ) -> None:
        self.add(point, plugin, vote)
        if spares is not None:
            self._spares[point, plugin] = spares
        if veto:
            self._vetoes.add((point, plugin))
        if why is not None:
            self._why_spared[point, plugin] = why

    def why_spared(self, point: str, plugin: str, initiator: object, task: Task) -> SpareReason:
        """Return the reason why a plugin that votes about victims at a point spares a task."""
        why = self._why_spared.get((point, plugin), SpareReason("SparedByPlugin", f"plugin {plugin} spares it"))
        if not isinstance(why, SpareReason):
            why = self.ask(point, plugin, why, initiator, task)
        reason: SpareReason = why
        return reason._replace(plugin=plugin)

    def add_victim_tasks(self, plugin: str, victims: Callable[[Sequence[Task]], Sequence[Task]]) -> None:
        """Add a choice of tasks to evict without a preemptor."""
        self.add("victim_tasks", plugin, victims)

    def voters(self, point: str) -> list[str]:
        """Return the plugins that vote about victims at a point, in order."""
        return [plugin for tier in self.tiers_of(point) for plugin, _ in tier]

    def always_spared(self, point: str) -> set[Spares]:
        """Return the tasks of other jobs that nothing can evict at a point.

        A veto counts only if the plugin is asked. The first plugin is, and those after it in its tier as long as all
        before them have a veto, too: a candidate is either spared or passed on to the next one.
        """
        spared: set[Spares] = set()
        for plugin, _ in next(iter(self.tiers_of(point)), ()):
            if (point, plugin) not in self._vetoes:
                break
            if (tasks := self._spares.get((point, plugin))) is not None:
                spared.add(tasks)
        return spared

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        """Return the candidates that may be evicted for a task of the same queue."""
        return self.victims("preemptable", preemptor, candidates)

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task]:
        """Return the candidates of other queues that may be evicted for a task."""
        return self.victims("reclaimable", reclaimer, candidates)

    def unified_evictable(self, initiator: object, candidates: Sequence[Task]) -> list[Task]:
        """Return the candidates that may be evicted for a whole gang."""
        return self.victims("unified_evictable", initiator, candidates)

    def victim_tasks(self, tasks: Sequence[Task]) -> list[Task]:
        """Return the tasks to evict without a preemptor: the union of the first tier that selects any."""
        for tier in self.tiers_of("victim_tasks"):
            union = {t.uid: t for plugin, f in tier for t in self.ask("victim_tasks", plugin, f, tasks)}
            if union:
                return list(union.values())
        return []

    def victims(self, point: str, initiator: object, candidates: Sequence[Task]) -> list[Task]:
        """Return the victims of the first tier with any: the intersection of its results, without vetoed candidates.

        The order is that of the first result. Abstentions are skipped. An empty result ends its tier; an intersection
        that becomes empty is replaced by the result of the next plugin (spec 3.4.5). A veto also applies to all later
        plugins and tiers, so that they cannot select tasks that a gang or a priority protects.
        """
        vetoed: set[str] = set()
        for tier in self.tiers_of(point):
            chosen: list[Task] | None = None
            for plugin, function in tier:
                answer, vote = victims_and_vote(point, plugin, self.ask(point, plugin, function, initiator, candidates))
                if vote == ABSTAIN:
                    continue
                if (point, plugin) in self._vetoes:
                    named = {task.uid for task in answer}
                    vetoed.update(task.uid for task in candidates if task.uid not in named)
                if not answer:
                    chosen = None
                    break
                if not chosen:
                    chosen = list(answer)
                else:
                    uids = {task.uid for task in answer}
                    chosen = [task for task in chosen if task.uid in uids]
            chosen = [task for task in chosen or () if task.uid not in vetoed]
            if chosen:
                return chosen
        return []
