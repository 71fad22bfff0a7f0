"""The maximum cost of an expression, from the sizes that the types of its variables allow.

Kubernetes rejects rules by this estimate, so it must be the same number: a value without a limit has the largest 64-bit
size. The size of a part is known for literals, for fields and elements of variables, and for results of some functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kilauea.api.cel.typing.call_costs import estimate_of
from kilauea.api.cel.typing.checker import Checked
from kilauea.api.cel.typing.expansion import Fold
from kilauea.api.cel.typing.signatures import Overload
from kilauea.api.cel.typing.sizes import ONE, UNKNOWN, Estimate, Size, capped
from kilauea.api.cel.typing.types import OPTIONAL, SCALARS, Type

_LIST, _MAP = 10, 30
"""Cost of creating one."""


class _Entry(NamedTuple):
    """The sizes of the keys and values of a container."""

    is_list: bool
    key: Size
    value: Size


class _Path:
    """The steps from a variable to a part of it: fields, `@items`, `@keys`, `@values`.

    The reference estimator keeps paths in slices whose arrays double when full. Paths that extend the same one share
    its array, so a later sibling may overwrite the last step of an earlier one. Clusters accept rules by its estimates,
    which can be reproduced only with this behavior.
    """

    __slots__ = ("_array", "_length")

    def __init__(self, array: list[str], length: int) -> None:
        self._array = array
        self._length = length

    @staticmethod
    def below(path: _Path | None, step: str) -> _Path:
        """Return a path extended by a step."""
        if path is None:
            return _Path([step], 1)
        array, length = path._array, path._length
        if length == len(array):
            array = array + [""] * length
        array[length] = step
        return _Path(array, length + 1)

    def declared(self, root: Type, *more: str) -> Type | None:
        """Return the declared type at the end of the path; None if there is none."""
        found: Type | None = root
        for step in (*self._array[1 : self._length], *more):  # the first step is treated as a variable
            found = None if found is None else _child(found, step)
        return found


def _child(kind: Type, step: str) -> Type | None:
    if step in ("@items", "@values"):
        return kind.params[-1] if kind.kind in ("list", "map") else None
    if step == "@keys":
        return kind.params[0] if kind.kind == "map" else None
    return kind.fields.get(step)


class _Local(NamedTuple):
    """A variable of a fold."""

    path: _Path | None
    size: Size | None
    entry: _Entry | None


def estimated_cost(checked: Checked, root: Type) -> int:
    """Return the maximum cost of an expression; `root` is the type of its variables, with their declared sizes."""
    return _Estimator(root).cost(checked)


class _Estimator:
    def __init__(self, root: Type) -> None:
        self._root = root
        self._locals: dict[str, list[_Local]] = {}
        self._paths: dict[Checked, _Path | None] = {}
        self._sizes: dict[Checked, Size] = {}
        self._entries: dict[Checked, _Entry] = {}

    def cost(self, checked: Checked) -> int:
        """Return the maximum cost of a part."""
        kind = checked.node.kind
        if kind == "literal":
            return 0
        if kind == "name":
            return self._name(checked)
        if kind in ("select", "test"):
            return self._select(checked)
        if kind == "list":
            return self._list(checked)
        if kind == "map":
            return self._map(checked)
        if kind == "fold":
            return self._bind(checked) if checked.node.value.is_bind else self._fold(checked)
        return self._call(checked)

    # --- sizes

    def _local(self, checked: Checked) -> _Local | None:
        stack = self._locals.get(checked.node.value) if checked.node.kind == "name" else None
        return stack[-1] if stack else None

    def _path(self, checked: Checked) -> _Path | None:
        local = self._local(checked)
        return self._paths.get(checked) if local is None else local.path

    def _size(self, checked: Checked) -> Size | None:
        known = self._sizes.get(checked)
        if known is None:
            known = _literal_size(checked)
        if known is not None:
            return known
        path = self._path(checked)
        declared = None if path is None else path.declared(self._root)
        if declared is not None:
            self._sizes[checked] = Size(0, declared.most)
            return self._sizes[checked]
        if _is_scalar(checked.type):
            return ONE
        local = self._local(checked)
        return None if local is None else local.size

    def size(self, checked: Checked) -> Size:
        """Return the size of a part."""
        return self._size(checked) or UNKNOWN

    def element_size(self, checked: Checked) -> Size:
        """Return the size of the elements of a list, from its declared type only."""
        path = self._path(checked)
        declared = None if path is None else path.declared(self._root, "@items")
        return UNKNOWN if declared is None else Size(0, declared.most)

    def _entry(self, checked: Checked) -> _Entry | None:
        known = self._entries.get(checked)
        local = self._local(checked) if known is None else None
        return known if local is None else local.entry

    # --- forms

    def _name(self, checked: Checked) -> int:
        local = self._local(checked)
        self._paths[checked] = _Path.below(None, str(checked.node.value)) if local is None else local.path
        return 1

    def _select(self, checked: Checked) -> int:
        target = checked.parts[0]
        cost = self.cost(target)
        if checked.node.kind == "test":
            return cost
        if checked.node.optional:
            return capped(cost + 1)
        self._paths[checked] = _Path.below(self._path(target), str(checked.node.value))
        return capped(cost + (target.type.kind in ("map", "object")))

    def _list(self, checked: Checked) -> int:
        cost = sum(self._costs(checked))
        self._entries[checked] = _Entry(True, ONE, self._any_of(checked.parts))
        return capped(cost + _LIST)

    def _map(self, checked: Checked) -> int:
        cost = sum(self.cost(part) for part in checked.parts)
        keys, values = self._any_of(checked.parts[::2]), self._any_of(checked.parts[1::2])
        self._entries[checked] = _Entry(False, keys, values)
        return capped(cost + _MAP)

    def _any_of(self, parts: Sequence[Checked]) -> Size:
        """Return the size of one of several parts."""
        sizes = [self.size(part) for part in parts] or [Size(0, 0)]
        return Size(min(size.least for size in sizes), max(size.most for size in sizes))

    def _bind(self, checked: Checked) -> int:
        over, init, _, _, result = checked.parts
        fold: Fold = checked.node.value
        cost = self.cost(over) + self.cost(init)
        self._push(fold.made, _Local(self._path(init), self._size(init), self._entry(init)))
        cost += self.cost(result)
        self._copy(checked, result)
        self._locals[fold.made].pop()
        return capped(cost)

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _copy(self, checked: Checked, source: Checked) -> None:
        size, entry = self._size(source), self._entry(source)
        if size is not None:
            self._sizes[checked] = size
        if entry is not None:
            self._entries[checked] = entry

    def _fold(self, checked: Checked) -> int:
        over, init, condition, step, result = checked.parts
        fold: Fold = checked.node.value
        cost = self.cost(over) + self.cost(init)
        self._push(fold.made, _Local(self._path(init), self._size(init), self._entry(init)))
        for name, local in zip(fold.names, self._elements(over, len(fold.names)), strict=True):
            self._push(name, local)
        each = capped(self.cost(condition) + self.cost(step))
        for name in fold.names:
            self._locals[name].pop()
        cost += self.cost(result)
        self._locals[fold.made].pop()
        count = self.size(over)
        self._keep(checked, init, step, count)
        return capped(cost + capped(count.most * each))

    def _elements(self, over: Checked, count: int) -> list[_Local]:
        """Return the variables of a loop over the elements of a part."""
        entry, path = self._entry(over), self._path(over)
        is_list = over.type.kind == "list" if entry is None else entry.is_list
        keys = _Local(_Path.below(path, "@indices" if is_list else "@keys"), entry.key if entry else None, None)
        values = _Local(_Path.below(path, "@items" if is_list else "@values"), entry.value if entry else None, None)
        return [keys, values] if count == 2 else [values if is_list else keys]

    def _keep(self, checked: Checked, init: Checked, step: Checked, count: Size) -> None:
        """Record the size of the result of a loop."""
        if init.node.kind == "literal":
            size = self._size(init)
            if size is not None:
                self._sizes[checked] = size
            return
        self._sizes[checked] = count
        entry = self._entry(step)
        if entry is not None:
            self._entries[checked] = entry

    # --- calls

    def _call(self, checked: Checked) -> int:
        if checked.node.value == "dyn" and len(checked.parts) == 1:
            cost = self.cost(checked.parts[0])
            self._copy(checked, checked.parts[0])
            return capped(cost + 1)
        costs = self._costs(checked)
        if checked.node.value in ("&&", "||"):
            return capped(sum(costs))
        if checked.node.value == "?:":
            return self._choice(checked, costs)
        worst, size = 0, None
        for overload in checked.overloads:
            estimate = self._estimate(checked, overload)
            worst = max(worst, estimate.cost)
            if estimate.size is not None:
                size = estimate.size if size is None else size.or_else(estimate.size)
            size = self._indexed(checked, overload, size)
            size = self._size(checked) if size is None else size
        if size is not None:
            self._sizes[checked] = size
        return capped(worst + sum(costs))

    def _costs(self, checked: Checked) -> list[int]:
        """Return the costs of the parts of a call, computing their sizes; the target of a method comes last."""
        costs = []
        for part in (*checked.parts[checked.node.member :], *checked.parts[: checked.node.member]):
            costs.append(self.cost(part))
            self._size(part)
        return costs

    def _choice(self, checked: Checked, costs: list[int]) -> int:
        _, then, otherwise = checked.parts
        self._sizes[checked] = self.size(then).or_else(self.size(otherwise))
        self._join_entries(checked, then, otherwise)
        return capped(costs[0] + max(costs[1:]))

    def _join_entries(self, checked: Checked, left: Checked, right: Checked) -> None:
        one, other = self._entry(left), self._entry(right)
        if one is not None and other is not None:
            entry = _Entry(one.is_list, one.key.or_else(other.key), one.value.or_else(other.value))
            self._entries[checked] = entry

    def _indexed(self, checked: Checked, overload: Overload, size: Size | None) -> Size | None:
        """Record the path of an element; return its size."""
        target = checked.parts[0] if checked.parts else None
        kind = overload.arguments[0].kind if overload.arguments else ""
        if checked.node.kind != "index" or checked.node.optional or target is None or kind not in ("list", "map"):
            return size
        self._paths[checked] = _Path.below(self._path(target), "@items" if kind == "list" else "@values")
        entry = self._entry(target)
        return None if entry is None else entry.value

    def _estimate(self, checked: Checked, overload: Overload) -> Estimate:
        """Return the estimate of a call with one overload, without the cost of its arguments."""
        name = "index" if checked.node.kind == "index" else str(checked.node.value)
        if name == "+":
            self._join_entries(checked, *checked.parts)
        return estimate_of(name, overload, checked.parts, self)


def _literal_size(checked: Checked) -> Size | None:
    node = checked.node
    if node.kind == "literal":
        size = len(node.value) if node.value.__class__ in (str, bytes) else 1
        return Size(size, size)
    if node.kind == "list":
        return Size(len(node.parts), len(node.parts))
    return Size(len(node.parts) // 2, len(node.parts) // 2) if node.kind == "map" else None


def _is_scalar(kind: Type) -> bool:
    return kind.kind in SCALARS or (kind.name == OPTIONAL and _is_scalar(kind.params[0]))
