"""Pod groups of Kubernetes: the template that a new group names must exist, and a group in use is protected."""

from __future__ import annotations

from typing import Any

import msgspec

from kilauea.apiserver.admission import AdmissionStep, forbidden
from kilauea.apiserver.admission.attributes import Attributes

PROTECTION = "scheduling.k8s.io/podgroup-protection"
_ROOT = "/scheduling.k8s.io/workloads/"


class PodGroupWorkloads(AdmissionStep):
    """Rejects pod groups of workloads or templates that do not exist."""

    name = "PodGroupWorkloadExists"
    kinds = frozenset({("scheduling.k8s.io", "podgroups")})

    def mutate(self, attributes: Attributes) -> None:
        """Add the finalizer that protects a new group while its pods run."""
        obj = attributes.obj
        if attributes.operation != "CREATE" or attributes.subresource or obj is None:
            return
        finalizers = obj["metadata"].get("finalizers") or []
        if PROTECTION not in finalizers:
            obj["metadata"]["finalizers"] = [*finalizers, PROTECTION]

    def validate(self, attributes: Attributes) -> None:
        """Look up the template of a new group."""
        if attributes.operation != "CREATE" or attributes.subresource or attributes.obj is None:
            return
        origin = (attributes.obj["spec"].get("podGroupTemplateRef") or {}).get("workload")
        if origin is None:
            return
        workload, template = origin.get("workloadName", ""), origin.get("podGroupTemplateName", "")
        stored = attributes.backend.store.get(f"{_ROOT}{attributes.namespace}/{workload}")
        if stored is None:
            raise forbidden(attributes, f'PodGroup rejected: Workload "{workload}" not found')
        spec: dict[str, Any] = msgspec.json.decode(stored.value)["spec"]
        if all(each["name"] != template for each in spec.get("podGroupTemplates") or ()):
            why = f'PodGroup rejected: PodGroupTemplate "{template}" not found in Workload "{workload}"'
            raise forbidden(attributes, why)
