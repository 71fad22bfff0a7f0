"""The results of checks: findings that name an object, a field, its value and the fix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kilauea.api.ports import ApiError
from kilauea.client.advice import advice

OK, SKIPPED, WARNING, ERROR = STATUSES = ("ok", "skipped", "warning", "error")
"""Status of a check, from the best to the worst; skipped: the user may not read what it is about."""


@dataclass(frozen=True)
class Finding:
    """A problem.

    Attributes:
        severity: `WARNING` or `ERROR`; `SKIPPED` for what could not be checked.
        object: the object, as `Kind namespace/name`.
        field: its field; empty if the object itself is the problem.
        value: the value of the field; empty if it has none.
        message: the problem.
        fix: what to do.
    """

    severity: str
    object: str
    field: str
    value: str
    message: str
    fix: str


@dataclass(frozen=True)
class Check:
    """The result of a check.

    Attributes:
        name: its name, which does not change.
        summary: what was found, in one line.
        findings: the problems, in the order in which they should be solved.
    """

    name: str
    summary: str
    findings: tuple[Finding, ...] = ()

    @property
    def status(self) -> str:
        """The worst severity of the findings."""
        return max((each.severity for each in self.findings), key=STATUSES.index, default=OK)


def unread(objects: str, error: ApiError, grant: str) -> Finding:
    """Return what could not be checked, and why.

    Args:
        objects: what cannot be read.
        error: the answer of the server.
        grant: what to do if the user lacks a right.
    """
    again = advice(error) or "try again, and check the log of the API server if the result is the same"
    return Finding(SKIPPED, objects, "", "", error.message, grant if error.code == 403 else again)


def check_of(name: str, good: str, findings: Iterable[Finding]) -> Check:
    """Return a check; its summary is `good` without findings, and counts them otherwise."""
    found = tuple(findings)
    if not found:
        return Check(name, good)
    if len(found) == 1:
        return Check(name, found[0].message, found)
    return Check(name, f"{found[0].message}; and {len(found) - 1} more", found)
