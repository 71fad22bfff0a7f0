"""Startup, liveness and readiness probes: one task for each probe of a running container."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from kilauea.api.ports import Obj
from kilauea.kubelet.handlers import Result, Target, handle

Kind = Literal["startup", "liveness", "readiness"]
KINDS: tuple[Kind, ...] = ("startup", "liveness", "readiness")


@dataclass(slots=True)
class Counter:
    """Consecutive results of a probe, and the resulting verdict.

    Attributes:
        success: results after which it has succeeded.
        failure: results after which it has failed.
        passed: its last verdict; None before the first.
    """

    success: int
    failure: int
    passed: bool | None = None
    _last: bool | None = None
    _run: int = 0

    def count(self, good: bool) -> bool:
        """Count a result; return True if it leads to a verdict: a changed one, or a failure again."""
        self._run = self._run + 1 if good is self._last else 1
        self._last = good
        if self._run < (self.success if good else self.failure):
            return False
        if self.passed is good and good:
            return False
        self.passed = good
        return True

    def restart(self) -> None:
        """Reset the results."""
        self._run, self._last = 0, None


def counter_of(probe: Obj) -> Counter:
    """Return the counter of a probe by its thresholds."""
    return Counter(probe.get("successThreshold") or 1, probe.get("failureThreshold") or 3)


Report = Callable[[Kind, bool], None]
"""Called with each verdict."""
Tell = Callable[[Kind, Result], None]
"""Called with each result that is not a success, or that has a warning."""


async def run_probe(kind: Kind, probe: Obj, target: Target, report: Report, tell: Tell) -> None:
    """Probe a container until cancelled; a startup probe ends when it has succeeded.

    Args:
        kind: kind of the probe.
        probe: its specification.
        target: the container.
        report: receives verdicts.
        tell: receives failures and warnings.
    """
    counter = counter_of(probe)
    period, seconds = probe.get("periodSeconds") or 10, probe.get("timeoutSeconds") or 1
    await asyncio.sleep(probe.get("initialDelaySeconds") or 0)
    while True:
        result = await handle(probe, target, seconds)
        if result.verdict != "success" or result.is_warning:
            tell(kind, result)
        if result.verdict != "unknown" and counter.count(result.verdict == "success"):
            report(kind, bool(counter.passed))
            if kind != "readiness" and counter.passed is False:
                counter.restart()  # it is killed; if it survives, it is probed again
            if kind == "startup" and counter.passed:
                return
        await asyncio.sleep(period)


def failure_text(kind: Kind, result: Result) -> str:
    """The message of the event about a probe that failed, or succeeded with a warning."""
    if result.is_warning:
        return f"{kind.capitalize()} probe warning: {result.output}"
    if result.verdict == "unknown":
        return f"{kind.capitalize()} probe errored and resulted in unknown state: {result.output}"
    return f"{kind.capitalize()} probe failed: {result.output}"
