"""`kilauea scheduler` with a report on each plan: whether `kilauea plan` says the same on a dump taken just before.

    python tests/kubernetes/compared_scheduler.py REPORT ADMIN --kubeconfig FILE [options of kilauea scheduler]

There are two dumps, made with ADMIN, a kubeconfig that may list everything. One holds the objects as the scheduler
knows them, with what it has decided and not seen yet; it is always compared. The other is listed from the API server,
as `kilauea plan --kubeconfig` does it; it is compared unless the server is ahead of the scheduler, or the scheduler of
the server. Each comparison is a line of JSON in REPORT, written before the plan is carried out, so that nothing is lost
when the process is killed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1]))

from kilauea.api.errors import object_label
from kilauea.api.meta import Object
from kilauea.api.ports import Api
from kilauea.cli.main import main
from kilauea.engine.conf import SchedulerConf
from kilauea.engine.model.attempts import AdmissionBackoff
from kilauea.engine.plan import Plan
from kilauea.engine.state import ClusterState
from kilauea.runtime.inputs.objects import read_cluster
from kilauea.runtime.inputs.snapshot import Snapshot, snapshot
from kilauea.runtime.scheduler import process
from kilauea.runtime.scheduler.live import LiveOptions, LiveScheduler
from support.replans import Given, Replans, differences

KINDS = ("Pod", "PodGroup", "Queue")
"""What changes while pods are placed; nodes only report that they are alive."""


@dataclass(frozen=True)
class Comparison:
    """A line of the report.

    Attributes:
        binds: pods that are bound.
        evictions: action and pod.
        nominations: pods that are promised room.
        server: whether the API server had what the scheduler knew, so that the server's objects were planned with too.
        broken: where a plan differs.
    """

    binds: list[str] = field(default_factory=list)
    evictions: list[str] = field(default_factory=list)
    nominations: list[str] = field(default_factory=list)
    server: bool = False
    broken: list[str] = field(default_factory=list)


class ComparedScheduler(LiveScheduler):
    """A live scheduler whose plans are made again before they are carried out."""

    report: Path
    kubeconfig: Path

    def __init__(self, api: Api, options: LiveOptions, *parts: Any) -> None:
        super().__init__(api, options, *parts)
        self._names = options.names
        self._broken: list[str] = []
        self._replans = Replans(self._broken, idle=1)
        self._replans.follow(self.feed.state)
        known = self.scheduler._parts
        self._decide = known.decide
        self.scheduler._parts = replace(known, decide=self._compared)

    def _compared(
        self, state: ClusterState, conf: SchedulerConf, now: int, backoff: AdmissionBackoff, *, reasons: bool
    ) -> Plan:
        """Dump, decide, compare; the state takes nothing in meanwhile."""
        dump = snapshot(self.kubeconfig, os.environ)
        plan = self._decide(state, conf, now, backoff, reasons=reasons)
        self._compare(Given(self._names, conf, now, backoff), plan, dump)
        return plan

    def _compare(self, given: Given, plan: Plan, dump: Snapshot) -> None:
        self._broken.clear()
        if not self._replans.look(given, plan):
            return
        server = not self._assumes() and _versions(dump.objects) == _versions(self._replans.dumped())
        if server:
            found = differences(given, plan, read_cluster((), live=dump).objects)
            self._broken += [f"{each} of the server's objects" for each in found]
        told = Comparison(
            [each.pod for each in plan.binds],
            [f"{each.action} {each.pod}" for each in plan.evictions],
            [each.pod for each in plan.nominations],
            server,
            self._broken,
        )
        with self.report.open("a") as report:
            report.write(json.dumps(asdict(told)) + "\n")

    def _assumes(self) -> bool:
        """Whether something was decided that the watches have not shown."""
        assumed = self.feed.assumed
        return bool(assumed.binds or assumed.evictions or assumed.nominations or assumed.held or assumed.phases)


def _versions(objects: Iterable[Object]) -> dict[tuple[str, str], str]:
    return {
        (each.kind, object_label(each)): each.metadata.resource_version or "" for each in objects if each.kind in KINDS
    }


if __name__ == "__main__":
    ComparedScheduler.report, ComparedScheduler.kubeconfig, *_ = map(Path, sys.argv[1:])
    with patch.object(process, "LiveScheduler", ComparedScheduler):
        main(["scheduler", *sys.argv[3:]])
