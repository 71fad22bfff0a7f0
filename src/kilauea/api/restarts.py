"""Restarts of a terminated container: by its rules and policy, and its pod's policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RESTART_ALL = "RestartAllContainers"
"""The action of a rule that restarts all containers of a pod."""
RESTARTING_ALL = "RestartingAllContainers"
REMOVED = "The container is removed because RestartAllContainers in place"
"""Reason and message of containers that were terminated by it."""


def action_after(container: Mapping[str, Any], code: int) -> str:
    """Return the action of the first of a container's rules that matches an exit code; empty if none does."""
    rules = container.get("restartPolicyRules") or ()
    return next((str(each.get("action")) for each in rules if _is_meant(each.get("exitCodes") or {}, code)), "")


def _is_meant(exit_codes: Mapping[str, Any], code: int) -> bool:
    """Return True if a rule matches an exit code."""
    is_listed = code in (exit_codes.get("values") or ())
    return is_listed if exit_codes.get("operator") == "In" else not is_listed


def is_restarted(container: Mapping[str, Any], policy: str, code: int) -> bool:
    """Return True if a container is restarted after its end.

    Args:
        container: the container in the pod's specification; its rule for the exit code takes precedence.
        policy: the restart policy: Always, OnFailure or Never.
        code: the exit code.
    """
    return bool(action_after(container, code)) or policy == "Always" or (policy == "OnFailure" and code != 0)


def may_restart_all(spec: Mapping[str, Any]) -> bool:
    """Return True if a container of a pod has a rule that restarts all of them."""
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return any(
        rule.get("action") == RESTART_ALL for each in containers for rule in each.get("restartPolicyRules") or ()
    )
