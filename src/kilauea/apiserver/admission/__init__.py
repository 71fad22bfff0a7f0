"""What looks at a write before it is kept: it may complete the object, and it may refuse.

Steps are asked in order, first all to complete the object (`mutate`), then all to agree to it (`validate`). They run
between reading what is there and writing, without waiting in between, so what they read cannot change under them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from kilauea.apiserver.backend import Backend
from kilauea.apiserver.request import User
from kilauea.apiserver.resources.types import ResourceType

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(slots=True)
class Attributes:
    """What is about to happen.

    Attributes:
        backend: to read other objects.
        operation: what is done; an eviction or a binding is a CREATE of that subresource.
        resource: the kind of the object.
        subresource: empty for the object itself.
        namespace: empty for objects of the cluster.
        name: empty while it is still to be generated.
        obj: the object as it will be; None for deletions. Steps may change it in `mutate`.
        old: the object as it is; None for creations.
        user: who asks.
        dry_run: whether nothing will be written.
        warnings: texts for the caller; steps may add to them.
    """

    backend: Backend
    operation: Operation
    resource: ResourceType
    subresource: str
    namespace: str
    name: str
    obj: dict[str, Any] | None
    old: dict[str, Any] | None
    user: User
    dry_run: bool = False
    warnings: list[str] = field(default_factory=list)


class AdmissionStep:
    """One look at a write; this one has nothing to say."""

    name = ""

    def mutate(self, attributes: Attributes) -> None:
        """Complete the object; raise an `ApiFault` to refuse."""

    def validate(self, attributes: Attributes) -> None:
        """Agree to the final object, or raise an `ApiFault`."""
