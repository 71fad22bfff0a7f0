"""Reads the objects of files and of a live cluster, and completes them as an API server and its controllers would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kilauea.api import wellknown
from kilauea.api.core import Pod
from kilauea.api.decode import Decoded, Manifest
from kilauea.api.defaults import fill_in
from kilauea.api.errors import object_label
from kilauea.api.kinds import KUBERNETES_GROUP
from kilauea.api.meta import Object
from kilauea.api.metrics import NodeMetrics
from kilauea.api.ports import Obj
from kilauea.api.times import SECOND, parse_time
from kilauea.api.validate import check
from kilauea.engine.conf import SchedulerConf
from kilauea.engine.model.kubernetes_groups import key_from, named_group
from kilauea.engine.model.loads import NodeLoad
from kilauea.engine.model.shards import Sharding
from kilauea.runtime.inputs.built_in import built_in_queue
from kilauea.runtime.inputs.expanding.states import states_of
from kilauea.runtime.inputs.files import read_sources
from kilauea.runtime.inputs.known_kinds import unknown
from kilauea.simulator.claims import with_made_claims
from kilauea.simulator.extensions import BUILT_IN, Extensions
from kilauea.simulator.scenario import NotCreated, Scenario
from kilauea.simulator.volumes import with_ephemeral_claims

if TYPE_CHECKING:
    from kilauea.runtime.inputs.snapshot import Snapshot

VOLCANO = "batch.volcano.sh"
"""The API group of jobs whose pods are added even if the jobs are stored."""


@dataclass
class Cluster:
    """Objects from files or a cluster, and problems found while reading them."""

    objects: list[Object] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    newest: int = 0
    """The newest time in the objects, in microseconds since 1970."""
    submitted: tuple[str, ...] = ()
    """Pod groups (`namespace/name`) that files add to a live cluster."""
    groups_of_jobs: dict[str, str] = field(default_factory=dict)
    """Pod groups of Volcano jobs, by job (`namespace/name`)."""
    phases_of_jobs: dict[str, str] = field(default_factory=dict)
    """Phases of Volcano jobs that have ended or are suspended, by job (`namespace/name`)."""
    states: dict[str, str] = field(default_factory=dict)
    """The reason why a workload has no waiting pods, by `job namespace/name` or `cronjob namespace/name`."""
    refused: dict[str, str] = field(default_factory=dict)
    """The reason why a workload (`namespace/name`) is left out."""
    not_created: dict[str, NotCreated] = field(default_factory=dict)
    """Pods that are not created, with the reason, by pod group (`namespace/name`)."""
    refused_pods: dict[str, str] = field(default_factory=dict)
    """The reason why the server refused the pods of a live workload (`Kind namespace/name`)."""
    workloads: list[Obj] = field(default_factory=list)
    """Jobs and cron jobs of Volcano and of Kubernetes, undecoded."""
    loads: Mapping[str, NodeLoad] = field(default_factory=dict)
    """The loads of the nodes of a live cluster, from the configured monitoring system."""
    unusable: int = 0
    """Number of unusable parts of the files: syntax errors, invalid objects, unknown kinds, rejected workloads."""
    errors: list[str] = field(default_factory=list)
    """The warnings that are about unusable parts."""

    def scenario(
        self,
        conf: SchedulerConf,
        now: int | None = None,
        seed: int | None = None,
        extensions: Extensions = BUILT_IN,
        schedulers: Sequence[str] = wellknown.ALL_SCHEDULERS,
        sharding: Sharding | None = None,
    ) -> Scenario:
        """Return the scenario of these objects under a configuration.

        Args:
            conf: the scheduler's configuration.
            now: time of the first cycle, in microseconds since 1970; None for the newest in the objects.
            seed: breaks ties between equally good nodes.
            extensions: plugins and actions.
            schedulers: names of the schedulers that are simulated.
            sharding: the part of the cluster that the scheduler uses; None for all of it.
        """
        at = self.newest if now is None else now
        return Scenario(
            self.objects,
            conf,
            at,
            seed,
            extensions,
            schedulers,
            self.submitted,
            self.not_created,
            warnings=tuple(self.warnings),
            sharding=sharding or Sharding(),
            loads=self.loads,
        )

    def leave_out(self, parts: int, *reasons: str) -> None:
        """Count unusable parts, and add the reasons to the warnings."""
        self.unusable += parts
        self.warnings += reasons
        self.errors += reasons


def read_cluster(
    paths: Sequence[str], note: Callable[[str], None] = lambda _: None, live: Snapshot | None = None, now: int = 0
) -> Cluster:
    """Read objects, set defaults as an API server would, and expand jobs into their groups and pods.

    Unusable objects are left out and reported in the warnings.

    Args:
        paths: files, folders, or `-`; their objects replace live ones.
        note: called with the name of each source before it is read.
        live: the snapshot of a cluster.
        now: creation time of workloads in files that do not state one; 0 for after everything else in the files.

    Raises:
        SourceError: a path cannot be read.
    """
    return assemble_cluster(read_sources(paths, note), live, now)


def assemble_cluster(sources: Iterable[tuple[str, Decoded]], live: Snapshot | None = None, now: int = 0) -> Cluster:
    """Set defaults as an API server would, and expand jobs into their groups and pods.

    Args:
        sources: objects with the name of their source; of several with the same name the last one counts. Objects are
            changed in place.
        live: the snapshot of a cluster.
        now: submission time of workloads that do not state one; 0 for after everything else.
    """
    cluster = Cluster()
    known: dict[tuple[str, str], Object] = {}
    workloads: dict[tuple[str, ...], Obj] = {}
    if live is not None:
        cluster.warnings.extend(live.warnings)
        known.update((_label(obj), obj) for obj in live.objects)
        workloads.update(_planned(live.workloads, Counter()))
        cluster.states.update(states_of(live.workloads))
        cluster.refused_pods = live.refused()
        cluster.workloads += live.workloads
    running = frozenset(known)
    times: Counter[tuple[str, str]] = Counter()
    skipped: Counter[str] = Counter()
    written: set[str] = set()
    for source, decoded in sources:
        cluster.leave_out(len(decoded.errors), *map(str, decoded.errors))
        skipped.update(decoded.skipped)
        cluster.states.update(states_of(decoded.workloads))
        cluster.workloads += decoded.workloads
        planned = dict(_planned(decoded.workloads, skipped))
        workloads.update(planned)
        written.update(f"{namespace}/{name}" for _, namespace, name in planned)
        if decoded.manifests:
            cluster.warnings.extend(_unknown_fields(decoded.manifests))
        for obj in _valid(cluster, source, decoded.objects):
            known[_label(obj)] = obj
            times[_label(obj)] += 1
    for (kind, name), count in times.items():
        if count > 1:
            cluster.warnings.append(f"{kind} {name}: defined {count} times; the last definition is used")
    _tell_skipped(cluster, skipped)
    for name in (wellknown.ROOT_QUEUE, wellknown.DEFAULT_QUEUE):
        known.setdefault(("Queue", name), built_in_queue(name))
    if workloads:
        _expand(cluster, known, list(workloads.values()), now)
        cluster.unusable += len(written & cluster.refused.keys())
        cluster.errors += [f"{name}: {cluster.refused[name]}" for name in sorted(written & cluster.refused.keys())]
    new = [obj for obj in known.values() if isinstance(obj, Pod) and not obj.metadata.uid]
    cluster.warnings.extend(fill_in(list(known.values())))
    bare = [pod for pod in new if pod.spec.scheduler_name in wellknown.GANG_SCHEDULERS and not named_group(pod)]
    if bare:
        _group(known, bare)
    cluster.objects = list(known.values())
    cluster.objects = with_ephemeral_claims(with_made_claims(cluster.objects))
    if live is not None:
        # Jobs of the cluster that are not admitted have no pods yet.
        stored = {group for job, group in cluster.groups_of_jobs.items() if job not in written}
        cluster.submitted = tuple(key for key in _submitted(cluster.objects, running) if key not in stored)
    cluster.newest = newest(cluster.objects)
    return cluster


def _valid(cluster: Cluster, source: str, objects: Iterable[Object]) -> Iterator[Object]:
    """The valid objects of a source; reports the errors of the others."""
    for obj in objects:
        errors = check(obj)
        if errors:
            cluster.leave_out(1, *(f"{source}: {error}; left out" for error in errors))
        else:
            yield obj


def _tell_skipped(cluster: Cluster, skipped: Counter[str]) -> None:
    """Report objects that were not read, by kind: errors for unknown kinds, one warning for all others."""
    skipped.pop("Namespace", None)  # objects name their namespace, whether it exists or not
    skipped.pop("scheduling.k8s.io/Workload", None)  # groups repeat what their template says
    strange = unknown(+skipped)
    cluster.leave_out(len(strange), *(f"kind {kind} is unknown: correct kind and apiVersion" for kind in strange))
    for kind in strange:
        del skipped[kind]
    if +skipped:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted((+skipped).items()))
        cluster.warnings.append(f"ignored objects of kinds that do not affect scheduling: {kinds}")


def _submitted(objects: Iterable[Object], running: Collection[tuple[str, str]]) -> tuple[str, ...]:
    """Groups that are not in the cluster, or have pods that are not in the cluster."""
    added = [obj for obj in objects if _label(obj) not in running]
    named = {named_group(obj) for obj in added if isinstance(obj, Pod)} - {""}
    own = {obj.key for obj in added if obj.kind == "PodGroup"}
    return tuple(sorted(named | own | {key_from(obj.key) for obj in added if obj.kind == KUBERNETES_GROUP}))


def _planned(workloads: Iterable[Obj], skipped: Counter[str]) -> Iterator[tuple[tuple[str, ...], Obj]]:
    """Workloads whose pods do not exist yet, by their identity.

    Kubernetes workloads that a server has stored already have their pods.
    """
    for workload in workloads:
        metadata, group = workload["metadata"], str(workload.get("apiVersion")).rpartition("/")[0]
        if workload["kind"] != "CronJob" and (group == VOLCANO or "uid" not in metadata):
            kind = f"{group}/{workload['kind']}"
            skipped[kind] -= 1
            yield (kind, metadata.get("namespace") or "default", metadata["name"]), workload


def _expand(cluster: Cluster, known: dict[tuple[str, str], Object], workloads: Sequence[Obj], now: int) -> None:
    """Add the groups and pods of workloads."""
    from kilauea.runtime.inputs.expanding import expand  # noqa: PLC0415 - most plans have none, and begin sooner without

    last = max(newest(known.values()), *(_creation(workload) for workload in workloads))
    expansion = expand(workloads, list(known.values()), now or (last + SECOND if last else 0))
    cluster.groups_of_jobs, cluster.phases_of_jobs = expansion.groups, expansion.phases
    cluster.refused, cluster.not_created = expansion.refused, expansion.not_created
    cluster.warnings.extend(expansion.warnings)
    for obj in expansion.objects:
        known.setdefault(_label(obj), obj)


def _group(known: dict[tuple[str, str], Object], pods: Sequence[Pod]) -> None:
    """Add the groups that a cluster creates for new pods that name none."""
    from kilauea.runtime.inputs.expanding.groups import group_pods  # noqa: PLC0415 - as above

    for group in group_pods(pods, known.values()):
        known.setdefault(_label(group), group)


def _unknown_fields(manifests: Sequence[Manifest]) -> Iterator[str]:
    """Warnings about fields that objects in files do not have."""
    from kilauea.runtime.inputs.expanding.unknown import warnings_about  # noqa: PLC0415 - a live cluster has no files

    return warnings_about(manifests)


def _creation(workload: Obj) -> int:
    """Return the creation time of a workload, in microseconds since 1970; 0 if it is missing or invalid."""
    try:
        return parse_time(workload["metadata"].get("creationTimestamp") or "")
    except (TypeError, ValueError, AttributeError):
        return 0


def _label(obj: Object) -> tuple[str, str]:
    return obj.kind, object_label(obj)


def newest(objects: Iterable[Object]) -> int:
    """The newest creation or measurement time, in microseconds since 1970; 0 if there is none."""
    times: set[str | None] = set()
    for obj in objects:
        times.add(obj.metadata.creation_timestamp)
        if isinstance(obj, NodeMetrics):
            times.add(obj.timestamp)
    return max((parse_time(text) for text in times if text), default=0)
