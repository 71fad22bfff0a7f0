"""The rules for workloads that run pods of a template, such as deployments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec

from kilauea.api.meta import LabelSelector
from kilauea.api.names import label_problems
from kilauea.api.numbers import whole_number
from kilauea.api.selectors import matches, selector_of
from kilauea.apiserver.fields import (
    check_annotations,
    check_label_selector,
    check_labels,
    check_name,
    check_not_negative,
    check_word,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, Strategy, spec_of
from kilauea.apiserver.strategies.core import Plain
from kilauea.apiserver.strategies.pods.spec import RESTART_POLICIES
from kilauea.apiserver.strategies.pods.strategy import check_template
from kilauea.apiserver.strategies.pods.warnings import name_warnings, template_warnings
from kilauea.apiserver.strategies.quantities import claim_warnings
from kilauea.apiserver.strategies.rollouts import check_daemon_update, check_deployment_strategy, check_stateful_set
from kilauea.apiserver.strategies.volumes import check_claim
from kilauea.apiserver.strategies.workload_statuses import (
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Counts,
    check_counts,
)

IMMUTABLE = "field is immutable"
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
MISMATCH = "`selector` does not match template `labels`"


class Workloads(Strategy):
    """Workloads, whose selector must match the labels of the template."""

    fixed: tuple[str, ...] = ("selector",)
    """Fields of the specification that cannot change."""
    counts: Counts
    """The counts in the status."""

    def validate_status(self, obj: Object, old: Object) -> list[Cause]:
        """Return the errors in a change of the status."""
        return check_counts(self.counts, obj, old)

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return check_fixed(obj, old, self.fixed)

    def warnings(self, obj: Object) -> list[str]:
        return name_warnings(obj) + template_warnings("spec.template.", spec_of(obj).get("template") or {})


class Deployments(Workloads):
    """Deployments."""

    kept_in_status = ("labels",)
    counts = DEPLOYMENTS

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a deployment."""
        spec = spec_of(obj)
        causes = check_not_negative("spec.replicas", spec.get("replicas"))
        causes += _check_replicas(spec)
        causes += check_deployment_strategy("spec.strategy", spec.get("strategy") or {})
        for field in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
            causes += check_not_negative(f"spec.{field}", spec.get(field))
        deadline = spec.get("progressDeadlineSeconds")
        if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
            causes.append(
                invalid_value("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
            )
        return causes


class ReplicaSets(Workloads):
    """Replica sets."""

    counts = REPLICA_SETS
    selectable = ("status.replicas",)
    zero_values = MappingProxyType({"status.replicas": "0"})

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a replica set."""
        spec = spec_of(obj)
        causes = check_not_negative("spec.replicas", spec.get("replicas"))
        causes += check_not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
        return causes + _check_replicas(spec)


def _check_replicas(spec: Object) -> list[Cause]:
    """Check the selector and the template of a replica set or deployment."""
    causes = check_selector(spec, "deployment")
    if spec.get("selector") is not None and not _is_well(spec["selector"]):
        return [*causes, invalid_value("spec.selector", told_selector(spec["selector"]), "invalid label selector")]
    causes += check_selected(spec) + check_template("spec.template", spec.get("template"))
    return causes + check_deadline(spec, "ReplicaSet")


class StatefulSets(Workloads):
    """Stateful sets, of which replicas, template and few other fields may change."""

    _changeable = frozenset(
        "replicas ordinals template updateStrategy revisionHistoryLimit persistentVolumeClaimRetentionPolicy "
        "minReadySeconds".split()
    )

    counts = STATEFUL_SETS
    name_problems = staticmethod(label_problems)
    """The name is part of host names."""

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a new stateful set."""
        return self._check_spec(spec_of(obj))

    def validate_change(self, obj: Object, old: Object) -> list[Cause]:
        """Return the errors in a changed stateful set."""
        return self._check_spec(spec_of(obj))

    def prepare_create(self, obj: Object) -> None:
        """Remove fields that the real server has behind a feature gate that is off by default."""
        super().prepare_create(obj)
        ((spec_of(obj).get("updateStrategy") or {}).get("rollingUpdate") or {}).pop("maxUnavailable", None)

    def prepare_update(self, obj: Object, old: Object) -> None:
        """Remove the same fields."""
        ((spec_of(obj).get("updateStrategy") or {}).get("rollingUpdate") or {}).pop("maxUnavailable", None)
        super().prepare_update(obj, old)

    def warnings(self, obj: Object) -> list[str]:
        """Return the warnings about the template, the claims, and an unlimited history."""
        found = template_warnings("spec.template.", spec_of(obj).get("template") or {})
        for number, claim in enumerate(spec_of(obj).get("volumeClaimTemplates") or []):
            resources = spec_of(claim).get("resources") or {}
            found += claim_warnings(f"spec.volumeClaimTemplates[{number}].resources", resources)
        if (spec_of(obj).get("revisionHistoryLimit") or 0) < 0:
            told = "a negative value retains all historical revisions; a value >= 0 is recommended"
            found.append(f"spec.revisionHistoryLimit: {told}")
        return found

    def _check_spec(self, spec: Object) -> list[Cause]:
        causes = [*check_stateful_set("spec", spec)]
        claims = [(claim.get("metadata") or {}).get("name", "") for claim in spec.get("volumeClaimTemplates") or []]
        for number, claim in enumerate(spec.get("volumeClaimTemplates") or []):
            causes += check_claim(f"spec.volumeClaimTemplates[{number}].spec", spec_of(claim))
        causes += check_not_negative("spec.replicas", spec.get("replicas"))
        causes += check_not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
        causes += check_not_negative("spec.ordinals.start", (spec.get("ordinals") or {}).get("start"))
        name = spec.get("serviceName") or ""
        causes += check_name("spec.serviceName", name, label_problems(name) if name else ())
        causes += check_selector(spec, "statefulset")
        if spec.get("selector") is not None and not _is_well(spec["selector"]):
            causes.append(invalid_value("spec.selector", told_selector(spec["selector"])))
            return causes + _check_restarts(spec)
        causes += check_selected(spec) + _check_claim_volumes(spec, claims)
        causes += check_template("spec.template", spec.get("template"), restart=RESTART_POLICIES, claims=claims)
        causes += _check_template_again("spec.template", spec.get("template") or {})
        return causes + check_deadline(spec, "StatefulSet")

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


def _check_claim_volumes(spec: Object, claims: Sequence[str]) -> list[Cause]:
    """Check the names of the volumes that pods get for the claims of a stateful set."""
    own = spec_of(spec.get("template") or {}).get("volumes") or []
    new = [name for name in claims if name not in {volume.get("name") for volume in own}]
    causes: list[Cause] = []
    for number, name in enumerate(new, len(own)):
        where = f"spec.template.spec.volumes[{number}]"
        if name:
            causes += check_name(f"{where}.name", name, label_problems(name))
        else:
            causes += [required(f"{where}.persistentVolumeClaim.claimName"), required(f"{where}.name")]
    return causes


def _check_restarts(spec: Object) -> list[Cause]:
    policy = spec_of(spec.get("template") or {}).get("restartPolicy", "")
    return check_word("spec.template.spec.restartPolicy", policy, ("Always",))


class DaemonSets(Workloads):
    """Daemon sets, with the deprecated generation of the template that clients still read."""

    counts = DAEMON_SETS

    def warnings(self, obj: Object) -> list[str]:
        """Return the warnings about the template."""
        return template_warnings("spec.template.", spec_of(obj).get("template") or {})

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a daemon set."""
        spec = spec_of(obj)
        selector, causes = spec.get("selector"), list[Cause]()
        if selector is not None:
            causes = check_selector(spec, "daemonset")
        if selector is None or _is_well(selector):
            causes += check_selected(spec)
        causes += check_template("spec.template", spec.get("template")) + check_deadline(spec, "DaemonSet")
        causes += check_not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
        causes += check_daemon_update("spec.updateStrategy", spec.get("updateStrategy") or {})
        return causes + check_not_negative("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))

    def validate_change(self, obj: Object, old: Object) -> list[Cause]:
        """Return the errors in a changed daemon set; a change of the selector is reported first."""
        return check_fixed(obj, old, self.fixed) + self.validate(obj)

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return []

    def default(self, obj: Object) -> None:
        annotations = obj["metadata"].get("annotations") or {}
        obj["metadata"]["annotations"] = {_TEMPLATE_GENERATION: "1", **annotations}

    def prepare_update(self, obj: Object, old: Object) -> None:
        super().prepare_update(obj, old)
        count = (old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, "")
        number = whole_number(count)
        number = 1 if number is None else number
        changed = spec_of(obj).get("template") != spec_of(old).get("template")
        annotations = obj["metadata"].get("annotations") or {}
        obj["metadata"]["annotations"] = {**annotations, _TEMPLATE_GENERATION: str(number + changed)}


class Revisions(Plain):
    """Revisions of the templates of stateful sets and daemon sets, whose data is immutable."""

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a revision."""
        causes = check_not_negative("revision", obj.get("revision"))
        data = obj.get("data")
        if data is None:
            causes.append(required("data", "data is mandatory"))
        elif not isinstance(data, dict):
            causes.append(required("data", "data must be a valid JSON object"))
        return causes

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        if obj.get("data") != old.get("data"):
            return [invalid_value("data", obj.get("data"), IMMUTABLE)]
        return []


def _check_template_again(path: str, template: Object) -> Iterator[Cause]:
    """Repeat the checks that the real server repeats in templates of stateful sets, and check their restart policy."""
    metadata, policy = template.get("metadata") or {}, spec_of(template).get("restartPolicy", "")
    yield from check_labels(f"{path}.labels", metadata.get("labels") or {})
    yield from check_annotations(f"{path}.annotations", metadata.get("annotations") or {})
    if policy != "Always":
        yield not_supported(f"{path}.spec.restartPolicy", policy, ("Always",))


def check_selector(spec: Object, kind: str) -> list[Cause]:
    """Check that a selector exists, is valid and not empty; `kind` is named in the error."""
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
    causes = check_label_selector("spec.selector", selector)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        causes.append(invalid_value("spec.selector", selector, f"empty selector is invalid for {kind}"))
    return causes


def told_selector(selector: Object) -> Object:
    """Return a selector as the real server shows it: its fields, and label keys, in order."""
    told: Object = {}
    if selector.get("matchLabels"):
        told["matchLabels"] = dict(sorted(selector["matchLabels"].items()))
    terms = selector.get("matchExpressions") or []
    if terms:
        told["matchExpressions"] = [
            {"key": term.get("key", ""), "operator": term.get("operator", "")}
            | ({"values": term["values"]} if term.get("values") else {})
            for term in terms
        ]
    return told


def _is_well(selector: Object) -> bool:
    """Return True if a selector can be parsed."""
    return not check_label_selector("", selector)


def is_selected(selector: Object | None, labels: Object | None) -> bool:
    """Return True if a valid selector matches labels; a missing one matches nothing."""
    return selector is not None and matches(selector_of(msgspec.convert(selector, LabelSelector)), labels or {})


def labels_of(spec: Object) -> Object | None:
    """Return the labels of the template of a workload, in order; None if it has none."""
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    return None if labels is None else dict(sorted(labels.items()))


def check_selected(spec: Object) -> list[Cause]:
    """Check that a valid selector matches the labels of the template."""
    if is_selected(spec.get("selector"), labels_of(spec)):
        return []
    return [invalid_value("spec.template.metadata.labels", labels_of(spec), MISMATCH)]


def check_deadline(spec: Object, kind: str) -> list[Cause]:
    """Check that pods that always restart have no deadline."""
    if spec_of(spec.get("template") or {}).get("activeDeadlineSeconds") is None:
        return []
    message = f"activeDeadlineSeconds in {kind} is not Supported"
    return [forbidden_field("spec.template.spec.activeDeadlineSeconds", message)]


def check_fixed(
    obj: Object, old: Object, fields: tuple[str, ...], told: Mapping[str, Callable[[Object], Object]] | None = None
) -> list[Cause]:
    """Fields of the specification that cannot change.

    Args:
        obj: the object.
        old: the previous object.
        fields: the names of the fields.
        told: functions that format some of them as the real server does.
    """
    forms = {"selector": told_selector, **(told or {})}
    spec, before = spec_of(obj), spec_of(old)
    changed = [(field, spec.get(field)) for field in fields if spec.get(field) != before.get(field)]
    return [
        invalid_value(f"spec.{field}", forms[field](value) if field in forms and value else value, IMMUTABLE)
        for field, value in changed
    ]
