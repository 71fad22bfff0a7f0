"""A request under review, the interface of hooks, and rejections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kilauea.api.ports import Obj, Resource, View

Operation = Literal["CREATE", "UPDATE", "DELETE"]
JsonPatch = list[dict[str, Any]]
"""Operations of RFC 6902."""


class Denied(Exception):
    """The request is refused; the message is what its caller reads."""

    @property
    def message(self) -> str:
        """The reason."""
        return str(self)


@dataclass(frozen=True)
class Review:
    """A request to admit.

    Attributes:
        operation: what is to be done.
        resource: the kind of object.
        namespace: empty for kinds without one.
        name: of the object; may be empty while the server has not made up one (`generateName`).
        obj: the object as it would be; None for DELETE.
        old: the object as it is; None for CREATE.
        user: who asks.
        dry_run: nothing is going to be stored.
    """

    operation: Operation
    resource: Resource
    namespace: str
    name: str
    obj: Obj | None
    old: Obj | None
    user: str = ""
    dry_run: bool = False


def accept_template(_template: Mapping[str, Any]) -> Sequence[str]:
    """Nothing is wrong with any pod template: for where the rules of pods are not at hand."""
    return ()


@dataclass(frozen=True)
class Settings:
    """Options of admission.

    Attributes:
        scheduler_names: whose pods are looked at; the first is the default of jobs.
        max_queue_depth: levels of queues below root.
        protect_root: reject changes to the resources of the queue `root`.
        check_allocated_pods: a queue with allocated pods cannot be deleted.
        resource_groups: the items of `resourceGroups` in the file that `--admission-conf` names, decoded.
        queue_allocation_gate: pods that ask for it get the scheduling gate of queue admission.
        check_template: messages of what is wrong with a pod template.
    """

    scheduler_names: tuple[str, ...] = ("volcano",)
    max_queue_depth: int = 5
    protect_root: bool = True
    check_allocated_pods: bool = False
    resource_groups: tuple[Mapping[str, Any], ...] = ()
    queue_allocation_gate: bool = False
    check_template: Callable[[Mapping[str, Any]], Sequence[str]] = accept_template


Mutate = Callable[[Review, View, Settings], JsonPatch]
Validate = Callable[[Review, View, Settings], list[str]]


@dataclass(frozen=True)
class Hook:
    """The admission of one kind, under the address and the name by which clusters know it.

    Attributes:
        path: of the webhook's address, e.g. `/jobs/mutate`.
        name: of the webhook, e.g. `mutatejob.volcano.sh`; refusals carry it.
        resource: the kind it is for.
        operations: those it wants to see.
        mutate: what to change; raises `Denied`.
        validate: raises `Denied`; returns warnings.
    """

    path: str
    name: str
    resource: Resource
    operations: tuple[Operation, ...]
    mutate: Mutate | None = None
    validate: Validate | None = None
