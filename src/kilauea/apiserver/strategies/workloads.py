"""The rules of what makes pods from a template: deployments and their kin, jobs and cron jobs."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from kilauea.api.cron import parse_schedule
from kilauea.api.meta import LabelSelector
from kilauea.api.selectors import matches, selector_of
from kilauea.apiserver.fields import (
    check_label_selector,
    check_not_negative,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, Strategy, spec_of
from kilauea.apiserver.strategies.pod_warnings import template_warnings
from kilauea.apiserver.strategies.pods import check_template

IMMUTABLE = "field is immutable"
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
UID_LABEL, NAME_LABEL = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
_OLD_UID_LABEL, _OLD_NAME_LABEL = "controller-uid", "job-name"


class Workloads(Strategy):
    """Kinds with a selector and a template whose labels it must match."""

    fixed: tuple[str, ...] = ("selector",)
    """Fields of the specification that cannot change."""

    def validate(self, obj: Object) -> list[Cause]:
        spec = spec_of(obj)
        causes = check_not_negative("spec.replicas", spec.get("replicas"))
        causes += check_not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
        claims = [(claim.get("metadata") or {}).get("name", "") for claim in spec.get("volumeClaimTemplates") or []]
        return causes + check_selector_and_template(spec, claims)

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return check_fixed(obj, old, self.fixed)

    def warnings(self, obj: Object) -> list[str]:
        return template_warnings("spec.template.", spec_of(obj).get("template") or {})


class ReplicaSets(Workloads):
    """Replica sets."""

    selectable = ("status.replicas",)
    zero_values = MappingProxyType({"status.replicas": "0"})


class StatefulSets(Workloads):
    """Stateful sets: little but the number of replicas and the template may change."""

    _changeable = frozenset(
        "replicas ordinals template updateStrategy revisionHistoryLimit persistentVolumeClaimRetentionPolicy "
        "minReadySeconds".split()
    )

    def validate(self, obj: Object) -> list[Cause]:
        causes = super().validate(obj)
        if spec_of(spec_of(obj).get("template") or {}).get("activeDeadlineSeconds") is not None:
            message = "activeDeadlineSeconds in StatefulSet is not Supported"
            causes.append(forbidden_field("spec.template.spec.activeDeadlineSeconds", message))
        return causes

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        spec, before = spec_of(obj), spec_of(old)
        if any(spec.get(key) != before.get(key) for key in {**spec, **before} if key not in self._changeable):
            message = (
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
                "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
                "'minReadySeconds' are forbidden"
            )
            return [Cause("spec", "FieldValueForbidden", f"Forbidden: {message}")]
        return []


class DaemonSets(Workloads):
    """Daemon sets, with the old count of changes of the template that clients still read."""

    def default(self, obj: Object) -> None:
        annotations = obj["metadata"].get("annotations") or {}
        obj["metadata"]["annotations"] = {_TEMPLATE_GENERATION: "1", **annotations}

    def prepare_update(self, obj: Object, old: Object) -> None:
        super().prepare_update(obj, old)
        count = (old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, "")
        number = int(count) if count.isascii() and count.isdigit() else 1
        changed = spec_of(obj).get("template") != spec_of(old).get("template")
        annotations = obj["metadata"].get("annotations") or {}
        obj["metadata"]["annotations"] = {**annotations, _TEMPLATE_GENERATION: str(number + changed)}


class Jobs(Strategy):
    """Jobs: their selector is made for them, so that no two jobs count the same pods."""

    propagation = "Orphan"
    selectable = ("status.successful",)

    def fields(self, obj: Any) -> dict[str, str]:
        return {"status.successful": str((obj.get("status") or {}).get("succeeded") or 0)}

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        spec = spec_of(obj)
        if spec.get("manualSelector"):
            return
        labels = {UID_LABEL: obj["metadata"].get("uid", ""), NAME_LABEL: obj["metadata"].get("name", "")}
        old_labels = {_OLD_UID_LABEL: labels[UID_LABEL], _OLD_NAME_LABEL: labels[NAME_LABEL]}
        template = spec.setdefault("template", {})
        metadata = template.setdefault("metadata", {})
        before = metadata.get("labels") or {}
        metadata["labels"] = {**before, **old_labels, **labels}
        if (obj["metadata"].get("labels") or before) == before:  # a job without labels of its own has those of its pods
            obj["metadata"]["labels"] = dict(metadata["labels"])
        spec["selector"] = {"matchLabels": {UID_LABEL: labels[UID_LABEL]}}

    def validate(self, obj: Object) -> list[Cause]:
        return check_job("spec", spec_of(obj))

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        causes = check_fixed(obj, old, ("completionMode", "selector", "podFailurePolicy", "backoffLimitPerIndex"))
        if spec_of(obj).get("template") != spec_of(old).get("template") and not _may_change_template(old):
            causes.append(invalid_value("spec.template", spec_of(obj).get("template"), IMMUTABLE))
        if spec_of(obj).get("completions") != spec_of(old).get("completions"):
            causes.append(invalid_value("spec.completions", spec_of(obj).get("completions"), IMMUTABLE))
        return causes

    def warnings(self, obj: Object) -> list[str]:
        return template_warnings("spec.template.", spec_of(obj).get("template") or {})


def _may_change_template(job: Object) -> bool:
    """The template of a job that has not started may be changed by who queues jobs."""
    return bool(spec_of(job).get("suspend")) and not (job.get("status") or {}).get("startTime")


class CronJobs(Strategy):
    """Cron jobs."""

    def validate(self, obj: Object) -> list[Cause]:
        return [*_check_schedule(spec_of(obj)), *_check_zone(spec_of(obj)), *self._check_rest(obj)]

    def validate_change(self, obj: Object, old: Object) -> list[Cause]:
        # A schedule and a zone that were accepted once stay so: zones come and go with the data of the machine.
        spec, before = spec_of(obj), spec_of(old)
        causes = _check_schedule(spec) if spec.get("schedule") != before.get("schedule") else []
        if spec.get("timeZone") != before.get("timeZone"):
            causes += _check_zone(spec)
        return causes + self._check_rest(obj)

    def _check_rest(self, obj: Object) -> list[Cause]:
        """Return the errors in everything but the schedule and its zone."""
        spec, causes = spec_of(obj), list[Cause]()
        policy = spec.get("concurrencyPolicy", "Allow")
        if policy not in ("Allow", "Forbid", "Replace"):
            causes.append(not_supported("spec.concurrencyPolicy", policy, ("Allow", "Forbid", "Replace")))
        template = spec.get("jobTemplate") or {}
        return causes + check_job("spec.jobTemplate.spec", spec_of(template))

    def warnings(self, obj: Object) -> list[str]:
        job = spec_of(spec_of(obj).get("jobTemplate") or {})
        return template_warnings("spec.jobTemplate.spec.template.", job.get("template") or {})


def _check_schedule(spec: Object) -> list[Cause]:
    schedule = spec.get("schedule")
    if not schedule:
        return [required("spec.schedule")]
    if "TZ" in schedule:
        message = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        return [invalid_value("spec.schedule", schedule, message)]
    if len(schedule.split()) != 5 and not schedule.startswith("@"):
        message = f"expected exactly 5 fields, found {len(schedule.split())}: {schedule}"
        return [invalid_value("spec.schedule", schedule, message.lower())]
    try:
        parse_schedule(schedule)
    except ValueError as error:
        return [invalid_value("spec.schedule", schedule, str(error))]
    return []


def _check_zone(spec: Object) -> list[Cause]:
    zone = spec.get("timeZone")
    if zone is None:
        return []
    if not zone:
        return [invalid_value("spec.timeZone", zone, "timeZone must be nil or non-empty string")]
    if zone.lower() == "local":
        message = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        return [invalid_value("spec.timeZone", zone, message)]
    try:
        parse_schedule("@hourly", zone)
    except ValueError:
        return [invalid_value("spec.timeZone", zone, f"unknown time zone {zone}")]
    return []


def check_job(path: str, spec: Object) -> list[Cause]:
    """The specification of a job."""
    causes = []
    for field in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"):
        causes += check_not_negative(f"{path}.{field}", spec.get(field))
    policy = spec_of(spec.get("template") or {}).get("restartPolicy")
    if policy == "Always":
        message = 'valid values: "OnFailure", "Never"'
        causes.append(required(f"{path}.template.spec.restartPolicy", message))
        return causes
    return causes + check_template(f"{path}.template", spec.get("template"), restart=("OnFailure", "Never"))


def check_selector_and_template(spec: Object, claims: Sequence[str] = ()) -> list[Cause]:
    """A selector that is not empty, and a template that it matches.

    Args:
        spec: of the workload.
        claims: names of claims that its pods can mount beside the volumes of the template.
    """
    selector = spec.get("selector")
    template = spec.get("template") or {}
    causes = check_label_selector("spec.selector", selector or {})
    if selector is None:
        causes.append(required("spec.selector"))
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        message = "empty selector is invalid for deployment"
        causes.append(invalid_value("spec.selector", selector, message))
    labels = (template.get("metadata") or {}).get("labels") or {}
    if (
        selector is not None
        and not causes
        and not matches(selector_of(msgspec.convert(selector, LabelSelector)), labels)
    ):
        causes.append(
            invalid_value("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
        )
    return causes + check_template("spec.template", template, claims=claims)


def check_fixed(obj: Object, old: Object, fields: tuple[str, ...]) -> list[Cause]:
    """Fields of the specification that cannot change."""
    spec, before = spec_of(obj), spec_of(old)
    changed = [field for field in fields if spec.get(field) != before.get(field)]
    return [invalid_value(f"spec.{field}", spec.get(field), IMMUTABLE) for field in changed]
