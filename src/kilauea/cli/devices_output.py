"""The devices that a plan allocates to resource claims: as a table for people, as data for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kilauea.api.dynamic import AllocatedDevice
from kilauea.cli.table import table
from kilauea.engine.plan import Plan

CLAIMS_SHOWN = 20
"""Maximum number of claims in the table, unless it is wide."""


class Given(NamedTuple):
    """A claim that gets devices, and the pod that starts with it."""

    claim: str
    pod: str
    node: str
    devices: list[AllocatedDevice]


def _given(plan: Plan) -> Iterator[Given]:
    """Claims that get devices, without repeats, even if several pods with a claim start."""
    known = set()
    for bind in plan.binds:
        for each in bind.claims:
            if each.allocation is not None and each.claim not in known:
                known.add(each.claim)
                yield Given(each.claim, bind.pod, bind.node, each.allocation.devices.results or [])


def devices_data(plan: Plan) -> dict[str, Any]:
    """By claim: its pod, node and devices; empty if no claim gets any."""
    claims = {
        given.claim: {"pod": given.pod, "node": given.node, "devices": [_device(each) for each in given.devices]}
        for given in _given(plan)
    }
    return {"resourceClaims": claims} if claims else {}


def _device(result: AllocatedDevice) -> dict[str, Any]:
    data: dict[str, Any] = {name: getattr(result, name) for name in ("request", "driver", "pool", "device")}
    if result.admin_access:
        data["adminAccess"] = True
    if result.consumed_capacity:
        data["consumedCapacity"] = {name: str(amount) for name, amount in result.consumed_capacity.items()}
    return data


def devices_table(plan: Plan, *, wide: bool) -> list[str]:
    """A row for each claim that gets devices."""
    rows = [[given.claim, given.pod, given.node, ", ".join(map(_text, given.devices))] for given in _given(plan)]
    shown = table(["CLAIM", "FOR POD", "ON NODE", "DEVICES"], rows if wide else rows[:CLAIMS_SHOWN])
    more = 0 if wide else len(rows) - CLAIMS_SHOWN
    return [*shown, f"... and {more} more claim{'s' * (more != 1)}; -o wide shows all"] if more > 0 else shown


def _text(result: AllocatedDevice) -> str:
    """A device as `request=driver/pool/device`, with its consumed capacity."""
    amounts = ",".join(f"{name.rpartition('/')[2]} {text}" for name, text in (result.consumed_capacity or {}).items())
    used = "admin" if result.admin_access else amounts
    return f"{result.request}={result.driver}/{result.pool}/{result.device}" + (f" ({used})" if used else "")
