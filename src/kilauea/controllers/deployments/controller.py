"""The controller of deployments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kilauea.api.kinds import DEPLOYMENTS, PODS, REPLICA_SETS
from kilauea.api.ports import Interest, Key, Obj, Operation, Outcome, Patch, Record, View, key_of
from kilauea.controllers.deployments import revisions, scaling
from kilauea.controllers.deployments.revisions import HASH, REVISION
from kilauea.controllers.deployments.status import (
    ConditionState,
    availability,
    conditions,
    counts,
    failure,
    is_complete,
    late_in,
    progress,
)
from kilauea.controllers.objects import (
    NOTHING,
    annotations_of,
    condition_of,
    controller_of,
    dependents,
    is_going,
    labels_of,
    name_of,
    own_key,
    owned_by,
    spec_of,
    status_of,
    status_patch,
)
from kilauea.controllers.pods import is_finished


def _keys_of_pod(pod: Obj) -> Iterable[Key]:
    """Yield the key of the deployment of a pod's replica set, which may wait for the pod to be deleted."""
    owner, digest = controller_of(pod), labels_of(pod).get(HASH)
    if owner is None or not digest or owner["kind"] != REPLICA_SETS.kind or not is_going(pod):
        return ()
    return (Key(pod["metadata"]["namespace"], owner["name"].removesuffix(f"-{digest}")),)


class DeploymentController:
    """Rolls out deployments."""

    name = "deployment-controller"
    interests = (
        Interest(DEPLOYMENTS, own_key),
        dependents(REPLICA_SETS, DEPLOYMENTS, delay=0.0),
        Interest(PODS, _keys_of_pod),
    )

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Take the next step of a rollout, and report its progress."""
        deployment = view.get(DEPLOYMENTS, key)
        if deployment is None:
            return NOTHING
        owned, operations = revisions.claim(view, deployment)
        rollout = Rollout(view, deployment, owned, now)
        if not is_going(deployment):
            operations += rollout.step()
        operations += rollout.tell()
        return Outcome(operations, late_in(deployment, now))


class Rollout:
    """One reconciliation of a deployment.

    Attributes:
        said: the condition Progressing to set before it is derived from the counts.
        collisions: number of times that names of replica sets were taken.
    """

    def __init__(self, view: View, deployment: Obj, owned: Sequence[Obj], now: int) -> None:
        self._view = view
        self._deployment = deployment
        self._owned = owned
        self._now = now
        self._newest = revisions.current(deployment, owned)
        self._old = [each for each in owned if each is not self._newest]
        self.said: ConditionState | None = None
        self.collisions = int(status_of(deployment).get("collisionCount") or 0)

    def step(self) -> list[Operation]:
        """Return the next operations."""
        deployment, owned, newest = self._deployment, self._owned, self._newest
        paused = bool(spec_of(deployment).get("paused"))
        self._say_pause(paused)
        if paused or scaling.resized(deployment, owned):
            operations = self._scaled(scaling.in_proportion(deployment, owned, newest))
            return operations + self._kept_current(paused)
        if newest is not None:
            operations = revisions.refreshed(deployment, owned, newest)
            operations += revisions.set_revision(
                deployment, revisions.wanted_annotations(deployment, owned, newest)[REVISION]
            )
            self._found(newest)
            return operations + (self._roll(newest) if scaling.is_rolling(deployment) else self._recreate(newest))
        if scaling.is_rolling(deployment):
            return self._begin()
        return self._emptied() or ([] if self._old_pods() else self._begin())

    def _say_pause(self, paused: bool) -> None:
        """Set the condition for a pause: a paused deployment neither progresses nor misses its deadline."""
        before = condition_of(self._deployment, "Progressing")
        was = before is not None and before.get("reason") == "DeploymentPaused"
        if spec_of(self._deployment).get("progressDeadlineSeconds") is None or was == paused:
            return
        if paused:
            self.said = ConditionState("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused")
        else:
            self.said = ConditionState("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed")

    def _kept_current(self, paused: bool) -> list[Operation]:
        """Update a deployment that is paused or resized, without a rollout; old revisions may still be deleted."""
        return revisions.forgotten(self._deployment, self._old) if paused else []

    def _found(self, newest: Obj) -> None:
        if condition_of(self._deployment, "Progressing") is None:
            message = f'Found new replica set "{name_of(newest)}"'
            self.said = ConditionState("Progressing", "True", "FoundNewReplicaSet", message)

    def _begin(self) -> list[Operation]:
        """Create the replica set of a new template."""
        deployment, owned = self._deployment, self._owned
        size = scaling.new_size(deployment, owned, 0)
        creation, self.collisions = revisions.new_replica_set(self._view, deployment, owned, size)
        name, annotations = creation.body["metadata"]["name"], creation.body["metadata"]["annotations"]
        operations: list[Operation] = [creation]
        if size:
            operations.append(self._told("up", name, 0, size))
        self.said = ConditionState("Progressing", "True", "NewReplicaSetCreated", f'Created new replica set "{name}"')
        return operations + revisions.set_revision(deployment, annotations[REVISION])

    def _roll(self, newest: Obj) -> list[Operation]:
        """Add new pods first, then remove old ones."""
        owned = self._owned
        has = scaling.wanted_replicas(newest)
        size = scaling.new_size(self._deployment, owned, has)
        if size != has:
            return self._scaled({owned.index(newest): size})
        return self._scaled(scaling.old_sizes(self._deployment, owned, newest)) or self._tidy()

    def _recreate(self, newest: Obj) -> list[Operation]:
        """Create new pods once no old ones are left."""
        emptied = self._emptied()
        if emptied:
            return emptied
        if self._old_pods():
            return []
        wanted, has = scaling.wanted_replicas(self._deployment), scaling.wanted_replicas(newest)
        return self._scaled({self._owned.index(newest): wanted}) if wanted != has else self._tidy()

    def _emptied(self) -> list[Operation]:
        """Scale old replica sets to zero."""
        old = {place: 0 for place, each in enumerate(self._owned) if each is not self._newest}
        return self._scaled(old) if any(map(scaling.wanted_replicas, self._old)) else []

    def _old_pods(self) -> bool:
        """True if pods of old templates may still run."""
        return any(not is_finished(pod) for each in self._old for pod in owned_by(self._view, PODS, each))

    def _tidy(self) -> list[Operation]:
        """Delete old revisions once a rollout is complete."""
        done = is_complete(self._deployment, counts(self._deployment, self._owned, self._newest))
        return revisions.forgotten(self._deployment, self._old) if done else []

    def _scaled(self, sizes: dict[int, int]) -> list[Operation]:
        """Scale replica sets, by their index, and record the figures that the sizes are based on."""
        desired, maximum = (str(number) for number in scaling.figures(self._deployment))
        figures = {scaling.DESIRED: desired, scaling.MAXIMUM: maximum}
        operations: list[Operation] = []
        for place, each in enumerate(self._owned):
            patch: dict[str, Any] = {}
            has = scaling.wanted_replicas(each)
            size = sizes.get(place, has)
            if (size or has) and not figures.items() <= annotations_of(each).items():
                patch["metadata"] = {"annotations": figures}
            if size != has:
                patch["spec"] = {"replicas": size}
            if patch:
                operations.append(Patch(REPLICA_SETS, key_of(each), patch))
            if size != has:
                operations.append(self._told("up" if size > has else "down", name_of(each), has, size))
        return operations

    def _told(self, way: str, name: str, before: int, after: int) -> Record:
        message = f"Scaled {way} replica set {name} from {before} to {after}"
        return Record(self._deployment, "Normal", "ScalingReplicaSet", message)

    def tell(self) -> list[Patch]:
        """Update the status, if it has changed."""
        deployment = self._deployment
        status = counts(deployment, self._owned, self._newest)
        said = [(availability(deployment, status), False)]
        if self.said is not None:
            said.append((self.said, True))
        elif not spec_of(deployment).get("paused"):
            new, renewed = progress(deployment, status, self._newest, self._now)
            said += [(new, renewed)] if new else []
        if refused := failure(self._owned, self._newest):
            said.append((refused, False))
        status["conditions"] = conditions(deployment, said, self._now) or None
        status["collisionCount"] = self.collisions or None
        return status_patch(DEPLOYMENTS, deployment, status)
