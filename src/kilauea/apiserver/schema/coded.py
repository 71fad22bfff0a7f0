"""Defaults of single fields that the real API server sets in code, so that its OpenAPI does not contain them.

They were determined by creating minimal objects in a real server, and are verified with it by `tests/kubernetes`.
Defaults that depend on other fields are in `kilauea.apiserver.schema.rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_CORE = "io.k8s.api.core.v1."
_APPS = "io.k8s.api.apps.v1."
_BATCH = "io.k8s.api.batch.v1."
_RBAC = "io.k8s.api.rbac.v1."
_HOOKS = "io.k8s.api.admissionregistration.v1."
_STORAGE = "io.k8s.api.storage.v1."

_CONTAINER = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_MODE_0644 = 420
_WEBHOOK = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}

CODED_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    f"{_CORE}PodSpec": {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    },
    f"{_CORE}Container": _CONTAINER,
    f"{_CORE}EphemeralContainer": _CONTAINER,
    f"{_CORE}Probe": {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
    f"{_CORE}HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    f"{_CORE}ObjectFieldSelector": {"apiVersion": "v1"},
    f"{_CORE}ResourceFieldSelector": {"divisor": "0"},
    f"{_CORE}SecretVolumeSource": {"defaultMode": _MODE_0644},
    f"{_CORE}ConfigMapVolumeSource": {"defaultMode": _MODE_0644},
    f"{_CORE}DownwardAPIVolumeSource": {"defaultMode": _MODE_0644},
    f"{_CORE}ProjectedVolumeSource": {"defaultMode": _MODE_0644},
    f"{_CORE}ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    f"{_CORE}HostPathVolumeSource": {"type": ""},
    f"{_CORE}PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    f"{_CORE}PersistentVolumeClaimStatus": {"phase": "Pending"},
    f"{_CORE}PersistentVolumeSpec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
    f"{_CORE}PersistentVolumeStatus": {"phase": "Pending"},
    f"{_CORE}EndpointPort": {"protocol": "TCP"},
    f"{_CORE}NamespaceStatus": {"phase": "Active"},
    f"{_CORE}PodStatus": {"phase": "Pending"},
    f"{_CORE}Secret": {"type": "Opaque"},
    f"{_CORE}ServiceSpec": {"sessionAffinity": "None", "type": "ClusterIP"},
    f"{_APPS}DeploymentSpec": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
    f"{_APPS}DeploymentStrategy": {"type": "RollingUpdate"},
    f"{_APPS}RollingUpdateDeployment": {"maxUnavailable": "25%", "maxSurge": "25%"},
    f"{_APPS}ReplicaSetSpec": {"replicas": 1},
    f"{_APPS}StatefulSetSpec": {
        "replicas": 1,
        "podManagementPolicy": "OrderedReady",
        "revisionHistoryLimit": 10,
        "persistentVolumeClaimRetentionPolicy": {},
    },
    f"{_APPS}StatefulSetUpdateStrategy": {"type": "RollingUpdate"},
    f"{_APPS}RollingUpdateStatefulSetStrategy": {"partition": 0},
    f"{_APPS}StatefulSetPersistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    f"{_APPS}DaemonSetSpec": {"revisionHistoryLimit": 10},
    f"{_APPS}DaemonSetUpdateStrategy": {"type": "RollingUpdate"},
    f"{_APPS}RollingUpdateDaemonSet": {"maxUnavailable": 1, "maxSurge": 0},
    f"{_BATCH}PodFailurePolicyOnPodConditionsPattern": {"status": "True"},
    f"{_BATCH}CronJobSpec": {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    },
    f"{_RBAC}RoleRef": {"apiGroup": "rbac.authorization.k8s.io"},
    "io.k8s.api.discovery.v1.EndpointPort": {"name": "", "protocol": "TCP"},
    "io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerSpec": {"minReplicas": 1},
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec": {
        "minReplicas": 1,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
            }
        ],
    },
    "io.k8s.api.flowcontrol.v1.FlowSchemaSpec": {"matchingPrecedence": 1000},
    "io.k8s.api.flowcontrol.v1.LimitedPriorityLevelConfiguration": {
        "nominalConcurrencyShares": 30,
        "lendablePercent": 0,
    },
    "io.k8s.api.flowcontrol.v1.ExemptPriorityLevelConfiguration": {"nominalConcurrencyShares": 0, "lendablePercent": 0},
    "io.k8s.api.networking.v1.IngressClassParametersReference": {"scope": "Cluster"},
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.ServiceReference": {"port": 443},
    "io.k8s.api.networking.v1.NetworkPolicyPort": {"protocol": "TCP"},
    "io.k8s.api.scheduling.v1.PriorityClass": {"preemptionPolicy": "PreemptLowerPriority"},
    f"{_STORAGE}CSIDriverSpec": {
        "attachRequired": True,
        "podInfoOnMount": False,
        "volumeLifecycleModes": ["Persistent"],
        "storageCapacity": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "requiresRepublish": False,
        "seLinuxMount": False,
    },
    f"{_STORAGE}StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    f"{_HOOKS}ValidatingWebhook": _WEBHOOK,
    f"{_HOOKS}MutatingWebhook": {**_WEBHOOK, "reinvocationPolicy": "Never"},
    f"{_HOOKS}ValidatingAdmissionPolicySpec": {"failurePolicy": "Fail"},
    f"{_HOOKS}MutatingAdmissionPolicySpec": {"failurePolicy": "Fail"},
    f"{_HOOKS}MatchResources": {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}},
    f"{_HOOKS}NamedRuleWithOperations": {"scope": "*"},
    f"{_HOOKS}RuleWithOperations": {"scope": "*"},
    f"{_HOOKS}ServiceReference": {"port": 443},
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec": {
        "conversion": {"strategy": "None"}
    },
}
"""Defaults of fields, by definition."""
