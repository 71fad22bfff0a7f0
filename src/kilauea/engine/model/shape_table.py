"""The shapes of one session: one for all tasks that cannot be distinguished."""

from __future__ import annotations

from collections.abc import Hashable

from kilauea.engine.model.claims.table import Wish
from kilauea.engine.model.placements import LabelClasses
from kilauea.engine.model.resources import ResourceAxis
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task


class ShapeTable:
    """Gives tasks their shapes; one for each session."""

    def __init__(self, axis: ResourceAxis, classes: LabelClasses, selected: frozenset[str] | None, images: bool):
        self._axis = axis
        self._classes = classes
        self._selected = selected
        """Label keys that any selector names; None when no pods are selected at all."""
        self._images = images
        self._shapes: dict[tuple[object, ...], TaskShape] = {}

    def __len__(self) -> int:
        return len(self._shapes)

    def shape_of(
        self,
        task: Task,
        owner: str,
        queue: str = "",
        claims: tuple[Wish, ...] = (),
        traits: tuple[tuple[str, Hashable], ...] = (),
    ) -> TaskShape:
        """The shape of a task; `owner`, `queue`, `claims` and `traits` as in `TaskShape`."""
        images = task.images if self._images else (0, ())
        key: tuple[object, ...] = (task.spec, images, owner, queue, claims, traits)
        if self._selected is not None:
            namespace, labels = self._classes.get(task.label_class)
            chosen = tuple((k, labels[k]) for k in sorted(self._selected & labels.keys()))
            key = (*key, namespace, chosen)
        shape = self._shapes.get(key)
        if shape is None:
            if owner or claims or traits:
                shape = self.shape_of(task, "", queue).variant(owner, claims, traits)
            else:
                shape = TaskShape(task.spec, self._classes.get(task.label_class), images, queue, self._axis)
            self._shapes[key] = shape
        return shape
