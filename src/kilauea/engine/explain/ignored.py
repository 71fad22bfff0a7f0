"""Fields that have no effect because their plugin is not configured.

Users notice silently ignored fields too late. So each such object gets a condition that names the field and the plugin,
and the plan has one finding for each kind of field.
"""

from __future__ import annotations

from collections.abc import Iterator

from kilauea.api.numbers import plural
from kilauea.engine.conf import Finding, SchedulerConf
from kilauea.engine.model.jobs import COMPLETED, PHASES
from kilauea.engine.model.wishes import OF_GROUPS, Wish
from kilauea.engine.plan import Condition
from kilauea.engine.queues.faults.fault import IGNORED, IGNORED_REASON
from kilauea.engine.session import Session


def is_served(wish: Wish, conf: SchedulerConf) -> bool:
    """True if the plugin of a field is configured, in the required form."""
    entries = (entry for tier in conf.tiers for entry in tier if entry.name == wish.plugin)
    return any(entry.is_enabled("hierarchy") or not wish.tree for entry in entries)


def sentence(wish: Wish) -> str:
    """A sentence: the field that is ignored, why, and the effect."""
    form = f"{wish.plugin} with enableHierarchy" if wish.tree else wish.plugin
    return f"{wish.field} is ignored, since the configuration does not name plugin {form}: {wish.effect}"


def ignored_wishes(session: Session) -> dict[str, Condition]:
    """Ignored fields by pod group, without completed groups."""
    table, size = session.table, len(session.table)
    if not table.wishes[:size].any():
        return {}
    unserved = sum(1 << number for number, wish in enumerate(OF_GROUPS) if not is_served(wish, session.conf))
    concerned = (table.wishes[:size] & unserved != 0) & (table.phase[:size] != PHASES.index(COMPLETED))
    if not concerned.any():
        return {}
    return {
        job.key: Condition(IGNORED, IGNORED_REASON, "; ".join(map(sentence, _of(job.wishes & unserved))))
        for job in session.jobs_where(concerned)
    }


def findings_of_ignored(session: Session, ignored: dict[str, Condition]) -> Iterator[Finding]:
    """One finding for each ignored field, with the number of pod groups that have it."""
    groups: dict[Wish, list[str]] = {}
    for key in ignored:
        for wish in _of(session.state.jobs[key].wishes):
            if not is_served(wish, session.conf):
                groups.setdefault(wish, []).append(key)
    for wish, keys in groups.items():
        others = f" and {plural(len(keys) - 1, 'other')}" if len(keys) > 1 else ""
        yield Finding(f"pod group {keys[0]}{others}", sentence(wish), code=IGNORED_REASON)


def _of(bits: int) -> Iterator[Wish]:
    return (wish for number, wish in enumerate(OF_GROUPS) if bits >> number & 1)
