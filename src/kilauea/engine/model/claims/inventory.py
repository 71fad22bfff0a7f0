"""The devices of all slices as columns, and those that match a request.

Devices are in the order in which they are tried: those of one node before those of several, then by driver, pool and
slice, then in the order of the slice. Devices with binding conditions are tried after all others that a node reaches.
Each selector is evaluated once for devices with equal content.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.api.cel import CelCostError, CelError
from kilauea.api.device_selectors import device_matcher
from kilauea.api.numbers import plural
from kilauea.api.selectors import node_term_matches, tolerates
from kilauea.engine.model.claims.costs import SelectorCosts
from kilauea.engine.model.claims.facts import Ask, Class, Device, DeviceId, Fault, Grant, Slice, TaintRule, full_name
from kilauea.engine.model.nodes import NodeTable, natural

Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]
SHARED, UNREACHED = -1, -2
FEW = 8
"""Up to this many nodes are checked one by one."""


Amounts = tuple[tuple[int, int], ...]
"""Counters, and the amount taken from each."""


class Use(NamedTuple):
    """The devices of a claim.

    Attributes:
        rows: rows of the devices.
        amounts: the amounts taken from devices that it shares with other claims.
    """

    rows: tuple[int, ...]
    amounts: Amounts = ()


class Inventory:
    """The devices of a cluster.

    Attributes:
        nodes: the nodes that reach them.
        devices: all devices, in order.
        index: rows of the devices, by name.
        node_of: (D,) row of the node of each device; SHARED if several nodes reach it, UNREACHED if none does.
        places: the same as a list, for access to few devices.
        faults: slices, pools and devices that are skipped.
        shared: devices that several nodes reach: the nodes (N,), and the rows of the devices.
        multiple: (D,) devices that several claims share.
        to_node: rows of the devices that bind their claims to the chosen node.
        counted: (D,) devices of which counters decide if they can be had: those that several claims share, and those
            that take of counters of their pool.
        consumes: by device, the counters that it consumes while in use, and the amounts.
        capacities: by device that several claims share, the counters of its capacities, by name.
        counters: (C,) total of each counter.
    """

    def __init__(
        self,
        slices: Sequence[Slice],
        nodes: NodeTable,
        rules: Sequence[TaintRule] = (),
        costs: SelectorCosts | None = None,
    ) -> None:
        self.nodes = nodes
        self._costs = costs or SelectorCosts()
        self.faults: list[Fault] = []
        found, amounts = self._usable(slices)
        if rules:
            found = [self._tainted(device, rules) for device in found]
        number = nodes.row_of
        places = [number.get(d.reach.node, UNREACHED) if d.reach.node else SHARED for d in found]
        order = sorted(range(len(found)), key=lambda i: (places[i] < 0, places[i]))
        self.devices: list[Device] = [found[i] for i in order]
        self.index: dict[DeviceId, int] = {device.id: row for row, device in enumerate(self.devices)}
        self.node_of: NDArray[np.intp] = np.array([places[i] for i in order], dtype=np.intp)
        self.places: list[int] = self.node_of.tolist()
        local = self.node_of[self.node_of >= 0]
        self._start: Rows = np.searchsorted(local, np.arange(len(nodes) + 1))
        self.starts: list[int] = self._start.tolist()
        self.shared: list[tuple[Mask, Rows]] = self._reached()
        numbers = {name: i for i, name in enumerate(amounts)}
        self.multiple: Mask = np.array([d.shared is not None for d in self.devices], dtype=bool)
        self.capacities: list[dict[str, int]] = self._capacities(len(numbers))
        own = [shared.value for d in self.devices for shared in (d.shared or {}).values()]
        self.counters: NDArray[np.int64] = np.array([*amounts.values(), *own], dtype=np.int64)
        self.consumes: list[tuple[tuple[int, int], ...]] = [
            tuple((numbers[(*d.id[:2], name)], amount) for name, amount in d.consumes) for d in self.devices
        ]
        self._prepared = frozenset(
            row for row, d in enumerate(self.devices) if d.binding is not None and d.binding.conditions
        )
        """Rows of the devices with binding conditions."""
        self.to_node = frozenset(
            row for row, d in enumerate(self.devices) if d.binding is not None and d.binding.to_node
        )
        self.counted: Mask = np.array([bool(c) for c in self.consumes], dtype=bool) | self.multiple
        self._shares: dict[tuple[object, int], Amounts | None] = {}
        self._by_expression: dict[str, Mask] = {}
        self._partial: dict[str, tuple[list[bool], str]] = {}
        """By expression that was not evaluated for all devices: the first verdicts, and the first failure."""
        self._masks: dict[tuple[object, ...], Mask] = {}
        self._columns: dict[str, NDArray[np.intp]] = {}
        self._profiles: tuple[list[int], NDArray[np.intp]] | None = None
        self._numbers: list[int] | None = None

    def __len__(self) -> int:
        return len(self.devices)

    def _capacities(self, start: int) -> list[dict[str, int]]:
        """Counters of the devices that several claims share, numbered from `start`."""
        out = []
        for device in self.devices:
            names = list(device.shared or ())
            out.append({name: start + i for i, name in enumerate(names)})
            start += len(names)
        return out

    # --- from slices

    def _usable(self, slices: Sequence[Slice]) -> tuple[list[Device], dict[tuple[str, str, str], int]]:
        """Devices of the newest generation of complete pools, and the counters of these pools."""
        pools: dict[tuple[str, str], list[Slice]] = {}
        for each in slices:
            pools.setdefault((each.driver, each.pool), []).append(each)
        devices: list[Device] = []
        counters: dict[tuple[str, str, str], int] = {}
        for (driver, pool), parts in sorted(pools.items(), key=lambda item: (item[0][0], natural(item[0][1]))):
            newest = max(part.generation for part in parts)
            parts = sorted((p for p in parts if p.generation == newest), key=lambda p: natural(p.name))
            for part in parts:
                self.faults += part.faults
            problem = _pool_problem(parts)
            if problem:
                self.faults.append(Fault(f"pool {pool} of driver {driver}", f"{problem}; its devices are not used"))
                continue
            here = {name: amount for part in parts for name, amount in part.counters}
            counters |= {(driver, pool, name): amount for name, amount in here.items()}
            for device in (d for part in parts for d in part.devices):
                missing = [name for name, _ in device.consumes if name not in here]
                if missing:
                    message = f"it takes of counter {missing[0]}, which its pool does not have; it is left out"
                    self.faults.append(Fault(f"device {'/'.join(device.id)}", message))
                else:
                    devices.append(device)
        return devices, counters

    def _tainted(self, device: Device, rules: Sequence[TaintRule]) -> Device:
        """Return a device with the taints of the rules."""
        taints = set()
        for rule in rules:
            try:
                if rule.concerns(device):
                    taints.add(rule.taint)
            except CelError as error:
                message = f"{error} (device {'/'.join(device.id)}); such devices do not get its taint"
                if all(fault.where != f"DeviceTaintRule {rule.name}" for fault in self.faults):
                    self.faults.append(Fault(f"DeviceTaintRule {rule.name}", message))
        return replace(device, taints=(*device.taints, *sorted(taints))) if taints else device

    def _reached(self) -> list[tuple[Mask, Rows]]:
        """Devices of several nodes, by the nodes that reach them."""
        groups: dict[object, list[int]] = {}
        for row in np.flatnonzero(self.node_of == SHARED).tolist():
            groups.setdefault(self.devices[row].reach.terms, []).append(row)
        out = []
        for rows in groups.values():
            terms = self.devices[rows[0]].reach.terms
            facts = self.nodes.facts
            reach = [terms is None or any(node_term_matches(t, f.labels, f.name) for t in terms) for f in facts]
            out.append((np.array(reach, dtype=bool), np.array(rows, dtype=np.intp)))
        return out

    # --- devices and nodes

    def at(self, node: int) -> list[int]:
        """Rows of the devices that a node reaches, in order."""
        out = list(range(int(self._start[node]), int(self._start[node + 1])))
        for reach, rows in self.shared:
            if reach[node]:
                out += rows.tolist()
        prepared = self._prepared
        return sorted(out, key=lambda row: (row in prepared, row)) if prepared else sorted(out)

    def reached_by(self, nodes: Mask) -> Mask:
        """(D,) devices that any of the nodes (N,) reaches."""
        out = np.zeros(len(self), dtype=bool)
        local = self.node_of >= 0
        out[local] = nodes[self.node_of[local]]
        for reach, rows in self.shared:
            out[rows] = bool((reach & nodes).any())
        return out

    def count(self, chosen: Mask, rows: Rows | None = None, free: Mask | None = None) -> NDArray[np.int64]:
        """(n,) number of chosen (and free) devices that nodes reach: all nodes, or those in some rows."""
        if rows is not None and len(rows) <= FEW:
            return np.array([self._count_at(chosen, free, row) for row in rows.tolist()], dtype=np.int64)
        counts = self.sums(chosen if free is None else chosen & free)
        return counts if rows is None else counts[rows]

    def sums(self, amounts: NDArray[np.int64] | Mask) -> NDArray[np.int64]:
        """(N,) sums of amounts (D,) over the devices that each node reaches."""
        local = amounts[: int(self._start[-1])]
        until = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(local, dtype=np.int64)])
        out: NDArray[np.int64] = until[self._start[1:]] - until[self._start[:-1]]
        for reach, group in self.shared:
            out = out + reach * int(amounts[group].sum())
        return out

    def _count_at(self, chosen: Mask, free: Mask | None, node: int) -> int:
        groups: list[Any] = [slice(*self.starts[node : node + 2])]
        groups += [group for reach, group in self.shared if reach[node]]
        parts = (chosen[group] if free is None else chosen[group] & free[group] for group in groups)
        return sum(int(np.count_nonzero(part)) for part in parts)

    def likeness(self, node: int, used: Mask) -> tuple[int, bytes] | None:
        """A key that is equal for nodes with equal devices and usage; None where counters or other nodes matter."""
        if self._numbers is None:
            self._numbers = self._numbered()
        number = self._numbers[node]
        return None if number < 0 else (number, used[slice(*self.starts[node : node + 2])].tobytes())

    def _numbered(self) -> list[int]:
        """By node, a number that is equal for equal devices; -1 where counters or other nodes matter."""
        known: dict[bytes, int] = {}
        kinds, out = self._kinds()[1], []
        for node in range(len(self.nodes)):
            local = slice(*self.starts[node : node + 2])
            apart = self.counted[local].any() or any(reach[node] for reach, _ in self.shared)
            out.append(-1 if apart else known.setdefault(kinds[local].tobytes(), len(known)))
        return out

    # --- matching

    def matching(self, ask: Ask, of: Class, namespace: str | None = None) -> Mask:
        """(D,) devices that a request accepts.

        Args:
            ask: the request.
            of: its class.
            namespace: as in `SelectorCosts.check`, for selectors that have not been evaluated.

        Raises:
            SelectorsPending: the namespace has caused too much cost in this cycle; the next one continues.
            CelError: a selector cannot be compiled.
        """
        key = (of.selectors, ask.selectors, ask.tolerations if not ask.admin else None, ask.capacity)
        known = self._masks.get(key)
        if known is None:
            known = self.node_of != UNREACHED
            for expression in (*of.selectors, *ask.selectors):
                known = known & self._selected(expression, namespace)
            others = [self._tolerated(ask), self._large(ask.capacity)]
            for mask in others:
                known = known & mask
            self._masks[key] = known
        return known

    def _tolerated(self, ask: Ask) -> Mask:
        if ask.admin or not any(d.taints for d in self.devices):
            return np.ones(len(self), dtype=bool)
        verdicts = [all(any(tolerates(t, taint) for t in ask.tolerations) for taint in d.taints) for d in self.devices]
        return np.array(verdicts, dtype=bool)

    def _large(self, wanted: Iterable[tuple[str, int]]) -> Mask:
        out = np.ones(len(self), dtype=bool)
        for name, amount in wanted:
            out &= np.array([_capacity(d, name) >= amount for d in self.devices], dtype=bool)
        for row in np.flatnonzero(self.multiple & out).tolist():
            out[row] = self.share(tuple(wanted), row) is not None
        return out

    def share(self, wanted: tuple[tuple[str, int], ...], row: int) -> Amounts | None:
        """The counters that a claim consumes of a shared device's capacities; None if the amounts are not possible."""
        if (wanted, row) not in self._shares:
            self._shares[wanted, row] = self._share(dict(wanted), self.devices[row], self.capacities[row])
        return self._shares[wanted, row]

    def _share(self, wanted: dict[str, int], device: Device, counters: dict[str, int]) -> Amounts | None:
        asked = {full_name(device.id.driver, name): amount for name, amount in wanted.items()}
        out = []
        for name, shared in (device.shared or {}).items():
            amount = shared.taken(asked.get(name))
            if amount is None:
                return None
            out.append((counters[name], amount))
        return tuple(out)

    def _selected(self, expression: str, namespace: str | None) -> Mask:
        """(D,) devices for which an expression is true; devices for which it fails are skipped, with a fault."""
        known = self._by_expression.get(expression)
        if known is not None:
            return known
        matches = device_matcher(expression)
        firsts, which = self._kinds()
        verdicts, failed = self._partial.get(expression, ([], ""))
        for first in firsts[len(verdicts) :]:
            self._costs.check(namespace)
            try:
                verdict, cost = matches(self.devices[first].view)
            except CelCostError as error:  # the cost would be the same for each device
                raise CelCostError(f"{error}: use fewer all, exists, map and filter") from error
            except CelError as error:
                verdict, cost = False, error.cost
                failed = failed or f"{error} (device {'/'.join(self.devices[first].id)})"
            verdicts.append(verdict)
            self._partial[expression] = verdicts, failed
            self._costs.charge(namespace, cost)
        self._partial.pop(expression, None)
        if failed:
            self.faults.append(Fault(f"selector {expression}", f"{failed}; such devices are passed over"))
        known = self._by_expression[expression] = np.array(verdicts, dtype=bool)[which]
        return known

    def _kinds(self) -> tuple[list[int], NDArray[np.intp]]:
        """Devices with distinct content, and for every device the index of its equal."""
        if self._profiles is None:
            known: dict[tuple[object, ...], int] = {}
            firsts: list[int] = []
            which = np.empty(len(self), dtype=np.intp)
            for row, d in enumerate(self.devices):
                prepared = row in self._prepared  # such devices are tried last
                content = (d.id.driver, repr(d.attributes), repr(d.capacity), d.shared is None, d.taints, prepared)
                number = known.setdefault(content, len(firsts))
                if number == len(firsts):
                    firsts.append(row)
                which[row] = number
            self._profiles = (firsts, which)
        return self._profiles

    def column(self, attribute: str) -> NDArray[np.intp]:
        """(D,) number of each device's value of an attribute; -1 without it."""
        known = self._columns.get(attribute)
        if known is None:
            values: dict[str, int] = {}
            numbers = []
            for device in self.devices:
                value: Any = device.attributes.get(attribute)
                numbers.append(-1 if value is None else values.setdefault(f"{type(value)} {value}", len(values)))
            known = self._columns[attribute] = np.array(numbers, dtype=np.intp)
        return known

    def use_of(self, grants: Iterable[Grant]) -> Use:
        """The devices of a claim and its shares, without admin access and without devices that no longer exist."""
        rows, amounts = [], []
        for grant in grants:
            row = self.index.get(grant.device, -1)
            if row >= 0 and not grant.admin:
                rows.append(row)
                counters = self.capacities[row]
                amounts += [(counters[name], amount) for name, amount in grant.consumed if name in counters]
        return Use(tuple(rows), tuple(amounts))

    def rows_of(self, ids: Iterable[DeviceId]) -> list[int]:
        """Rows of devices, without those that no longer exist."""
        return [row for each in ids if (row := self.index.get(each, -1)) >= 0]


def _capacity(device: Device, name: str) -> int:
    return device.capacity.get(full_name(device.id.driver, name), -1)


def _pool_problem(parts: Sequence[Slice]) -> str:
    """The reason why a pool cannot be used: missing slices, or devices with the same name."""
    if len(parts) < parts[0].count:
        return f"{len(parts)} of its {plural(parts[0].count, 'slice')} of generation {parts[0].generation} exist"
    names = Counter(device.id.device for part in parts for device in part.devices)
    twice = sorted(name for name, count in names.items() if count > 1)
    return f"device {twice[0]} is listed more than once" if twice else ""
