"""Never evict pods that the cluster itself needs.

What:
    Excludes pods with priority class `system-cluster-critical` or `system-node-critical`, and all pods in namespace
    `kube-system`, from eviction.

Why:
    If a DNS server or network agent is evicted, everything that depends on it fails.

Arguments:
    None. Flags: `enablePreemptable`, `enableReclaimable`.

Example:
    tiers:
    - plugins:
      - name: conformance

Difference from the original:
    A pod that this plugin protects stays protected, even if other plugins in the same tier or in later tiers select it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kilauea.api.wellknown import SYSTEM_CLASSES, SYSTEM_NAMESPACE
from kilauea.engine.extension import PERMIT, SpareReason
from kilauea.engine.model.tasks import Task
from kilauea.engine.plugin import Plugin
from kilauea.engine.session import Session

SYSTEM = SpareReason("SystemCritical", "part of the system, which is never evicted")


class Conformance(Plugin):
    """See the module."""

    name = "conformance"
    depends_on_time = False

    def on_session_open(self, session: Session) -> None:
        session.add_preemptable(self.name, spare_system, veto=True, why=SYSTEM)
        session.add_reclaimable(self.name, spare_system, veto=True, why=SYSTEM)
        session.add_unified_evictable(self.name, spare_system, veto=True, why=SYSTEM)


def spare_system(_: object, candidates: Sequence[Task]) -> tuple[list[Task], int]:
    """Return candidates that are not system pods."""
    return [t for t in candidates if t.priority_class not in SYSTEM_CLASSES and t.namespace != SYSTEM_NAMESPACE], PERMIT
