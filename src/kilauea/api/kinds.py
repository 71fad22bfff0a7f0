"""The table of kinds: group, version, plural, kind and scope of each.

It is used by clients, controllers and commands, the decoder, the definitions of the custom resources, and the
controllers that watch every kind.
"""

from __future__ import annotations

from kilauea.api.ports import Obj, Resource

PODS = Resource("", "v1", "pods", "Pod")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False)
NODES = Resource("", "v1", "nodes", "Node", False)
SERVICES = Resource("", "v1", "services", "Service")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
EVENTS = Resource("", "v1", "events", "Event")
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange")
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", False)
REPLICATION_CONTROLLERS = Resource("", "v1", "replicationcontrollers", "ReplicationController")
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
POD_TEMPLATES = Resource("", "v1", "podtemplates", "PodTemplate")

REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
JOBS = Resource("batch", "v1", "jobs", "Job")
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")
AUTOSCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")

NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")
INGRESS_CLASSES = Resource("networking.k8s.io", "v1", "ingressclasses", "IngressClass", False)
IP_ADDRESSES = Resource("networking.k8s.io", "v1", "ipaddresses", "IPAddress", False)
SERVICE_CIDRS = Resource("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", False)
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False)
SIGNING_REQUESTS = Resource(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", False
)
FLOW_SCHEMAS = Resource("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", False)
PRIORITY_LEVELS = Resource(
    "flowcontrol.apiserver.k8s.io", "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration", False
)
API_SERVICES = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", False)

STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False)
CSI_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", False)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", False)
CSI_CAPACITIES = Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
VOLUME_ATTACHMENTS = Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", False)
ATTRIBUTES_CLASSES = Resource("storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass", False)

DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False)
RESOURCE_SLICES = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False)
RESOURCE_CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
CLAIM_TEMPLATES = Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
TAINT_RULES = Resource("resource.k8s.io", "v1beta2", "devicetaintrules", "DeviceTaintRule", False)
"""Kubernetes serves it only in beta and alpha versions."""

ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False)
CLUSTER_ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False)
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False
)
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False
)
VALIDATING_POLICIES = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False
)
VALIDATING_BINDINGS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False
)
MUTATING_POLICIES = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", False
)
MUTATING_BINDINGS = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", False
)
DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False)

POD_GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
QUEUES = Resource("scheduling.volcano.sh", "v1beta1", "queues", "Queue", False)
COMMANDS = Resource("bus.volcano.sh", "v1alpha1", "commands", "Command")
VC_JOBS = Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job")
"""Volcano's jobs; `JOBS` are those of Kubernetes."""
VC_CRON_JOBS = Resource("batch.volcano.sh", "v1alpha1", "cronjobs", "CronJob")
JOB_FLOWS = Resource("flow.volcano.sh", "v1alpha1", "jobflows", "JobFlow")
JOB_TEMPLATES = Resource("flow.volcano.sh", "v1alpha1", "jobtemplates", "JobTemplate")
HYPER_NODES = Resource("topology.volcano.sh", "v1alpha1", "hypernodes", "HyperNode", False)
NUMA_TOPOLOGIES = Resource("nodeinfo.volcano.sh", "v1alpha1", "numatopologies", "Numatopology", False)
NODE_SHARDS = Resource("shard.volcano.sh", "v1alpha1", "nodeshards", "NodeShard", False)
COLOCATIONS = Resource("config.volcano.sh", "v1alpha1", "colocationconfigurations", "ColocationConfiguration")

KUBERNETES_POD_GROUPS = Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup")
"""Kubernetes' own pod groups; `POD_GROUPS` are Volcano's. Kubernetes serves them in alpha versions only."""
WORKLOADS = Resource("scheduling.k8s.io", "v1alpha2", "workloads", "Workload")
"""Templates of such groups, which controllers read."""
KUBERNETES_GROUP = f"{KUBERNETES_POD_GROUPS.kind}.{KUBERNETES_POD_GROUPS.group}"
"""The name of that kind where kinds are distinguished by name."""

NODE_METRICS = Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", False)
DYNAMIC = (DEVICE_CLASSES, RESOURCE_CLAIMS, CLAIM_TEMPLATES, RESOURCE_SLICES)
"""The kinds of dynamic resource allocation."""

BUILT_IN = (
    *(CONFIG_MAPS, ENDPOINTS, EVENTS, LIMIT_RANGES, NAMESPACES, NODES, CLAIMS, VOLUMES, PODS, POD_TEMPLATES),
    *(REPLICATION_CONTROLLERS, RESOURCE_QUOTAS, SECRETS, SERVICE_ACCOUNTS, SERVICES, API_SERVICES, REVISIONS),
    *(DAEMON_SETS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, AUTOSCALERS, CRON_JOBS, JOBS, SIGNING_REQUESTS),
    *(INGRESS_CLASSES, INGRESSES, IP_ADDRESSES, NETWORK_POLICIES, SERVICE_CIDRS, BUDGETS, CLUSTER_ROLE_BINDINGS),
    *(CLUSTER_ROLES, ROLE_BINDINGS, ROLES, CSI_DRIVERS, CSI_NODES, CSI_CAPACITIES, STORAGE_CLASSES),
    *(VOLUME_ATTACHMENTS, ATTRIBUTES_CLASSES, MUTATING_POLICIES, MUTATING_BINDINGS, MUTATING_WEBHOOKS),
    *(VALIDATING_POLICIES, VALIDATING_BINDINGS, VALIDATING_WEBHOOKS, DEFINITIONS, PRIORITY_CLASSES),
    *(KUBERNETES_POD_GROUPS, WORKLOADS, LEASES, RUNTIME_CLASSES, ENDPOINT_SLICES, *DYNAMIC, TAINT_RULES),
    *(FLOW_SCHEMAS, PRIORITY_LEVELS),
)
"""All kinds that our API server stores without a definition, in discovery order."""

SCHEDULING = {KUBERNETES_GROUP: KUBERNETES_POD_GROUPS} | {
    each.kind: each
    for each in (
        *(PODS, NODES, NAMESPACES, RESOURCE_QUOTAS, SERVICES, REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFUL_SETS),
        *(POD_GROUPS, QUEUES, PRIORITY_CLASSES, BUDGETS, HYPER_NODES, VOLUMES, CLAIMS, STORAGE_CLASSES, CSI_NODES),
        *(CSI_DRIVERS, CSI_CAPACITIES, VOLUME_ATTACHMENTS, NODE_METRICS, NUMA_TOPOLOGIES, NODE_SHARDS, CONFIG_MAPS),
        *(*DYNAMIC, TAINT_RULES),
    )
}
"""The kinds that the scheduler reads, by kind."""


def defined_kind(definition: Obj) -> Resource | None:
    """Return the kind of a CustomResourceDefinition in its storage version; None unless it is established."""
    conditions = (definition.get("status") or {}).get("conditions") or ()
    if not any(each["type"] == "Established" and each["status"] == "True" for each in conditions):
        return None
    spec = definition["spec"]
    versions = [each["name"] for each in spec["versions"] if each.get("served")]
    stored = [each["name"] for each in spec["versions"] if each.get("storage") and each.get("served")]
    names = spec["names"]
    version = next(iter([*stored, *versions]), "")
    return Resource(spec["group"], version, names["plural"], names["kind"], spec["scope"] == "Namespaced")
