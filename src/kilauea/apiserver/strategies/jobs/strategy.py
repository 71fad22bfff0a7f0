"""The rules of jobs and cron jobs."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

from kilauea.api.cron import parse_schedule
from kilauea.api.names import label_problems
from kilauea.apiserver.fields import (
    check_label_selector,
    check_not_negative,
    check_word,
    invalid_value,
    not_supported,
    required,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, Strategy, spec_of
from kilauea.apiserver.strategies.ingresses import check_controller
from kilauea.apiserver.strategies.jobs.indexes import INDEXED
from kilauea.apiserver.strategies.jobs.policies import (
    check_failure_policy,
    check_success_policy,
    told_failure_policy,
    told_success_policy,
)
from kilauea.apiserver.strategies.jobs.statuses import check_job_status
from kilauea.apiserver.strategies.pods.spec import RESTART_POLICIES
from kilauea.apiserver.strategies.pods.strategy import check_template
from kilauea.apiserver.strategies.pods.warnings import name_warnings, template_warnings
from kilauea.apiserver.strategies.workloads import (
    IMMUTABLE,
    MISMATCH,
    check_fixed,
    is_selected,
    labels_of,
    told_selector,
)

UID_LABEL, NAME_LABEL = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
_OLD_UID_LABEL, _OLD_NAME_LABEL = "controller-uid", "job-name"
MOST_INDEXES, LONGEST_CRON_JOB = 100_000, 52
_COUNTS = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
_MODES = ("NonIndexed", INDEXED)
_REPLACEMENTS = ("Failed", "TerminatingOrFailed")
_ENDING = ("OnFailure", "Never")
_FREE_WHILE_SUSPENDED = ("nodeSelector", "tolerations", "schedulingGates")
"""Fields of pods that may change until a suspended job starts, besides node affinity and resources of containers."""

MANY_COMPLETIONS, MANY_PODS = 100_000, 10_000
_UNTRACKED = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes "
    "might not be able to track completedIndexes when a big number of indexes fail"
)


class Jobs(Strategy):
    """Jobs, whose selector is generated so that two jobs never count the same pods."""

    propagation = "Orphan"
    orphan_warning = (
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
        "or set propagationPolicy=Orphan to suppress this warning"
    )
    selectable = ("status.successful",)
    sources = MappingProxyType({"status.successful": ("status.succeeded",)})
    zero_values = MappingProxyType({"status.successful": "0"})

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
        metadata["labels"] = {**old_labels, **labels, **before}
        if (obj["metadata"].get("labels") or before) == before:  # a job without labels gets those of its pods
            obj["metadata"]["labels"] = dict(metadata["labels"])
        selector = spec.get("selector") or {}
        own = {**(selector.get("matchLabels") or {}), UID_LABEL: labels[UID_LABEL]}
        spec["selector"] = {**selector, "matchLabels": own}

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a new job."""
        spec = spec_of(obj)
        causes = [*_check_pod_names(obj)]
        causes += [] if spec.get("manualSelector") else [*_check_generated(obj)]
        return [*causes, *check_job("spec", spec), *_check_selected("spec", spec)]

    def validate_change(self, obj: Object, old: Object) -> list[Cause]:
        """Return the errors in a changed job, whose selector is immutable."""
        generated = [] if spec_of(obj).get("manualSelector") else [*_check_generated(obj)]
        return [*generated, *check_job("spec", spec_of(obj)), *_check_selected("spec", spec_of(obj))]

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        causes = [*_check_completions(spec_of(obj), spec_of(old))]
        causes += check_fixed(obj, old, ("selector",))
        template, before = spec_of(obj).get("template") or {}, spec_of(old).get("template") or {}
        if template != before and not _may_change_template(old):
            causes.append(invalid_value("spec.template", template, IMMUTABLE))
        elif template != before and _fixed_parts(template) != _fixed_parts(before):
            causes.append(invalid_value("spec.template.spec", spec_of(template), IMMUTABLE))
        told = {"podFailurePolicy": told_failure_policy, "successPolicy": told_success_policy}
        fixed = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
        return causes + check_fixed(obj, old, fixed, told)

    def validate_status(self, obj: Object, old: Object) -> list[Cause]:
        return check_job_status(obj, old)

    def warnings(self, obj: Object) -> list[str]:
        return name_warnings(obj) + _spec_warnings("spec", spec_of(obj))


def _check_completions(spec: Object, before: Object) -> Iterator[Cause]:
    """Check that completions do not change, except together with the parallelism of an indexed job."""
    completions = spec.get("completions")
    if completions == before.get("completions"):
        return
    if spec.get("completionMode") != INDEXED:
        yield invalid_value("spec.completions", completions, IMMUTABLE)
    elif completions is None:
        yield required("spec.completions", "when completion mode is Indexed")
    elif completions != spec.get("parallelism") or before.get("completions") != before.get("parallelism"):
        message = "can only be modified in tandem with spec.parallelism"
        yield invalid_value("spec.completions", completions, message)


def _may_change_template(job: Object) -> bool:
    """Return True for a suspended job that has not started, whose template a queue controller may change."""
    return bool(spec_of(job).get("suspend")) and not (job.get("status") or {}).get("startTime")


def _fixed_parts(template: Object) -> Object:
    """Return what a queue controller may not change in the pods of a job: all but scheduling and resources."""
    fixed = {field: value for field, value in spec_of(template).items() if field not in _FREE_WHILE_SUSPENDED}
    affinity = {kind: value for kind, value in (fixed.pop("affinity", None) or {}).items() if kind != "nodeAffinity"}
    for kind in ("containers", "initContainers"):
        fixed[kind] = [{**container, "resources": None} for container in fixed.get(kind) or ()]
    return {**fixed, "affinity": affinity}


class CronJobs(Strategy):
    """Cron jobs."""

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a new cron job, whose name is a prefix of the names of its jobs."""
        spec, name = spec_of(obj), obj["metadata"].get("name", "")
        deadline = check_not_negative("spec.startingDeadlineSeconds", spec.get("startingDeadlineSeconds"))
        causes = [*_check_schedule(spec), *deadline, *_check_zone(spec), *self._check_rest(obj)]
        if len(name) > LONGEST_CRON_JOB:
            message = f"must be no more than {LONGEST_CRON_JOB} characters"
            causes.append(invalid_value("metadata.name", name, message))
        return causes

    def validate_change(self, obj: Object, old: Object) -> list[Cause]:
        # An accepted schedule and time zone stay valid: the time zones of a machine can change.
        spec, before = spec_of(obj), spec_of(old)
        causes = _check_schedule(spec) if spec.get("schedule") != before.get("schedule") else []
        causes += check_not_negative("spec.startingDeadlineSeconds", spec.get("startingDeadlineSeconds"))
        if spec.get("timeZone") != before.get("timeZone"):
            causes += _check_zone(spec)
        return causes + self._check_rest(obj)

    def _check_rest(self, obj: Object) -> list[Cause]:
        """Return the errors in everything but the schedule, its deadline and its time zone."""
        spec = spec_of(obj)
        causes = check_word("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), ("Allow", "Forbid", "Replace"))
        job, path = spec_of(spec.get("jobTemplate") or {}), "spec.jobTemplate.spec"
        selector = job.get("selector")
        causes += check_job(path, {**job, "selector": None})
        if selector is not None:
            message = "`selector` will be auto-generated"
            causes.append(invalid_value(f"{path}.selector", told_selector(selector), message))
        if job.get("manualSelector"):
            causes.append(not_supported(f"{path}.manualSelector", True, ("nil", "false")))
        for field in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
            causes += check_not_negative(f"spec.{field}", spec.get(field))
        return causes

    def warnings(self, obj: Object) -> list[str]:
        job = spec_of(spec_of(obj).get("jobTemplate") or {})
        return name_warnings(obj) + _spec_warnings("spec.jobTemplate.spec", job)


def _spec_warnings(path: str, spec: Object) -> list[str]:
    """Return the warnings about the specification of a job."""
    warnings = template_warnings(f"{path}.template.", spec.get("template") or {})
    if (
        spec.get("completionMode") == INDEXED
        and (spec.get("completions") or 0) > MANY_COMPLETIONS
        and (spec.get("parallelism") or 0) > MANY_PODS
    ):
        warnings.insert(0, f"{path}: {_UNTRACKED}")
    return warnings


def _check_schedule(spec: Object) -> list[Cause]:
    schedule = spec.get("schedule")
    if not schedule:
        return [required("spec.schedule")]
    if "TZ" in schedule:
        message = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        return [invalid_value("spec.schedule", schedule, message)]
    if len(schedule.split()) != 5 and not schedule.startswith("@"):
        message = f"expected exactly 5 fields, found {len(schedule.split())}: [{' '.join(schedule.split())}]"
        return [invalid_value("spec.schedule", schedule, message)]
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


def _check_pod_names(job: Object) -> Iterator[Cause]:
    """Check the name of an indexed job, which is the prefix of the host names of its pods."""
    name, spec = job["metadata"].get("name", ""), spec_of(job)
    completions = spec.get("completions") or 0
    if spec.get("completionMode") == INDEXED and completions > 0:
        last = f"{name}-{completions - 1}"
        if label_problems(last):
            message = f"will not able to create pod with invalid DNS label: {last}"
            yield invalid_value("metadata.name", name, message)


def _check_generated(job: Object) -> Iterator[Cause]:
    """Check that the generated selector and labels of a job are those that the server sets."""
    metadata, spec = job["metadata"], spec_of(job)
    uid, name = metadata.get("uid", ""), metadata.get("name", "")
    labels = labels_of(spec) or {}
    for label, value in ((_OLD_UID_LABEL, uid), (_OLD_NAME_LABEL, name), (UID_LABEL, uid), (NAME_LABEL, name)):
        if labels.get(label) != value:
            yield invalid_value(f"spec.template.metadata.labels[{label}]", labels, f"must be '{value}'")
    if spec.get("selector") != {"matchLabels": {UID_LABEL: uid}}:
        yield invalid_value("spec.selector", spec.get("selector"), "`selector` not auto-generated")


def _check_selected(path: str, spec: Object) -> Iterator[Cause]:
    """Check that the selector matches the pod template."""
    selector = spec.get("selector")
    if selector is None:
        yield required(f"{path}.selector")
        yield invalid_value(f"{path}.template.metadata.labels", labels_of(spec), MISMATCH)
    elif not check_label_selector("", selector) and not is_selected(selector, labels_of(spec)):
        yield invalid_value(f"{path}.template.metadata.labels", labels_of(spec), MISMATCH)


def check_job(path: str, spec: Object) -> list[Cause]:
    """Return the errors in the specification of a job."""
    causes = [cause for field in _COUNTS for cause in check_not_negative(f"{path}.{field}", spec.get(field))]
    if spec.get("selector") is not None:
        causes += check_label_selector(f"{path}.selector", spec["selector"])
    if spec.get("managedBy") is not None:
        causes += check_controller(f"{path}.managedBy", spec["managedBy"])
    causes += check_word(f"{path}.completionMode", spec.get("completionMode"), _MODES)
    causes += [*_check_indexes(path, spec)]
    template = spec.get("template") or {}
    if spec.get("podFailurePolicy") is not None:
        causes += check_failure_policy(f"{path}.podFailurePolicy", spec)
    if spec.get("successPolicy") is not None:
        causes += check_success_policy(f"{path}.successPolicy", spec)
    replacements = _REPLACEMENTS if spec.get("podFailurePolicy") is None else _REPLACEMENTS[:1]
    causes += check_word(f"{path}.podReplacementPolicy", spec.get("podReplacementPolicy"), replacements)
    causes += check_template(f"{path}.template", template, restart=RESTART_POLICIES)
    return [*causes, *_check_restarts(f"{path}.template.spec.restartPolicy", spec)]


def _check_restarts(path: str, spec: Object) -> Iterator[Cause]:
    policy = spec_of(spec.get("template") or {}).get("restartPolicy", "")
    if policy in ("", "Always"):
        yield required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in _ENDING:
        yield not_supported(path, policy, _ENDING)
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        yield invalid_value(path, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _check_indexes(path: str, spec: Object) -> Iterator[Cause]:
    """Check fields that require indexes, and limits of indexed jobs."""
    mode, failed, limit = spec.get("completionMode"), spec.get("maxFailedIndexes"), spec.get("backoffLimitPerIndex")
    if failed is not None and limit is None:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if mode in (None, "NonIndexed"):
        for field, value in (("backoffLimitPerIndex", limit), ("maxFailedIndexes", failed)):
            if value is not None:
                yield invalid_value(f"{path}.{field}", value, "requires indexed completion mode")
    if mode != INDEXED:
        return
    completions, parallelism = spec.get("completions"), spec.get("parallelism")
    if completions is None:
        yield required(f"{path}.completions", "when completion mode is Indexed")
    if parallelism is not None and parallelism > MOST_INDEXES:
        message = f"must be less than or equal to {MOST_INDEXES} when completion mode is Indexed"
        yield invalid_value(f"{path}.parallelism", parallelism, message)
    if completions is not None and failed is not None and failed > completions:
        yield invalid_value(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions")
