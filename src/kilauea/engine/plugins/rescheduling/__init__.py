"""Move pods from overloaded nodes to idle ones, by their actual load.

What:
    Once an interval, the strategies name pods that the action shuffle evicts; their controllers create them again, and
    they are placed again. `lowNodeUtilization` relieves nodes above a target: as long as nodes below a threshold have
    room up to that target, pods leave the most loaded nodes first, until those are below it. The other strategies say
    which pods: `offlineOnly` takes only pods with `volcano.sh/preemptable: "true"`; `lowPriorityFirst`,
    `shortLifeTimeFirst`, `bigObjectFirst` and `moreReplicasFirst` order them, the one that is named first before the
    next. Otherwise pods of low priority go first, and of equal ones those of the lower class of service.

    A pod is moved only if its controller will create it again, one of the idle nodes takes it, its gang can spare it or
    consists of it alone, every PodDisruptionBudget allows it, and it asks for some of what is too much on its node.
    Pods of the system, pods at or above a priority class and pods that may not be preempted stay. Pods avoid nodes
    above the target as long as others take them, so that what was moved does not return.

    Loads come from where plugin usage has them. A node whose load is not known, or older than five minutes, is neither
    relieved nor counted as idle, and the plan names it.

Why:
    Where pods run well changes after they were placed: others come and go, and requests are guesses.

Arguments:
    interval (text, 5m): a duration; the strategies run no more often, and first when the scheduler has run for it.
    metricsPeriod (text, 10m): the period of the averages. Loads are averages over ten minutes, so nothing else is
    taken.
    strategies (list): maps with `name` and `params`. `lowNodeUtilization` has the params `thresholds` and
    `targetThresholds`, maps of percents for `cpu`, `memory` and `pods`; `numberOfNodes`, so that nothing is done unless
    more nodes than that are idle; `nodeFit: false` to move pods that no idle node takes now; and
    `thresholdPriorityClassName`, the class of pods that stay, `system-cluster-critical` by default.
    queueSelector (list): queues whose pods may be moved; all by default.
    labelSelector (map): labels of pods that may be moved.

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
    The original has only lowNodeUtilization, ignores its params but the thresholds, never looks at pods, and with the
    default period finds every node idle. It evicts by the name of a pod, in any namespace, pods that come nowhere else,
    and gangs below their minimum; it does not ask budgets. Here a selector or a strategy that cannot be read is named.
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

    interval: str = argument("interval", "5m", "A duration; the strategies run no more often.")
    period: str = argument("metricsPeriod", PERIOD, "Period of the averages.", choices=(PERIOD,))
    strategies: tuple[object, ...] = argument("strategies", (), "Strategies, with their params.", values=object)
    queues: tuple[object, ...] = argument("queueSelector", (), "Queues whose pods may be moved.", values=object)
    labels: dict[str, str] = argument("labelSelector", NO_LABELS, "Labels of pods that may be moved.", values=str)


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
        """Return True if the interval has passed since the last turn, or since the process has started."""
        backoff = session.backoff
        last = backoff.turns.get(self.name, backoff.since)
        return last is None or backoff.moment - last >= strategies.interval
