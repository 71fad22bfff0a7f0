"""Ends pods of a Volcano job: all of them, or those that an action affects.

The status is written first, with a new version of the job, and events of pods of earlier versions are ignored; so after
an interruption, the next reconciliation continues. Parts of a job have no version: their pods are marked, and until
then they still trigger the same restart, which is not counted again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kilauea.api.kinds import POD_GROUPS, PODS
from kilauea.api.ports import Delete, Obj, Operation, Patch, Single, Together, View, key_of
from kilauea.controllers.objects import is_going, uid_of
from kilauea.controllers.vcjobs import status
from kilauea.controllers.vcjobs.counting import count, count_ending, next_phase
from kilauea.controllers.vcjobs.decision import Decision
from kilauea.controllers.vcjobs.machine import ABORTED, RESTARTING, Step
from kilauea.controllers.vcjobs.members import ENDED, Members
from kilauea.controllers.vcjobs.plugins import PluginFault, active
from kilauea.controllers.vcjobs.roster import OUT_OF_SYNC, Member, PodState
from kilauea.controllers.vcjobs.work import Work

SUSPENDED = "Suspended"
"""Reason in the status of a job without pods because it is suspended."""
HOW_TO_RESUME = "the job is suspended, so it has no pods: `vcctl job resume` starts it again"


def kill_all(
    work: Work, members: Members, group: Obj | None, step: Step, decision: Decision, view: View, now: int
) -> tuple[list[Patch], list[Operation]]:
    """The status of a job that ends or restarts, and the deletion of its pods and of unneeded objects."""
    keep = ENDED if step.keep_ended or _is_last_try(work, step) else frozenset[str]()

    def is_doomed(state: PodState) -> bool:
        return not state.going and (state.marked or state.phase not in keep)

    doomed = members.where(is_doomed)
    counts = count_ending(work, members, is_doomed, keep=not step.becomes)
    phase = step.becomes or next_phase(work, counts)
    action, cause = decision.action if step.becomes else None, cause_of(work, step, decision)
    if phase == ABORTED:
        action, cause = SUSPENDED, HOW_TO_RESUME
    written = status.changed(
        work,
        counts,
        now,
        phase=phase,
        reason=action,
        message=cause,
        version=work.version + bool(step.becomes),
        retries=work.retries + step.counts,
        controlled=_claims(work),
        duration=True,
    )
    doing: list[Operation] = [*together([deletion(each)] for each in doomed)]
    if phase != RESTARTING:
        doing += _removals(work, view)
    if group is not None and not is_going(group):
        doing.append(Delete(POD_GROUPS, key_of(group), uid_of(group)))
    return written, doing


def kill_targets(
    work: Work, members: Members, step: Step, decision: Decision, now: int
) -> tuple[list[Operation], list[Operation]]:
    """The status without the targets of an action, marks on these pods, and their deletion."""
    keep = ENDED if _is_last_try(work, step) else frozenset[str]()
    chosen = [each for each in decision.targets.values() if each.state.phase not in keep]
    counts = count(work, members, frozenset(each.name for each in chosen))
    written = status.changed(
        work,
        counts,
        now,
        phase=step.becomes,
        reason=decision.action,
        message=cause_of(work, step, decision),
        version=work.version,
        retries=work.retries + step.counts,
        controlled=work.status.get("controlledResources") or {},
        duration=True,
    )
    marks = together([_mark(each)] for each in chosen)
    return [*written, *marks], together([deletion(each)] for each in chosen if not each.state.going)


def cause_of(work: Work, step: Step, decision: Decision) -> str:
    """The cause of the new phase, with the number of the retry if it counts as one."""
    retry = work.retry_words(work.retries + 1) if step.counts else ""
    return ", ".join(filter(None, (decision.cause, retry)))


def _is_last_try(work: Work, step: Step) -> bool:
    """Return True if no further try follows: then pods that have ended stay for inspection."""
    return work.retries + step.counts >= work.max_retry


def _claims(work: Work) -> dict[str, str]:
    """The claims of a job that outlive its pods."""
    controlled = work.status.get("controlledResources") or {}
    return {name: value for name, value in controlled.items() if not name.startswith("plugin-")}


def _removals(work: Work, view: View) -> Iterator[Operation]:
    try:
        for plugin in active(work.obj):
            yield from plugin.removal(view)
    except PluginFault:
        return  # it has not created anything


def _mark(member: Member) -> Patch:
    metadata = {"annotations": {OUT_OF_SYNC: "true"}, "uid": member.uid}
    return Patch(PODS, member.key, {"metadata": metadata})


def deletion(member: Member) -> Single:
    """Delete a pod."""
    return Delete(PODS, member.key, member.uid)


def together(chains: Iterable[list[Single]]) -> list[Operation]:
    """Chains that need not wait for each other; empty without any."""
    given = list(chains)
    return [Together(given)] if given else []
