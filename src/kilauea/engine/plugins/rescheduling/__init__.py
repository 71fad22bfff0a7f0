"""Move pods from overloaded nodes to idle ones, by their actual load.

What:
    Once per interval, the strategies select pods that the action shuffle evicts; their controllers recreate them, and
    they are scheduled again. `lowNodeUtilization` moves pods from nodes above a target: as long as nodes below a
    threshold have room up to that target, it evicts pods from the most loaded nodes first, until these are below the
    target. The other strategies choose among pods: `offlineOnly` selects only pods with `volcano.sh/preemptable:
    "true"`; `lowPriorityFirst`, `shortLifeTimeFirst`, `bigObjectFirst` and `moreReplicasFirst` order them, in the order
    in which they are listed. Otherwise, pods with low priority go first, and among equal ones those with the lower QoS
    class.

    A pod is moved only if its controller will recreate it, one of the idle nodes can run it, its gang stays at its
    minimum without it or consists of it alone, every PodDisruptionBudget allows it, and it requests a resource that is
    above the target on its node. System pods, pods at or above a priority class, and pods that are not preemptable
    stay. Pods avoid nodes above the target as long as they can run elsewhere, so that moved pods do not return.

    Loads come from the same source as for the plugin usage. A node whose load is unknown or older than five minutes is
    neither relieved nor counted as idle, and the plan names it.

Why:
    The best node for a pod changes after it is placed: other pods come and go, and requests are guesses.

Arguments:
    interval (text, 5m): a duration; the minimum time between two runs of the strategies, and before the first.
    metricsPeriod (text, 10m): the period of the averages. Loads are averages over ten minutes, so this is the only
    value.
    strategies (list): maps with `name` and `params`. The params of `lowNodeUtilization` are `thresholds` and
    `targetThresholds`, maps of percentages for `cpu`, `memory` and `pods`; `numberOfNodes`, to act only if more nodes
    than that are idle; `nodeFit: false`, to move pods even if no idle node can run them now; and
    `thresholdPriorityClassName`, the lowest priority class of pods that stay, `system-cluster-critical` by default.
    queueSelector (list): queues whose pods can be moved; all by default.
    labelSelector (map): labels of pods that can be moved.

    Flags: `enabledVictim`, `enableNodeOrder`.

Example:
    actions: "enqueue, allocate, backfill, shuffle"
    tiers:
    - plugins:
      - name: rescheduling
        arguments:
          interval: 5m
          strategies:
          - name: offlineOnly
          - name: lowPriorityFirst
          - name: lowNodeUtilization
            params:
              thresholds: {cpu: 20, memory: 20, pods: 20}
              targetThresholds: {cpu: 50, memory: 50, pods: 50}
    metrics:
      type: prometheus
      address: http://prometheus.monitoring:9090

Difference from the original:
    Volcano has only lowNodeUtilization, ignores its params except the thresholds, never considers pods, and with the
    default period finds every node idle. It evicts by the name of a pod, in any namespace, including pods that cannot
    run elsewhere and gangs below their minimum, and ignores PodDisruptionBudgets. Here, an invalid selector or strategy
    is reported.
"""

from __future__ import annotations

from dataclasses import dataclass

from kilauea.engine.conf import argument
from kilauea.engine.plugin import Plugin
from kilauea.engine.plugins.rescheduling.moving import Mover
from kilauea.engine.plugins.rescheduling.strategies import Strategies, read_strategies
from kilauea.engine.session import Session

PERIOD = "10m"
NO_LABELS: dict[str, str] = {}


@dataclass(frozen=True)
class ReschedulingArguments:
    """Arguments of rescheduling."""

    interval: str = argument("interval", "5m", "A duration; the minimum time between two runs of the strategies.")
    period: str = argument("metricsPeriod", PERIOD, "Period of the averages.", choices=(PERIOD,))
    strategies: tuple[object, ...] = argument("strategies", (), "Strategies, with their params.", values=object)
    queues: tuple[object, ...] = argument("queueSelector", (), "Queues whose pods can be moved.", values=object)
    labels: dict[str, str] = argument("labelSelector", NO_LABELS, "Labels of pods that can be moved.", values=str)


class Rescheduling(Plugin):
    """See the module."""

    name = "rescheduling"
    Arguments = ReschedulingArguments

    def on_session_open(self, session: Session) -> None:
        given: ReschedulingArguments = self.arguments
        strategies, findings = read_strategies(given.interval, given.strategies, given.queues, given.labels)
        session.findings.extend(findings)
        mover = Mover(session, strategies)
        session.add_victim_tasks(
            self.name, lambda tasks: mover.victims(tasks) if self._is_due(session, strategies) else []
        )
        session.add_node_score(self.name, mover.score, applies=lambda _: mover.avoids)

    def _is_due(self, session: Session, strategies: Strategies) -> bool:
        """Return True if the interval has passed since the last turn, or since the process started."""
        backoff = session.backoff
        last = backoff.turns.get(self.name, backoff.since)
        return last is None or backoff.moment - last >= strategies.interval
