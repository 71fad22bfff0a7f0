"""Synchronizes a Volcano job with its specification: volumes and plugin objects, pod group, pods, status.

Problems of a job (its queue, a plugin, a volume) are reported on the job; it waits and is retried indefinitely.
"""

from __future__ import annotations

from collections.abc import Sequence

from kilauea.api.job_plugins import unknown_arguments
from kilauea.api.kinds import POD_GROUPS, PRIORITY_CLASSES, QUEUES, VC_JOBS
from kilauea.api.ports import Create, Delete, Key, Obj, Operation, Patch, Record, View, key_of
from kilauea.api.unserved import NO_SCHEDULER
from kilauea.controllers.objects import annotations_of, is_going, retry_delay, spec_of, status_of, uid_of
from kilauea.controllers.vcjobs import status
from kilauea.controllers.vcjobs.counting import count, next_phase
from kilauea.controllers.vcjobs.groups import group_changes, group_of
from kilauea.controllers.vcjobs.killing import deletion, together
from kilauea.controllers.vcjobs.machine import FAILED, OVER, PENDING, RESTARTING
from kilauea.controllers.vcjobs.members import Members
from kilauea.controllers.vcjobs.names import FORWARDING
from kilauea.controllers.vcjobs.plugins import JobPlugin, PluginFault, active
from kilauea.controllers.vcjobs.refusals import (
    CLAIM_ERROR,
    FAILED_CREATE,
    GROUP_REFUSED,
    PLUGIN_ERROR,
    PLUGIN_NOT_CONFIGURED,
    PODS_NOT_CREATED,
    QUEUE_ERROR,
    WISH_IGNORED,
    creates,
    group_refusal,
    group_retraction,
    is_refused,
)
from kilauea.controllers.vcjobs.scaling import Scaling
from kilauea.controllers.vcjobs.volumes import volumes_of
from kilauea.controllers.vcjobs.work import GROUP_VERSION, Work

MAX_RETRY_REACHED = "MaxRetryReached"
"""Reason of a job that failed after its last retry."""
GANG_NEVER_COMPLETE = "GangNeverComplete"
"""Reason of a job that waits because its gang needs pods that are created only once the gang runs."""
FIRST_WAIT = 1.0
"""Seconds until the next reconciliation of a new job with a problem."""


class Sync:
    """One reconciliation of a job that should have pods.

    Attributes:
        status: the patch of the status, if it changes; comes first.
        operations: other operations, in order.
        records: events about the job.
        again: seconds until the next reconciliation.
    """

    def __init__(self, work: Work, members: Members, group: Obj | None, view: View, now: int) -> None:
        self._work, self._members, self._group = work, members, group
        self._view, self._now = view, now
        self._controlled = {**(work.status.get("controlledResources") or {})}
        self.operations: list[Operation] = []
        self.records: list[Record] = []
        self._faults: list[tuple[str, str]] = []
        self.again: float | None = None
        self._counts = count(work, members)
        self._phase = next_phase(work, self._counts)
        self._reason, self._message = self._why()
        if not work.phase:  # a new job has none, so this is reported once
            self._warn_of_unknown_arguments()
        if self._phase not in OVER:
            self._keep_in_step()
            self._say_faults()
        self.status = self._status()

    def _keep_in_step(self) -> None:
        plugins = self._belongings()
        self._delete_doomed()
        if plugins is not None and self._is_admitted():
            self._keep_pods(plugins)

    def _say_faults(self) -> None:
        """Report in the status and on the group why pods cannot be created, until nothing is left to create."""
        group = None if self._group is None or is_going(self._group) else self._group
        if self._faults:
            self._reason, self._message = self._faults[0]
        if self._faults or self._reason == GANG_NEVER_COMPLETE:
            self.operations += group_refusal(group, self._now, self._reason or "", self._message)
        elif not creates(self.operations):
            if self._reason is None and is_refused(self._work):
                self._reason, self._message = "", ""
            self.operations += group_retraction(group, self._now)

    def _status(self) -> Sequence[Patch]:
        work = self._work
        return status.changed(
            work,
            self._counts,
            self._now,
            phase=self._phase,
            reason=self._reason,
            message=self._message,
            version=work.version,
            retries=work.retries,
            controlled=self._controlled,
        )

    def _why(self) -> tuple[str | None, str]:
        """Reason and message for the phase; a reason of None keeps the current ones."""
        work = self._work
        if work.phase == RESTARTING and self._phase == FAILED:
            message = work.no_retry_left
            self.records.append(Record(work.obj, "Warning", MAX_RETRY_REACHED, message))
            return MAX_RETRY_REACHED, message
        if self._phase == PENDING:
            return self._why_pending()
        return None, ""

    def _why_pending(self) -> tuple[str | None, str]:
        """The reason why the job waits forever, if it does; recorded once, and cleared when it no longer applies."""
        work, before = self._work, self._work.status.get("state") or {}
        late = (len(self._members.of(name)) for name in work.late_tasks)
        message = "" if any(late) else work.endless_wait
        if not message:
            return (None if before.get("reason") != GANG_NEVER_COMPLETE else ""), ""
        if before.get("message") != message:
            self.records.append(Record(work.obj, "Warning", GANG_NEVER_COMPLETE, message))
        return GANG_NEVER_COMPLETE, message

    def _warn_of_unknown_arguments(self) -> None:
        for words in unknown_arguments(spec_of(self._work.obj).get("plugins") or {}):
            self.records.append(Record(self._work.obj, "Warning", "UnknownPluginArgument", words))

    def _fault(self, reason: str, message: str) -> None:
        """Report a problem, and retry; the older the job, the later."""
        self.records.append(Record(self._work.obj, "Warning", reason, message))
        self._faults.append((reason, message))
        self.again = retry_delay(self._work.obj, self._now, FIRST_WAIT)

    # --- objects of the job

    def _belongings(self) -> Sequence[JobPlugin] | None:
        """Ensure that plugins and volumes have their objects; None if the job cannot continue."""
        work, view = self._work, self._view
        if work.excess:
            self._fault(FAILED_CREATE, f"Error creating pods: {work.excess}")
            return None
        queue = view.get(QUEUES, Key("", work.queue))
        if queue is None:
            self._fault(QUEUE_ERROR, f"queue {work.queue} is not found, the job will wait until the queue is created")
            return None
        if spec_of(queue).get("extendClusters") and annotations_of(work.obj).get(FORWARDING) != "true":
            self._change_job({"metadata": {"annotations": {FORWARDING: "true"}, "uid": work.uid}})
        try:
            plugins = active(work.obj)
            for plugin in plugins:
                self.operations += plugin.objects(view)
        except PluginFault as fault:
            self._fault(PLUGIN_ERROR, f"Execute plugin when job add failed, err: {fault.why}")
            return None
        controlled = (plugin.controlled for plugin in plugins)
        self._controlled = dict(each for each in controlled if each is not None)
        return plugins if self._volumes() else None

    def _volumes(self) -> bool:
        """Ensure that volumes have claims; returns True if they have."""
        volumes = volumes_of(self._work.obj, self._view)
        self._controlled.update(volumes.controlled)
        self.operations += volumes.operations
        if volumes.claim_names:
            given = enumerate(spec_of(self._work.obj)["volumes"])
            names = volumes.claim_names
            filled = [{**each, "volumeClaimName": names[i]} if i in names else each for i, each in given]
            self._change_job({"spec": {"volumes": filled}, "metadata": {"uid": self._work.uid}})
        if volumes.missing:
            self._fault(CLAIM_ERROR, f"Failed to create PVC, err: {volumes.missing}")
        return not volumes.missing and not volumes.claim_names

    def _change_job(self, patch: dict[str, object]) -> None:
        self.operations.append(Patch(VC_JOBS, self._work.key, patch))

    # --- the group

    def _is_admitted(self) -> bool:
        """Ensure that the group is current; returns True if it may have pods."""
        work, group = self._work, self._group
        if group is None:
            self.operations.append(self._new_group())
            return False
        if is_going(group):
            return False
        if work.has_outlived(group):
            self.operations.append(Delete(POD_GROUPS, key_of(group), uid_of(group)))
            return False
        changes = group_changes(work.obj, group, self._priority)
        if changes:
            self.operations.append(Patch(POD_GROUPS, key_of(group), changes))
        if work.phase == PENDING:
            self._report_waiting(group)
        return status_of(group).get("phase") not in (None, "", "Pending")

    def _new_group(self) -> Create:
        group = group_of(self._work.obj, self._priority)
        annotations = group["metadata"].setdefault("annotations", {})
        annotations[GROUP_VERSION] = str(self._work.version)
        return Create(POD_GROUPS, group, self._work.obj, GROUP_REFUSED)

    def _priority(self, name: str) -> int:
        found = self._view.get(PRIORITY_CLASSES, Key("", name))
        return int(found.get("value") or 0) if found else 0

    def _report_waiting(self, group: Obj) -> None:
        conditions = [each for each in status_of(group).get("conditions") or () if each.get("status") == "True"]
        for ignored in (each for each in conditions if each["type"] == WISH_IGNORED):
            words = str(ignored.get("message") or "")
            self.records.append(Record(self._work.obj, "Warning", PLUGIN_NOT_CONFIGURED, words))
        own = (PODS_NOT_CREATED, WISH_IGNORED)  # they have separate events
        conditions = [each for each in conditions if each["type"] not in own]
        if not conditions:
            return
        last = max(conditions, key=lambda each: str(each.get("lastTransitionTime") or ""))
        if last["type"] != "Scheduled":
            named = f"{self._work.key.namespace}:{self._work.name}"
            state = "unschedulable" if last["type"] == NO_SCHEDULER else last["type"].lower()
            message = f"PodGroup {named} {state}, reason: {last.get('message') or ''}"
            self.records.append(Record(self._work.obj, "Warning", "PodGroupPending", message))

    # --- the pods

    def _delete_doomed(self) -> None:
        doomed = self._members.where(lambda state: not state.going and self._members.must_go(state))
        self.operations += together([deletion(each)] for each in doomed)

    def _keep_pods(self, plugins: Sequence[JobPlugin]) -> None:
        making = Scaling(self._work, self._members, self._view, plugins)
        self.operations += making.operations()
        for reason, message in making.faults:
            self._fault(reason, message)
        if making.is_cut:
            self.again = 0.0
