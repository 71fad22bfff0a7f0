"""The strategy of each built-in kind."""

from __future__ import annotations

from collections.abc import Mapping

from kilauea.apiserver.crd.definition_strategy import DefinitionStrategy
from kilauea.apiserver.strategies import pod_groups
from kilauea.apiserver.strategies.autoscalers import Autoscalers, OlderAutoscalers
from kilauea.apiserver.strategies.base import Object, Strategy
from kilauea.apiserver.strategies.certificates import SigningRequests
from kilauea.apiserver.strategies.classes import (
    Addresses,
    AddressRanges,
    ApiServices,
    RuntimeClasses,
)
from kilauea.apiserver.strategies.core import (
    ConfigMaps,
    Events,
    Namespaces,
    NewEvents,
    Nodes,
    Plain,
    Secrets,
)
from kilauea.apiserver.strategies.devices.strategies import (
    ClaimTemplates,
    DeviceClasses,
    OlderClaims,
    OlderSlices,
    OlderTemplates,
    ResourceClaims,
    ResourceSlices,
    TaintRules,
)
from kilauea.apiserver.strategies.endpoints import Endpoints, EndpointSlices
from kilauea.apiserver.strategies.flow_control import FlowSchemas, PriorityLevels
from kilauea.apiserver.strategies.ingresses import IngressClasses, Ingresses
from kilauea.apiserver.strategies.jobs.strategy import CronJobs, Jobs
from kilauea.apiserver.strategies.limit_ranges import LimitRanges
from kilauea.apiserver.strategies.network import Services
from kilauea.apiserver.strategies.network_policies import NetworkPolicies
from kilauea.apiserver.strategies.pods.strategy import Pods
from kilauea.apiserver.strategies.policies import MutatingPolicies, ValidatingPolicies
from kilauea.apiserver.strategies.policy import (
    Budgets,
    Leases,
    PriorityClasses,
)
from kilauea.apiserver.strategies.policy_bindings import PolicyBindings, ValidatingBindings
from kilauea.apiserver.strategies.quotas import Quotas
from kilauea.apiserver.strategies.replication import PodTemplates, ReplicationControllers
from kilauea.apiserver.strategies.roles import ClusterRoleBindings, ClusterRoles, RoleBindings, Roles
from kilauea.apiserver.strategies.storage_classes import (
    Attachments,
    Capacities,
    Drivers,
    NodeDrivers,
    StorageClasses,
    VolumeAttributes,
)
from kilauea.apiserver.strategies.volumes import Claims, Volumes
from kilauea.apiserver.strategies.webhooks import WebhookConfigurations
from kilauea.apiserver.strategies.workloads import DaemonSets, Deployments, ReplicaSets, Revisions, StatefulSets


class Accounts(Plain):
    """Service accounts."""

    answers_deleted_object = True

    def warnings(self, obj: Object) -> list[str]:
        """Return the warning about an annotation that is deprecated."""
        return [_OLD_SECRETS] if _ENFORCED in (obj["metadata"].get("annotations") or {}) else []


_ENFORCED = "kubernetes.io/enforce-mountable-secrets"
_OLD_SECRETS = (
    f"metadata.annotations[{_ENFORCED}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted "
    "secrets"
)


_RBAC, _STORAGE, _HOOKS = "rbac.authorization.k8s.io", "storage.k8s.io", "admissionregistration.k8s.io"

_DEVICES, _FLOW = "resource.k8s.io", "flowcontrol.apiserver.k8s.io"

STRATEGIES: Mapping[tuple[str, str], Strategy] = {
    ("", "configmaps"): ConfigMaps(),
    ("", "endpoints"): Endpoints(),
    ("", "events"): Events(),
    ("", "limitranges"): LimitRanges(),
    ("", "namespaces"): Namespaces(),
    ("", "nodes"): Nodes(),
    ("", "persistentvolumeclaims"): Claims(),
    ("", "persistentvolumes"): Volumes(),
    ("", "pods"): Pods(),
    ("", "podtemplates"): PodTemplates(),
    ("", "replicationcontrollers"): ReplicationControllers(),
    ("", "resourcequotas"): Quotas(),
    ("", "secrets"): Secrets(),
    ("", "serviceaccounts"): Accounts(),
    ("", "services"): Services(),
    ("apiextensions.k8s.io", "customresourcedefinitions"): DefinitionStrategy(),
    ("apiregistration.k8s.io", "apiservices"): ApiServices(),
    ("apps", "controllerrevisions"): Revisions(),
    ("apps", "daemonsets"): DaemonSets(),
    ("apps", "deployments"): Deployments(),
    ("apps", "replicasets"): ReplicaSets(),
    ("apps", "statefulsets"): StatefulSets(),
    ("autoscaling", "horizontalpodautoscalers"): Autoscalers(),
    ("batch", "cronjobs"): CronJobs(),
    ("batch", "jobs"): Jobs(),
    ("certificates.k8s.io", "certificatesigningrequests"): SigningRequests(),
    ("coordination.k8s.io", "leases"): Leases(),
    ("discovery.k8s.io", "endpointslices"): EndpointSlices(),
    ("events.k8s.io", "events"): NewEvents(),
    (_FLOW, "flowschemas"): FlowSchemas(),
    (_FLOW, "prioritylevelconfigurations"): PriorityLevels(),
    ("networking.k8s.io", "ingressclasses"): IngressClasses(),
    ("networking.k8s.io", "ingresses"): Ingresses(),
    ("networking.k8s.io", "ipaddresses"): Addresses(),
    ("networking.k8s.io", "servicecidrs"): AddressRanges(),
    ("networking.k8s.io", "networkpolicies"): NetworkPolicies(),
    ("node.k8s.io", "runtimeclasses"): RuntimeClasses(),
    ("policy", "poddisruptionbudgets"): Budgets(),
    (_RBAC, "clusterrolebindings"): ClusterRoleBindings(),
    (_RBAC, "clusterroles"): ClusterRoles(),
    (_RBAC, "rolebindings"): RoleBindings(),
    (_RBAC, "roles"): Roles(),
    (_DEVICES, "deviceclasses"): DeviceClasses(),
    (_DEVICES, "devicetaintrules"): TaintRules(),
    (_DEVICES, "resourceclaims"): ResourceClaims(),
    (_DEVICES, "resourceclaimtemplates"): ClaimTemplates(),
    (_DEVICES, "resourceslices"): ResourceSlices(),
    ("scheduling.k8s.io", "podgroups"): pod_groups.PodGroups(),
    ("scheduling.k8s.io", "priorityclasses"): PriorityClasses(),
    ("scheduling.k8s.io", "workloads"): pod_groups.Workloads(),
    (_STORAGE, "csidrivers"): Drivers(),
    (_STORAGE, "csinodes"): NodeDrivers(),
    (_STORAGE, "csistoragecapacities"): Capacities(),
    (_STORAGE, "storageclasses"): StorageClasses(),
    (_STORAGE, "volumeattachments"): Attachments(),
    (_STORAGE, "volumeattributesclasses"): VolumeAttributes(),
    (_HOOKS, "mutatingadmissionpolicies"): MutatingPolicies(),
    (_HOOKS, "mutatingadmissionpolicybindings"): PolicyBindings(),
    (_HOOKS, "validatingadmissionpolicies"): ValidatingPolicies(),
    (_HOOKS, "validatingadmissionpolicybindings"): ValidatingBindings(),
    (_HOOKS, "mutatingwebhookconfigurations"): WebhookConfigurations(),
    (_HOOKS, "validatingwebhookconfigurations"): WebhookConfigurations(),
}
"""Strategies by group and plural; other kinds have a status, a generation, and no special rules."""

OLDER: Mapping[tuple[str, str, str], Strategy] = {
    ("autoscaling", "v1", "horizontalpodautoscalers"): OlderAutoscalers(),
    (_DEVICES, "v1beta1", "resourceclaims"): OlderClaims(),
    (_DEVICES, "v1beta1", "resourceclaimtemplates"): OlderTemplates(),
    (_DEVICES, "v1beta1", "resourceslices"): OlderSlices(),
}
"""Strategies by group, version and plural, for versions whose objects differ from the newest."""
