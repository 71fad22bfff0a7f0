"""Converts changes of objects into records of a history: pure, and idempotent if a change is seen again.

A `Recording` stores the jobs and pods that have not ended. It receives changes from watches, several at a time, and
returns the records to keep. Times come from the objects if available. So a list of all objects, as after a restart or a
lost watch, only adds what was missed: known records are reproduced unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import msgspec

from kilauea.api.numbers import plural
from kilauea.api.shared import shared
from kilauea.api.wellknown import DEFAULT_QUEUE, GROUP_NAME, QUEUE_NAME
from kilauea.history.changes import Changes, Evicted, last_texts
from kilauea.history.facts import TITLE, USER, Runs, amounts_of, condition, declared_time, job_record, why_waits
from kilauea.history.packed import PackedPods
from kilauea.history.records import (
    DELETED,
    EVICTED,
    FAILED,
    LOST,
    PENDING,
    RUNNING,
    SUCCEEDED,
    VOLCANO_JOB,
    Event,
    JobRecord,
    PodRecord,
    Record,
    What,
)
from kilauea.history.views import (
    Group,
    Job,
    Metadata,
    Owner,
    Pod,
    moment,
    read_group,
    read_job,
    read_pod,
)

POD_GROUP = "PodGroup.scheduling.volcano.sh"
TASK = "volcano.sh/task-spec"
RESTARTING = "Restarting"
OVER = {"Succeeded": SUCCEEDED, "Failed": FAILED}
HELD = 3
"""Number of times that a pod is held back until its group is seen."""
MOST_DELETED = 10_000
"""Maximum number of deleted jobs, and of groups, to remember for pods that are seen later."""
REPEATED = 60 * 1_000_000
"""Microseconds for which a reason with different numbers counts as the same."""
ADMINISTRATORS = "system:masters"

_NUMBERS = re.compile(r"[0-9]+")
T = TypeVar("T")
K = TypeVar("K")
replace = msgspec.structs.replace
Key = tuple[str, str]
"""Namespace and name."""


@dataclass(slots=True)
class _Group:
    """The stored facts about a pod group."""

    uid: str
    name: str
    queue: str
    job: str
    admitted: bool
    reason: str = ""
    told: int = 0
    deleted: int | None = None


class _Held(NamedTuple):
    """A pod whose group was not seen yet: its last state, and the number of times that it was held back."""

    pod: Pod
    gone: bool
    listed: bool
    times: int


class Kept:
    """Looks up stored records; this base class has none."""

    def job(self, uid: str) -> JobRecord | None:
        """The job with a uid."""
        return None

    def pod(self, uid: str) -> PodRecord | None:
        """The pod with a uid."""
        return None

    def last_reason(self, job: str) -> str:
        """The last reason why a job waited, as `reason: message`."""
        return ""


@dataclass
class Recording:
    """Creates records.

    Attributes:
        kept: looks up earlier records.
        seen: the time up to which everything was recorded; 0 if nothing was.
        jobs: jobs that are not deleted, by uid.
        pods: pods that have not ended, by uid.
        creators: creators of objects according to the server, by kind, namespace and name: user name and groups.
    """

    kept: Kept = field(default_factory=Kept)
    seen: int = 0
    jobs: dict[str, JobRecord] = field(default_factory=dict)
    pods: MutableMapping[str, PodRecord] = field(default_factory=dict)
    creators: dict[tuple[str, str, str], tuple[str, Sequence[str]]] = field(default_factory=dict)
    unreadable: int = 0
    """Number of invalid objects."""
    _groups: dict[Key, _Group] = field(default_factory=dict)
    _deleted_jobs: dict[str, JobRecord] = field(default_factory=dict)
    _deleted_groups: dict[Key, _Group] = field(default_factory=dict)
    _over: set[str] = field(default_factory=set)
    """Uids of pods that have ended and still exist."""
    _evicted: dict[str, Evicted] = field(default_factory=dict)
    """Evictions of pods that still exist."""
    _nominated: dict[str, str] = field(default_factory=dict)
    _held: dict[str, _Held] = field(default_factory=dict)
    """Pods whose group was not seen yet, by uid."""
    _untold: list[Evicted] = field(default_factory=list)
    """Evictions of pods that are held back."""
    _alone: dict[str, _Group] = field(default_factory=dict)
    """Waiting pods without a group, by uid."""
    _running: dict[str, int] = field(default_factory=dict)
    """Numbers of unfinished pods, for jobs other than Volcano jobs."""
    _out: list[Record] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Count the pods of jobs, and separate the jobs that were deleted before their last pod."""
        self._deleted_jobs.update({uid: job for uid, job in self.jobs.items() if job.deleted is not None})
        self.jobs = {uid: job for uid, job in self.jobs.items() if job.deleted is None}
        self.pods = PackedPods(self.pods)
        for pod in self.pods.values():
            self._running[pod.job] = self._running.get(pod.job, 0) + 1

    def take(
        self, jobs: Changes, groups: Changes, pods: Changes, evictions: Iterable[Evicted], now: int
    ) -> list[Record]:
        """Return records of changes; jobs come before groups, and groups before pods, which belong to them.

        Args:
            jobs: of Volcano.
            groups: pod groups of Volcano.
            pods: all pods.
            evictions: evictions by the scheduler.
            now: the time, for events without a time in objects.
        """
        self._out = []
        evictions = [*self._untold, *evictions]
        self._evicted.update((each.uid, each) for each in evictions)
        present = set()
        for job, gone in self._read(jobs, read_job):
            present.add(job.metadata.uid)
            self._job(job, gone, now, listed=jobs.listed is not None)
        if jobs.listed is not None:
            self._missing_jobs(present, now)
        present = set()
        for group, gone in self._read(groups, read_group):
            present.add(group.metadata.uid)
            self._group(group, gone, now, listed=groups.listed is not None)
        if groups.listed is not None:
            self._missing_groups(present, now)
        self._take_pods(pods, now)
        self._tell_evictions(evictions)
        self.seen = now
        out, self._out = self._out, []
        return _newest(_before_binds(out))

    # --- jobs

    def _job(self, job: Job, gone: bool, now: int, *, listed: bool) -> None:
        """Record the current state of a Volcano job."""
        meta = job.metadata
        old = self.jobs.get(meta.uid) or (self.kept.job(meta.uid) if listed else None)
        user = (old.user if old is not None else "") or self._user(VOLCANO_JOB, meta)
        new = job_record(job, user)
        if gone:
            self._delete_job(new, moment(meta.deletion_timestamp) or now)
        elif new != old:
            self.jobs[meta.uid] = new
            self._out.append(new)
        else:
            self.jobs[meta.uid] = new
            return
        state = job.status.state if job.status is not None else None
        if state is not None and new.state and new.state != (old.state if old is not None else ""):
            at = moment(state.last_transition_time) or now
            what: What = "Restarted" if new.state == RESTARTING else "Phase"
            self._event(at, what, new, reason=new.state, message=_words(state.reason, state.message))
        if old is not None and old.pods and new.pods != old.pods:
            self._event(now, "Resized", new, message=f"from {old.pods} to {plural(new.pods, 'pod')}")

    def _missing_jobs(self, present: set[str], now: int) -> None:
        """Record jobs that were deleted while nothing was watched."""
        for uid, job in sorted(self.jobs.items()):
            if job.kind == VOLCANO_JOB and uid not in present:
                self._delete_job(job, min(self.seen or now, now))

    def _delete_job(self, job: JobRecord, deleted: int) -> None:
        """Record that a job was deleted, and remember it for pods that are seen later."""
        new = replace(job, deleted=deleted)
        self._out.append(new)
        self.jobs.pop(new.uid, None)
        _remember(self._deleted_jobs, new.uid, new)

    def _owner_job(self, owner: Owner, pod: Pod, queue: str) -> str:
        """The job of a pod, by the object that created it."""
        if owner.uid not in self.jobs:
            found = self._deleted_jobs.get(owner.uid) or self.kept.job(owner.uid)
            if found is None:
                kind = owner.group_kind
                at = moment(pod.metadata.creation_timestamp) or 0
                # A Volcano job is soon read itself; until then, its pods provide some of its fields.
                meta = Metadata(name=owner.name, namespace=pod.metadata.namespace, annotations=pod.metadata.annotations)
                found = JobRecord(
                    uid=owner.uid,
                    namespace=meta.namespace,
                    name=owner.name,
                    kind=kind,
                    queue=queue,
                    user=self._user(kind, meta),
                    title=meta.notes.get(TITLE) or "",
                    submitted=at,
                    run_time=declared_time(meta.notes),
                    limit=pod.spec.active_deadline_seconds or 0,
                )
                self._out.append(found)
            if found.deleted is None:
                self.jobs[owner.uid] = found
        return owner.uid

    def _user(self, kind: str, meta: Metadata) -> str:
        """The user who created an object.

        The server's information is more reliable than an annotation, which anyone can set; but an administrator submits
        for others.
        """
        name, groups = self.creators.pop((kind, meta.namespace, meta.name), ("", ()))
        said = meta.notes.get(USER, "")
        return said if said and (not name or ADMINISTRATORS in groups) else name

    # --- groups

    def _group(self, group: Group, gone: bool, now: int, *, listed: bool) -> None:
        """Record the current state of a pod group."""
        meta, spec = group.metadata, group.spec
        key = (meta.namespace, meta.name)
        queue = (spec.queue if spec is not None else None) or DEFAULT_QUEUE
        phase = (group.status.phase if group.status is not None else None) or ""
        admitted = phase not in ("", "Pending")
        known = self._groups.get(key)
        if known is None or known.uid != meta.uid:
            known = self._groups[key] = self._new_group(group, queue)
            if listed:  # it may have been recorded before
                known.reason, known.admitted = self.kept.last_reason(known.job), admitted
        known.queue = queue
        if admitted and not known.admitted:
            self._event(now, "Admitted", self.jobs.get(known.job), job=known.job, queue=queue, namespace=meta.namespace)
        known.admitted = admitted
        why = why_waits(group.status.conditions if group.status is not None else None)
        self._waits(known, why, now, meta.namespace)
        if gone:
            self._forget_group(key, moment(meta.deletion_timestamp) or now)

    def _forget_group(self, key: Key, deleted: int) -> None:
        """Drop a deleted group, but remember it for pods that are seen later."""
        group = self._groups.pop(key)
        group.deleted = deleted
        _remember(self._deleted_groups, key, group)
        job = self.jobs.get(group.uid)
        if job is not None:
            self._delete_job(job, deleted)

    def _missing_groups(self, present: set[str], now: int) -> None:
        """Record groups that were deleted while nothing was watched."""
        deleted = min(self.seen or now, now)
        for key in sorted(key for key, group in self._groups.items() if group.uid not in present):
            self._forget_group(key, deleted)
        for uid, job in sorted(self.jobs.items()):
            if job.kind == POD_GROUP and uid not in present:
                self._delete_job(job, deleted)

    def _new_group(self, group: Group, queue: str) -> _Group:
        meta = group.metadata
        owner = meta.controller or next(iter(meta.owner_references or ()), None)
        if owner is not None:
            return _Group(meta.uid, meta.name, queue, owner.uid, False)
        if meta.uid not in self.jobs:
            found = self.kept.job(meta.uid) or JobRecord(
                uid=meta.uid,
                namespace=meta.namespace,
                name=meta.name,
                kind=POD_GROUP,
                queue=queue,
                user=self._user(POD_GROUP, meta),
                submitted=moment(meta.creation_timestamp) or 0,
                minimum=(group.spec.min_member if group.spec is not None else None) or 0,
            )
            self.jobs[meta.uid] = found
            self._out.append(found)
        return _Group(meta.uid, meta.name, queue, meta.uid, False)

    def _waits(self, group: _Group, why: tuple[str, str], now: int, namespace: str) -> None:
        """Record the reason why a group waits, if it is new; different numbers alone are ignored for a while."""
        text = ": ".join(why) if why[0] else ""
        same = _NUMBERS.sub("#", text) == _NUMBERS.sub("#", group.reason)
        if text == group.reason or (same and now - group.told < REPEATED):
            return
        group.reason, group.told = text, now
        if text:
            job = self.jobs.get(group.job)
            self._event(
                now,
                "Waiting",
                job,
                job=group.job,
                queue=group.queue,
                namespace=namespace,
                reason=why[0],
                message=why[1],
            )

    # --- pods

    @property
    def holds(self) -> bool:
        """True if pods are held back until their group is seen, so that `take` must be called again soon."""
        return bool(self._held)

    def _take_pods(self, pods: Changes, now: int) -> None:
        """Process held pods and new ones; the newer state of a pod counts."""
        held = self._held_but(pods) if self._held else []
        for pod, gone, listed in held:
            if not self._hold(pod, gone, listed=listed):
                self._pod(pod, gone, now, listed=listed)
        present, listed = set(), pods.listed is not None
        for pod, gone in self._read(pods, read_pod):
            if listed:
                present.add(pod.metadata.uid)
            if not self._hold(pod, gone, listed=listed):
                self._pod(pod, gone, now, listed=listed)
        if listed:
            self._missing_pods(present, now)

    def _held_but(self, pods: Changes) -> list[tuple[Pod, bool, bool]]:
        """Pods that were held back, without those in new changes."""
        before = self.unreadable
        newer = {pod.metadata.uid for pod, _ in self._read(pods, read_pod)}
        self.unreadable = before  # they are read again
        return [(each.pod, each.gone, each.listed) for uid, each in self._held.items() if uid not in newer]

    def _hold(self, pod: Pod, gone: bool, *, listed: bool) -> bool:
        """Hold back a new pod for a while if its group was not seen yet: watches of kinds are not synchronized."""
        meta = pod.metadata
        before = self._held.pop(meta.uid, None)
        times = before.times if before is not None else 0
        if times == HELD or meta.uid in self.pods or meta.uid in self._over:
            return False
        if not meta.notes.get(GROUP_NAME) or self._group_of(meta) is not None:
            return False
        if listed and (pod.state.phase or "") in OVER:  # the group of a finished job no longer exists
            return False
        self._held[meta.uid] = _Held(pod, gone, listed, times + 1)
        return True

    def _group_of(self, meta: Metadata) -> _Group | None:
        """The group of a pod: the one with the name, or one that was deleted after the pod was created."""
        key = (meta.namespace, meta.notes.get(GROUP_NAME, ""))
        found = self._groups.get(key)
        if found is None and (deleted := self._deleted_groups.get(key)) is not None:
            created = moment(meta.creation_timestamp) or 0
            found = deleted if deleted.deleted is None or created <= deleted.deleted else None
        return found

    def _pod(self, pod: Pod, gone: bool, now: int, *, listed: bool) -> None:
        """Record the current state of a pod."""
        meta = pod.metadata
        uid = meta.uid
        if uid in self._over:
            if gone:
                self._over.discard(uid)
            return
        old = self.pods.get(uid) or (self.kept.pod(uid) if listed else None)
        if old is not None and old.ended is not None:
            if not gone:
                self._over.add(uid)
            return
        new = self._pod_record(pod, old, gone, now)
        if old is None:  # the creator only counts for a pod that is a job by itself, whose record has it now
            self.creators.pop(("Pod", meta.namespace, meta.name), None)
        self._pod_events(pod, new, old, now)
        if new.ended is None:
            self.pods[uid] = new
        else:
            self.pods.pop(uid, None)
            self._evicted.pop(uid, None)
            self._nominated.pop(uid, None)
            self._alone.pop(uid, None)
            if not gone:
                self._over.add(uid)
        if new != old:
            self._out.append(new)
            self._account(new, old)

    def _pod_record(self, pod: Pod, old: PodRecord | None, gone: bool, now: int) -> PodRecord:
        meta, spec, status = pod.metadata, pod.spec, pod.state
        group = self._group_of(meta)
        queue = group.queue if group is not None else self._queue_without_group(meta, old)
        runs = Runs.of(pod)
        bound = (old.bound if old is not None else None) or self._bound(pod, now)
        state = OVER.get(status.phase or "") or (RUNNING if runs.started else PENDING)
        ended, reason = None, ""
        if state in (SUCCEEDED, FAILED):
            ended = runs.ended or now
            reason = status.reason or runs.reason
            if state == FAILED and meta.deletion_timestamp and old is not None and old.state != FAILED:
                state, reason = DELETED, status.reason or ""  # its node has stopped it because of that
        elif gone:
            ended, reason = runs.ended or now, status.reason or ""
            state = DELETED
        if ended is not None and self._is_evicted(pod):
            state, reason = EVICTED, reason or "Evicted"
        if old is not None:  # the requests of a pod stay unchanged
            submitted, resources, task, run_time = old.submitted, old.resources, old.task, old.run_time
        else:
            submitted, resources = moment(meta.creation_timestamp) or 0, amounts_of(spec)
            task, run_time = shared(meta.notes.get(TASK) or ""), declared_time(meta.notes)
        return PodRecord(  # shared parts of pods are in memory once
            uid=meta.uid,
            namespace=shared(meta.namespace),
            name=meta.name,
            job=old.job if old is not None else shared(self._job_of(pod, group, queue)),
            queue=queue,
            task=task,
            resources=resources,
            submitted=submitted,
            bound=bound,
            started=runs.started or (old.started if old is not None else None),
            ended=max(ended, bound or submitted) if ended is not None else None,
            node=shared(spec.node_name or ""),
            state=state,
            reason=reason,
            exit_code=runs.exit_code,
            restarts=runs.restarts,
            run_time=run_time,
        )

    def _queue_without_group(self, meta: Metadata, old: PodRecord | None) -> str:
        """The queue of a pod whose group is gone or never existed: its own, the previous one, or that of its job."""
        said = meta.notes.get(QUEUE_NAME) or (old.queue if old is not None else "")
        owner = meta.controller
        if said or owner is None:
            return said
        job = self.jobs.get(owner.uid) or self._deleted_jobs.get(owner.uid) or self.kept.job(owner.uid)
        return job.queue if job is not None else ""

    def _bound(self, pod: Pod, now: int) -> int | None:
        if not pod.spec.node_name:
            return None
        scheduled = condition(pod, "PodScheduled")
        at = moment(scheduled.last_transition_time) if scheduled is not None and scheduled.status == "True" else None
        return at or moment(pod.state.start_time) or now

    def _is_evicted(self, pod: Pod) -> bool:
        if pod.metadata.uid in self._evicted:
            return True
        found = condition(pod, "DisruptionTarget")
        return found is not None and found.status == "True" and found.reason == "PreemptionByScheduler"

    def _job_of(self, pod: Pod, group: _Group | None, queue: str) -> str:
        """The uid of the job of a pod: from its owner, from its group, or its own."""
        owner = pod.metadata.controller
        if owner is not None and owner.uid:
            return self._owner_job(owner, pod, queue)
        if group is not None and group.job != pod.metadata.uid:
            return group.job
        meta = pod.metadata
        return self._owner_job(Owner("v1", "Pod", meta.name, meta.uid), pod, queue)

    def _pod_events(self, pod: Pod, new: PodRecord, old: PodRecord | None, now: int) -> None:
        meta, status = pod.metadata, pod.state
        about: dict[str, str] = {"pod": new.name, "pod_uid": new.uid, "queue": new.queue}
        nominated = status.nominated_node_name or ""
        if nominated and not new.node and self._nominated.get(new.uid) != nominated:
            self._nominated[new.uid] = nominated
            self._event(
                now, "Nominated", self.jobs.get(new.job), job=new.job, namespace=new.namespace, node=nominated, **about
            )
        disturbed = condition(pod, "DisruptionTarget")
        if disturbed is not None and disturbed.status == "True" and new.uid not in self._evicted:
            at = moment(disturbed.last_transition_time) or now
            self._event(
                at,
                "Disturbed",
                self.jobs.get(new.job),
                job=new.job,
                namespace=new.namespace,
                node=new.node,
                reason=disturbed.reason or "",
                message=disturbed.message or "",
                **about,
            )
        if old is not None and new.restarts > old.restarts:
            why = f"its container was started again, {plural(new.restarts, 'time')} so far"
            self._event(
                now,
                "Restarted",
                self.jobs.get(new.job),
                job=new.job,
                namespace=new.namespace,
                node=new.node,
                message=why,
                **about,
            )
        if not meta.notes.get(GROUP_NAME) and not new.node:
            scheduled = condition(pod, "PodScheduled")
            if scheduled is not None and scheduled.status == "False":
                alone = self._alone.setdefault(new.uid, _Group(new.uid, new.name, new.queue, new.job, False))
                self._waits(alone, (scheduled.reason or "Unschedulable", scheduled.message or ""), now, new.namespace)
        else:
            self._alone.pop(new.uid, None)

    def _account(self, new: PodRecord, old: PodRecord | None) -> None:
        """Update the record of a job other than a Volcano job: it ends with its last pod."""
        job = self.jobs.get(new.job) or self._deleted_jobs.get(new.job)
        if job is None or job.kind == VOLCANO_JOB:
            return
        known = self.jobs if job.deleted is None else self._deleted_jobs
        count = self._running.get(new.job, 0)
        if old is None:
            count += 1
        if new.ended is not None:
            count -= 1
        self._running[new.job] = count
        state = new.state if not count else ""
        changed = replace(
            job,
            queue=new.queue or job.queue,
            pods=job.pods + (old is None),
            cpus=job.cpus + (new.resources.get("cpu", 0) if old is None else 0),
            ended=new.ended if not count else None,
            state=FAILED if job.state == FAILED and state == SUCCEEDED else state,
        )
        if changed != job:
            known[new.job] = changed
            self._out.append(changed)
        if not count:  # a later pod finds it again
            del self._running[new.job]
            if job.kind != POD_GROUP and job.deleted is None:
                del self.jobs[new.job]

    def _missing_pods(self, present: set[str], now: int) -> None:
        """Record pods that vanished while nothing was watched; they are known to have existed until then."""
        for uid in sorted(self.pods.keys() - present):
            old = self.pods.pop(uid)
            self._nominated.pop(uid, None)
            ended = max(min(self.seen or now, now), old.bound or old.submitted)
            state = EVICTED if self._evicted.pop(uid, None) else LOST
            reason = "GoneWhileNotRecorded" if state == LOST else "Evicted"
            new = replace(old, ended=ended, state=state, reason=reason)
            self._out.append(new)
            self._account(new, old)
        self._over &= present

    def _tell_evictions(self, evictions: Sequence[Evicted]) -> None:
        """Record evictions, once the pods are as complete as they will be."""
        made = {each.uid: each for each in self._out if isinstance(each, PodRecord)} if evictions else {}
        self._untold = [each for each in evictions if each.uid in self._held]
        for each in evictions:
            if each.uid in self._held:
                continue
            pod = self.pods.get(each.uid) or made.get(each.uid)
            if pod is None:  # its end was seen before the reason
                del self._evicted[each.uid]
                pod = self.kept.pod(each.uid)
                if pod is not None and pod.state in (DELETED, FAILED):
                    self._out.append(replace(pod, state=EVICTED, reason=pod.reason or "Evicted"))
            namespace, _, name = each.pod.partition("/")
            about = {} if pod is None else {"job": pod.job, "queue": pod.queue}
            self._out.append(
                Event(
                    time=each.time,
                    what="Evicted",
                    namespace=namespace,
                    pod=name,
                    pod_uid=each.uid,
                    node=each.node,
                    by=each.by,
                    by_job=each.by_job,
                    by_queue=each.by_queue,
                    action=each.action,
                    **{"job": "", **about},
                )
            )

    def _event(self, time: int, what: What, about: JobRecord | None, **facts: str) -> None:
        given = {"job": about.uid, "namespace": about.namespace, "queue": about.queue} if about is not None else {}
        self._out.append(Event(time=time, what=what, **{**given, **facts}))

    # --- reading

    def _read(self, changes: Changes, read: Callable[[bytes], T]) -> Iterator[tuple[T, bool]]:
        """The last state of each object, and True if it was deleted.

        One at a time: a list may have a hundred thousand objects, which together would take hundreds of megabytes.
        """
        for text, gone in last_texts(changes):
            try:
                found = read(text)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                self.unreadable += 1
            else:
                yield found, gone


def _remember(known: dict[K, T], key: K, value: T) -> None:
    """Keep the newest deleted objects."""
    known.pop(key, None)
    known[key] = value
    if len(known) > MOST_DELETED:
        del known[next(iter(known))]


def _words(reason: str | None, message: str | None) -> str:
    return ": ".join(each for each in (reason, message) if each)


def _before_binds(records: Sequence[Record]) -> list[Record]:
    """Records, with admissions that were seen together with the first bind placed before it."""
    binds: dict[str, int] = {}
    for record in records:
        if isinstance(record, PodRecord) and record.bound is not None:
            binds[record.job] = min(record.bound, binds.get(record.job, record.bound))
    return [
        replace(record, time=min(record.time, binds.get(record.job, record.time)))
        if isinstance(record, Event) and record.what == "Admitted"
        else record
        for record in records
    ]


def _newest(records: Iterable[Record]) -> list[Record]:
    """The last record of each job and pod."""
    found: dict[object, Record] = {}
    for number, record in enumerate(records):
        key: object = (type(record), record.uid) if not isinstance(record, Event) else number
        found[key] = record
    return list(found.values())
