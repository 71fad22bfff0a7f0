"""Checks of a single queue, without its neighbors: its amounts, their order, and its state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kilauea.admission.wording import invalid
from kilauea.api.ports import Obj
from kilauea.api.quantity import QuantityError, amount, parse_milli
from kilauea.api.wellknown import PAUSED, parse_bool

ROOT = "requestBody"
"""Prefix of the paths of field errors."""
STATES = ("Open", "Closed", "Closing", "Unknown")
"""Valid states. Controllers write the last two: a queue in them can be edited all the same."""
_WHOLE = "pods"


def quantities(queue: Obj, kind: str) -> Mapping[str, Any]:
    """The quantities of a queue as they are written: of its `capability`, `deserved` or `guarantee`."""
    spec = queue.get("spec") or {}
    found = (spec.get(kind) or {}).get("resource") if kind == "guarantee" else spec.get(kind)
    return found or {}


def own_faults(queue: Obj) -> list[str]:
    """Everything that is wrong with a queue's amounts and its state, as field errors."""
    faults = [fault for kind in ("capability", "deserved", "guarantee") for fault in _quantity_faults(queue, kind)]
    if not faults:
        faults = [*_guarantee_faults(queue), *_capability_faults(queue)]
    state = (queue.get("status") or {}).get("state") or ""
    if state and state not in STATES:
        faults.append(invalid(f"{ROOT}.spec.state", state, f"queue state must be in [{' '.join(STATES)}]"))
    paused = (queue["metadata"].get("annotations") or {}).get(PAUSED)
    if paused is not None and parse_bool(paused) is None:
        faults.append(invalid(f"{ROOT}.metadata.annotations[{PAUSED}]", paused, "use true or false"))
    return faults


def _quantity_faults(queue: Obj, kind: str) -> Iterator[str]:
    """Quantities that are invalid, negative, or a part of what there are only wholes of."""
    path = "guarantee.resource" if kind == "guarantee" else kind
    for name, quantity in sorted(quantities(queue, kind).items()):
        try:
            milli = parse_milli(quantity)
            amount(name, quantity)
        except QuantityError as error:
            # Memory beyond the thousandths that can be counted may still be counted in bytes.
            why = _byte_fault(name, quantity, str(error))
        else:
            why = "must be greater than or equal to 0" if milli < 0 else ""
            if not why and milli % 1000 and _is_whole(name):
                why = "must be an integer"
        if why:
            yield invalid(f"{ROOT}.spec.{path}.{name}", str(quantity), why)


def _byte_fault(name: str, quantity: Any, otherwise: str) -> str:
    try:
        return "must be greater than or equal to 0" if amount(name, quantity) < 0 else ""
    except QuantityError:
        return otherwise


def _is_whole(name: str) -> bool:
    """Return True if a resource only comes in whole units: pods, and devices."""
    return name == _WHOLE or ("/" in name and "kubernetes.io/" not in name and not name.startswith("requests."))


def _guarantee_faults(queue: Obj) -> Sequence[str]:
    """Check that the guarantee is within the deserved amounts."""
    deserved, faults = quantities(queue, "deserved"), []
    for name, least in sorted(quantities(queue, "guarantee").items()):
        path = f"{ROOT}.spec.deserved.{name}"
        if name not in deserved:
            faults.append(invalid(path, "<nil>", f"deserved[{name}] must be >= guarantee[{name}]={least}"))
        elif amount(name, deserved[name]) < amount(name, least):
            why = f"deserved[{name}]={deserved[name]} must be >= guarantee[{name}]={least}"
            faults.append(invalid(path, str(deserved[name]), why))
    return faults


def _capability_faults(queue: Obj) -> Sequence[str]:
    """Check that the deserved amounts are within the capability."""
    capability, faults = quantities(queue, "capability"), []
    for name, share in sorted(quantities(queue, "deserved").items()):
        if name in capability and amount(name, share) > amount(name, capability[name]):
            why = f"deserved[{name}]={share} must be <= capability[{name}]={capability[name]}"
            faults.append(invalid(f"{ROOT}.spec.deserved.{name}", str(share), why))
    return faults
