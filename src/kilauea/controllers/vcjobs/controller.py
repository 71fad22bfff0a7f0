"""The controller of Volcano's jobs.

It is stateless: events are read from the objects (`observed_events`), policies and commands choose an action
(`decision`), and a table defines the effect of each action in each phase (`machine`). Then the job is synchronized
(`syncing`), or pods are deleted (`killing`). The status is written first and commits the rest; any later reconciliation
can finish it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from kilauea.api.kinds import (
    CLAIMS,
    COMMANDS,
    CONFIG_MAPS,
    NETWORK_POLICIES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    SECRETS,
    SERVICES,
    VC_JOBS,
)
from kilauea.api.ports import Delete, Interest, Key, Obj, Operation, Outcome, Record, View, key_of, no_keys
from kilauea.controllers.objects import (
    DEBOUNCE_SECONDS,
    ItsController,
    controller_of,
    is_going,
    own_key,
    status_of,
    uid_of,
)
from kilauea.controllers.vcjobs.decision import Decision, decide, decide_command
from kilauea.controllers.vcjobs.killing import cause_of, kill_all, kill_targets
from kilauea.controllers.vcjobs.machine import COMMANDED_ACTIONS, TARGETED, Step, step
from kilauea.controllers.vcjobs.members import Members
from kilauea.controllers.vcjobs.refusals import refusal
from kilauea.controllers.vcjobs.roster import ROSTER, ROSTERS
from kilauea.controllers.vcjobs.syncing import Sync
from kilauea.controllers.vcjobs.work import Work

COMMANDED = "job"
_its_job = ItsController(VC_JOBS)


def commanded_job(command: Obj) -> str:
    """An index: namespace and name of the target job of a command; empty if it has another target."""
    target = command.get("target") or {}
    if target.get("kind") != VC_JOBS.kind or target.get("apiVersion") != VC_JOBS.api_version:
        return ""
    return f"{command['metadata']['namespace']}/{target.get('name', '')}"


def _keys_of_command(command: Obj) -> Iterable[Key]:
    if commanded_job(command):
        yield Key(command["metadata"]["namespace"], command["target"]["name"])


def _unless_running(group: Obj) -> Iterable[Key]:
    """Yield the job of a group unless the group is running: phases matter at once, numbers of running pods do not."""
    return () if status_of(group).get("phase") == "Running" else _its_job(group)


class VcJobController:
    """Runs Volcano jobs to completion."""

    name = "vcjob-controller"
    interests = (
        Interest(VC_JOBS, own_key),
        Interest(PODS, _its_job, aggregates={ROSTER: ROSTERS}, delay=DEBOUNCE_SECONDS),
        Interest(POD_GROUPS, _unless_running),
        Interest(POD_GROUPS, _its_job, delay=DEBOUNCE_SECONDS),
        Interest(COMMANDS, _keys_of_command, indexes={COMMANDED: commanded_job}),
        *(Interest(each, _its_job, delay=DEBOUNCE_SECONDS) for each in (CLAIMS, SERVICES, CONFIG_MAPS, SECRETS)),
        Interest(NETWORK_POLICIES, _its_job, delay=DEBOUNCE_SECONDS),
        Interest(QUEUES, no_keys),
        Interest(PRIORITY_CLASSES, no_keys),
    )

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Execute a command or a policy, or synchronize the job."""
        job = view.get(VC_JOBS, key)
        commands = view.indexed(COMMANDS, COMMANDED, str(key))
        if job is None or is_going(job):
            return Outcome([_done(each) for each in commands])
        work = Work(job)
        members, group = Members(work, view), _group_of(work, view)
        current = None if group is None or work.has_outlived(group) else group
        if commands:
            return _execute_command(work, members, group, min(commands, key=_age), view, now)
        return _act(work, members, group, decide(work, members, current, now), (), view, now)


def _execute_command(work: Work, members: Members, group: Obj | None, command: Obj, view: View, now: int) -> Outcome:
    """Execute a command; it is deleted once the status shows that it is done."""
    action = str(command.get("action") or "")
    if action in TARGETED:
        return _refuse(work, command, f"{action} needs a target, and a command names none: use RestartJob, or a policy")
    if action not in COMMANDED_ACTIONS:
        return _refuse(work, command, f'invalid action "{action}" for a job: use one of {", ".join(COMMANDED_ACTIONS)}')
    message = f"Start to execute command {action}, and clean it up to make sure executed not more than once."
    acknowledgement: tuple[Operation, ...] = (Record(work.obj, "Normal", "CommandIssued", message), _done(command))
    return _act(work, members, group, decide_command(work, action), acknowledgement, view, now)


def _refuse(work: Work, command: Obj, words: str) -> Outcome:
    """Report why a command is not executed, and delete it."""
    return Outcome([Record(work.obj, "Warning", "CommandIssued", words), _done(command)])


def _act(
    work: Work,
    members: Members,
    group: Obj | None,
    decision: Decision,
    acknowledgement: Iterable[Operation],
    view: View,
    now: int,
) -> Outcome:
    """Carry out a decision: first the status, then acknowledgements, then the rest.

    Delayed actions are recorded before the status loses their reason, and removed once the status shows that they are
    done.
    """
    taken = step(work.phase, decision.action)
    if taken.procedure == "sync":
        sync = Sync(work, members, group, view, now)
        said = [*decision.records, *sync.records]
        due = [each for each in (decision.again, sync.again) if each is not None]
        operations = [*decision.notes, *sync.status, *acknowledgement, *said, *sync.operations]
        return Outcome(operations, min(due, default=None), refused=partial(refusal, work, group, now))
    told = [*decision.records, *_restart(work, taken, decision)]
    if taken.procedure == "kill":
        written, doing = kill_all(work, members, group, taken, decision, view, now)
        return Outcome([*written, *decision.notes, *acknowledgement, *told, *doing], decision.again)
    marked, doing = kill_targets(work, members, taken, decision, now)
    return Outcome([*marked, *decision.notes, *acknowledgement, *told, *doing], decision.again)


def _restart(work: Work, taken: Step, decision: Decision) -> Iterator[Record]:
    """Report the policy behind a restart and the number of the retry: the status loses them once pods wait again."""
    if taken.counts and decision.by_policy:
        yield Record(work.obj, "Normal", "Restarting", f"{decision.action} on {cause_of(work, taken, decision)}")


def _group_of(work: Work, view: View) -> Obj | None:
    """The pod group of a job; older controllers named it after the job alone."""
    namespace = work.key.namespace
    group = view.get(POD_GROUPS, Key(namespace, f"{work.name}-{work.uid}"))
    if group is not None:
        return group
    group = view.get(POD_GROUPS, Key(namespace, work.name))
    owner = controller_of(group) if group is not None else None
    return group if owner is not None and owner["uid"] == work.uid else None


def _age(command: Obj) -> tuple[str, str]:
    return str(command["metadata"].get("creationTimestamp") or ""), command["metadata"]["name"]


def _done(command: Obj) -> Delete:
    return Delete(COMMANDS, key_of(command), uid_of(command))
