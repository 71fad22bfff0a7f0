"""Amounts in the tree: children get no more than their parent, and no limit exceeds those of queues above.

What a queue does not say counts as nothing in sums, so a parent that is promised nothing cannot promise anything. A
ceiling that is absent or zero does not count; then the next one above counts. Children of root have no limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kilauea.admission.lookups import parent_of
from kilauea.admission.queues.tree import ancestors, children_of, is_below_root, queue_named
from kilauea.admission.queues.values import quantities
from kilauea.admission.review import Denied
from kilauea.admission.wording import not_found
from kilauea.api.kinds import QUEUES
from kilauea.api.ports import Obj, View
from kilauea.api.quantity import QuantityError, Unit, amount, format_amount, unit_of

Amounts = Mapping[str, int]
"""Resource to amount, in the unit of `kilauea.api.quantity.unit_of`."""


def check_sums(queue: Obj, view: View) -> None:
    """Refuse amounts that do not fit those of the queues above and below.

    Raises:
        Denied: with the first that does not.
    """
    parent = parent_of(queue)
    if is_below_root(parent):
        above = queue_named(view, parent)
        if above is None:
            raise Denied(f"parent queue {parent} not found: {not_found(QUEUES, parent)}")
        _check_ceilings_above(queue, view)
        siblings = [each for each in children_of(view, parent) if _name(each) != _name(queue)]
        _check_shares(above, [*siblings, queue], f"parent queue {parent}")
    children = [each for each in children_of(view, _name(queue)) if _name(each) != _name(queue)]
    if children:
        _check_ceiling_below(queue, view)
        _check_shares(queue, children, f"queue {_name(queue)}")


def _name(queue: Obj) -> str:
    return str(queue["metadata"]["name"])


def amounts_of(queue: Obj, kind: str) -> Amounts:
    """The amounts of a queue; those of another one that cannot be read are left out, as nothing can be done here."""
    found = {}
    for name, quantity in quantities(queue, kind).items():
        try:
            found[name] = amount(name, quantity)
        except QuantityError:
            continue
    return found


# --- ceilings


def _check_ceilings_above(queue: Obj, view: View) -> None:
    """The ceilings of a queue, and those under it where it has none, are not above the next one over it."""
    over: dict[str, int] = {}
    for above in ancestors(view, queue):
        for name, ceiling in amounts_of(above, "capability").items():
            if ceiling > 0:
                over.setdefault(name, ceiling)
    for each, name, ceiling in _ceilings(queue, view, sorted(over), {_name(queue)}):
        if ceiling > over[name]:
            message = f"capability[{name}]={_text(name, ceiling)} exceeds its ancestor's capability"
            raise Denied(f"queue {_name(each)} {message}={_text(name, over[name])}")


def _check_ceiling_below(queue: Obj, view: View) -> None:
    """The ceilings of a queue are not below those under it."""
    own = {name: ceiling for name, ceiling in amounts_of(queue, "capability").items() if ceiling > 0}
    highest: dict[str, int] = {}
    for child in children_of(view, _name(queue)):
        for _, name, ceiling in _ceilings(child, view, sorted(own), {_name(queue), _name(child)}):
            highest[name] = max(highest.get(name, 0), ceiling)
    for name, ceiling in sorted(own.items()):
        if highest.get(name, 0) > ceiling:
            message = f"capability[{name}]={_text(name, ceiling)} is smaller than its descendants' max capability"
            raise Denied(f"queue {_name(queue)} {message}={_text(name, highest[name])}")


def _ceilings(queue: Obj, view: View, names: Sequence[str], seen: set[str]) -> Iterator[tuple[Obj, str, int]]:
    """The ceilings of a queue; of resources for which it has none, the first ones in each branch under it."""
    own, open_names = amounts_of(queue, "capability"), []
    for name in names:
        if own.get(name, 0) > 0:
            yield queue, name, own[name]
        else:
            open_names.append(name)
    if not open_names:
        return
    for child in children_of(view, _name(queue)):
        if _name(child) not in seen:
            yield from _ceilings(child, view, open_names, seen | {_name(child)})


def _text(name: str, value: int) -> str:
    """Cpu and memory as quantities, others as numbers with two decimals."""
    return format_amount(name, value) if name in ("cpu", "memory") else f"{value:.2f}"


# --- shares


def _check_shares(parent: Obj, children: Iterable[Obj], who: str) -> None:
    """Check that the guarantees of children, and what they deserve, add up to no more than the parent has."""
    everything = list(children)
    for kind in ("guarantee", "deserved"):
        limit, total = amounts_of(parent, kind), _total(everything, kind)
        if any(value > limit.get(name, 0) for name, value in total.items()):
            message = f"validation failed: sum of children's {kind} ({_line(total)}) exceeds parent's {kind} limit"
            raise Denied(f"{who} {message} ({_line(limit)})")


def _total(queues: Iterable[Obj], kind: str) -> Amounts:
    total: dict[str, int] = {}
    for each in queues:
        for name, value in amounts_of(each, kind).items():
            total[name] = total.get(name, 0) + value
    return total


def _line(amounts: Amounts) -> str:
    """Amounts as the scheduler writes them: thousandths of cpus, bytes, then the others by name."""
    others = sorted(name for name in amounts if name not in ("cpu", "memory"))
    parts = [("cpu", amounts.get("cpu", 0)), ("memory", amounts.get("memory", 0))]
    parts += [(name, _in_thousandths(name, amounts[name])) for name in others]
    return ", ".join(f"{name} {value:.2f}" for name, value in parts)


def _in_thousandths(name: str, value: int) -> int:
    return value * 1000 if unit_of(name) is Unit.BYTES else value
