"""The rules for replication controllers and standalone pod templates."""

from __future__ import annotations

from kilauea.apiserver.fields import check_not_negative, invalid_value, required
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, ScalePaths, Strategy, spec_of
from kilauea.apiserver.strategies.pods.strategy import check_template
from kilauea.apiserver.strategies.pods.warnings import name_warnings, template_warnings
from kilauea.apiserver.strategies.workload_statuses import REPLICATION_CONTROLLERS, check_counts
from kilauea.apiserver.strategies.workloads import check_deadline


class ReplicationControllers(Strategy):
    """Replication controllers: their selector is a map of labels, taken from the template if it is missing."""

    propagation = "Orphan"
    scale = ScalePaths(plain=True)
    selectable = ("status.replicas",)

    def validate_status(self, obj: Object, old: Object) -> list[Cause]:
        return check_counts(REPLICATION_CONTROLLERS, obj, old)

    def default(self, obj: Object) -> None:
        spec = spec_of(obj)
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
        if labels is None:
            return
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)

    def validate(self, obj: Object) -> list[Cause]:
        spec = spec_of(obj)
        selector, template = spec.get("selector") or {}, spec.get("template")
        causes = check_not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
        if not selector:
            causes.append(required("spec.selector"))
        causes += check_not_negative("spec.replicas", spec.get("replicas"))
        if template is None:
            return [*causes, required("spec.template")]
        labels = (template.get("metadata") or {}).get("labels") or {}
        if selector and not selector.items() <= labels.items():
            message = "`selector` does not match template `labels`"
            causes.append(invalid_value("spec.template.metadata.labels", labels or None, message))
        return causes + check_template("spec.template", template) + check_deadline(spec, "ReplicationController")

    def warnings(self, obj: Object) -> list[str]:
        return name_warnings(obj) + template_warnings("spec.template.", spec_of(obj).get("template") or {})


class PodTemplates(Strategy):
    """Standalone pod templates."""

    has_status = False

    def validate(self, obj: Object) -> list[Cause]:
        return check_template("template", obj.get("template"), restart=("Always", "OnFailure", "Never"))

    def warnings(self, obj: Object) -> list[str]:
        return template_warnings("template.", obj.get("template") or {})
