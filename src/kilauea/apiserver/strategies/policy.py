"""The rules of priority classes, disruption budgets and leases."""

from __future__ import annotations

from kilauea.api.names import path_segment_problems
from kilauea.apiserver.fields import (
    check_label_selector,
    check_not_negative,
    check_word,
    forbidden_field,
    invalid_value,
    required,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, Strategy, keep, spec_of
from kilauea.apiserver.strategies.conditions import check_conditions
from kilauea.apiserver.strategies.core import Plain
from kilauea.apiserver.strategies.rollouts import check_amount, check_share

HIGHEST_USER_PRIORITY = 1_000_000_000
_PREEMPTION = ("PreemptLowerPriority", "Never")
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class PriorityClasses(Strategy):
    """Priority classes: the value is immutable; some names, and values above a billion, are reserved for the system."""

    has_status = False

    def prepare_update(self, obj: Object, old: Object) -> None:
        """Keep the generation."""
        keep(obj["metadata"], old["metadata"], "generation")

    def validate(self, obj: Object) -> list[Cause]:
        policy = obj.get("preemptionPolicy")
        causes = self._check_value(obj)
        return causes + (
            [required("preemptionPolicy")] if policy == "" else check_word("preemptionPolicy", policy, _PREEMPTION)
        )

    def _check_value(self, obj: Object) -> list[Cause]:
        name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
        if name.startswith("system-"):
            if SYSTEM_CLASSES.get(name) != value:
                message = "priority class names with 'system-' prefix are reserved for system use only"
                return [
                    forbidden_field("metadata.name", f"{message}. error: {name} is not a known system priority class")
                ]
        elif value > HIGHEST_USER_PRIORITY:
            message = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
            return [forbidden_field("value", message)]
        return []

    def validate_change(self, obj: Object, old: Object) -> list[Cause]:
        return []

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        causes = []
        if obj.get("value", 0) != old.get("value", 0):
            causes.append(forbidden_field("value", "may not be changed in an update."))
        if obj.get("preemptionPolicy") != old.get("preemptionPolicy"):
            causes.append(invalid_value("preemptionPolicy", obj.get("preemptionPolicy"), "field is immutable"))
        return causes


class Budgets(Strategy):
    """Pod disruption budgets, with either `minAvailable` or `maxUnavailable`."""

    unconditional_update = False
    name_problems = staticmethod(path_segment_problems)
    checks_metadata_last = True

    def validate_status(self, obj: Object, old: Object) -> list[Cause]:
        state = obj.get("status") or {}
        causes = [*check_conditions("status.conditions", state.get("conditions") or ())]
        for field in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
            causes += check_not_negative(f"status.{field}", state.get(field))
        return causes

    def validate(self, obj: Object) -> list[Cause]:
        spec = spec_of(obj)
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        policy = spec.get("unhealthyPodEvictionPolicy")
        causes: list[Cause] = []
        if least is not None and most is not None:
            told = {"MinAvailable": least, "Selector": spec.get("selector"), "MaxUnavailable": most}
            message = "minAvailable and maxUnavailable cannot be both set"
            causes.append(invalid_value("spec", {**told, "UnhealthyPodEvictionPolicy": policy}, message))
        for field, value in (("minAvailable", least), ("maxUnavailable", most)):
            causes += check_amount(f"spec.{field}", value) + check_share(f"spec.{field}", value)
        causes += check_label_selector("spec.selector", spec.get("selector") or {})
        return causes + check_word("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget"))


class Leases(Plain):
    """Leases, for leader election."""

    unconditional_update = False
    create_on_update = True

    def prepare_create(self, obj: Object) -> None:
        """Remove fields that the real server has behind a feature gate that is off by default."""
        super().prepare_create(obj)
        self._remove(obj)

    def prepare_update(self, obj: Object, old: Object) -> None:
        """Remove the same fields."""
        super().prepare_update(obj, old)
        self._remove(obj)

    def _remove(self, obj: Object) -> None:
        for field in ("strategy", "preferredHolder"):
            spec_of(obj).pop(field, None)

    def validate(self, obj: Object) -> list[Cause]:
        spec = spec_of(obj)
        causes = []
        seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if seconds is not None and seconds <= 0:
            causes.append(invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
        if transitions is not None and transitions < 0:
            causes.append(invalid_value("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
        return causes
