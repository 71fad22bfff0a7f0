"""Reasons and amounts as text: the same in plans, explanations, conditions and events."""

from __future__ import annotations

from typing import Protocol

from kilauea.api.quantity import Unit, format_amount, unit_of


class Reason(Protocol):
    """A reason to wait, with numbers if it is about a resource (amounts in the engine's units)."""

    @property
    def message(self) -> str:
        """The reason as a sentence."""

    @property
    def resource(self) -> str:
        """The missing resource; empty if it is not about a resource."""

    @property
    def asked(self) -> float:
        """The requested amount."""

    @property
    def left(self) -> float:
        """The largest available amount."""


def in_words(reason: Reason) -> str:
    """The message, with its numbers."""
    if not reason.resource:
        return reason.message
    return f"{reason.message.removesuffix('.')} ({numbers(reason, named=reason.resource in reason.message)})"


def numbers(reason: Reason, *, named: bool = False) -> str:
    """The requested and available amounts of the missing resource; without its name if the message has it.

    Amounts that differ, but not once they are rounded, are exact.
    """
    name, amounts = reason.resource, (reason.asked, reason.left)
    asked, left = (bare(name, amount) for amount in amounts)
    if asked == left and reason.asked != reason.left:
        asked, left = (format_amount(name, amount) for amount in amounts)
    if named:
        return f"requested {asked}, available {left}"
    return f"requested {_named(asked, name)}, available {_named(left, name)}"


def bare(name: str, amount: float) -> str:
    """An amount for people without the name of its resource, otherwise as `human` writes it."""
    if unit_of(name) is Unit.BYTES:
        size, suffix = amount, ""
        for suffix in ("", "Ki", "Mi", "Gi", "Ti", "Pi"):
            if abs(size) < 1024 or suffix == "Pi":
                break
            size /= 1024
        return f"{_short(size)}{suffix}"
    return _short(amount / 1000 if unit_of(name) is Unit.MILLI else amount)


def human(name: str, amount: float) -> str:
    """An amount for people: at most one digit after the point, memory in its largest fitting unit."""
    return _named(bare(name, amount), name)


def exact(name: str, amount: float) -> str:
    """An amount to write into an object, as a quantity that Kubernetes reads."""
    return _named(format_amount(name, amount), name)


def _named(amount: str, name: str) -> str:
    """An amount with the name of its resource; `pods` is also a word for what it counts."""
    return "1 pod" if (amount, name) == ("1", "pods") else f"{amount} {name}"


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
