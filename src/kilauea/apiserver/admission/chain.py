"""The steps of admission in their order, which is that of the real server, quotas last.

Not included: webhooks and admission policies, which are called between `mutate` and `validate`; the checks of node
identities and certificates, which have no effect unless configured; and the taint `not-ready` of new nodes, which no
controller here would remove.
"""

from __future__ import annotations

from kilauea.apiserver.admission import Admission, AdmissionStep
from kilauea.apiserver.admission.claim_status import ClaimStatusRights
from kilauea.apiserver.admission.device_access import DeviceAdminAccess
from kilauea.apiserver.admission.escalation import Escalation
from kilauea.apiserver.admission.ingress_classes import DefaultIngressClass
from kilauea.apiserver.admission.lifecycle import NamespaceLifecycle
from kilauea.apiserver.admission.limits import LimitRanger
from kilauea.apiserver.admission.pod_groups import PodGroupWorkloads
from kilauea.apiserver.admission.pod_security import PodSecurity
from kilauea.apiserver.admission.priority import Priority
from kilauea.apiserver.admission.queue_commands import QueueCommands
from kilauea.apiserver.admission.quota.step import ResourceQuotas
from kilauea.apiserver.admission.runtime_classes import RuntimeClasses
from kilauea.apiserver.admission.service_accounts import ServiceAccounts
from kilauea.apiserver.admission.service_addresses import ServiceAddresses
from kilauea.apiserver.admission.signing_requests import SigningRequestAuthors
from kilauea.apiserver.admission.storage_defaults import (
    DefaultStorageClass,
    PersistentVolumeClaimResize,
    StorageObjectInUseProtection,
)
from kilauea.apiserver.admission.tolerations import DefaultTolerationSeconds


def admission_steps(*more: AdmissionStep) -> Admission:
    """Return all steps in order; additional steps run where the real server calls webhooks."""
    return Admission(
        (
            NamespaceLifecycle(),
            LimitRanger(),
            ServiceAccounts(),
            Priority(),
            DefaultTolerationSeconds(),
            DefaultStorageClass(),
            StorageObjectInUseProtection(),
            PersistentVolumeClaimResize(),
            DefaultIngressClass(),
            ServiceAddresses(),
            RuntimeClasses(),
            PodSecurity(),
            SigningRequestAuthors(),
            PodGroupWorkloads(),
            Escalation(),
            QueueCommands(),
            DeviceAdminAccess(),
            ClaimStatusRights(),
            *more,
            ResourceQuotas(),
        )
    )
