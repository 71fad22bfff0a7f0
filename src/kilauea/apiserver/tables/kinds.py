"""The tables of the built-in kinds: the same columns as in the real server, and their content."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from kilauea.api.ages import age
from kilauea.apiserver.schema import builtin_resources
from kilauea.apiserver.tables import cells, services
from kilauea.apiserver.tables.columns import AGE, Column, Object, Row, TableForm, simple
from kilauea.apiserver.tables.pods import pod_row
from kilauea.apiserver.tables.workloads import cron_job, daemon_set, deployment, job, replica_set, stateful_set

DEFAULT = simple([AGE], lambda obj, now: [age(obj, now)])
"""The form of kinds without a special one."""

Cells = Callable[[Object, int], list[Any]]

_CELLS: Mapping[tuple[str, str], Cells] = {
    ("", "endpoints"): services.endpoints,
    ("", "podtemplates"): services.pod_template,
    ("", "replicationcontrollers"): services.replication_controller,
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"): services.admission_policy,
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"): services.policy_binding,
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): services.admission_policy,
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): services.policy_binding,
    ("apiregistration.k8s.io", "apiservices"): services.api_service,
    ("autoscaling", "horizontalpodautoscalers"): services.autoscaler,
    ("certificates.k8s.io", "certificatesigningrequests"): services.signing_request,
    ("discovery.k8s.io", "endpointslices"): services.endpoint_slice,
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): services.flow_schema,
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): services.priority_level,
    ("networking.k8s.io", "ingressclasses"): services.ingress_class,
    ("networking.k8s.io", "ingresses"): services.ingress,
    ("networking.k8s.io", "ipaddresses"): services.ip_address,
    ("networking.k8s.io", "servicecidrs"): services.address_range,
    ("node.k8s.io", "runtimeclasses"): services.runtime_class,
    ("storage.k8s.io", "volumeattributesclasses"): services.volume_attributes,
    ("", "configmaps"): cells.config_map,
    ("", "namespaces"): cells.namespace,
    ("", "nodes"): cells.node,
    ("", "persistentvolumeclaims"): cells.claim,
    ("", "persistentvolumes"): cells.volume,
    ("", "resourcequotas"): cells.quota,
    ("", "secrets"): cells.secret,
    ("", "serviceaccounts"): cells.only_age,
    ("", "services"): cells.service,
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): cells.webhooks,
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): cells.webhooks,
    ("apps", "controllerrevisions"): cells.revision,
    ("apps", "daemonsets"): daemon_set,
    ("apps", "deployments"): deployment,
    ("apps", "replicasets"): replica_set,
    ("apps", "statefulsets"): stateful_set,
    ("batch", "cronjobs"): cron_job,
    ("batch", "jobs"): job,
    ("coordination.k8s.io", "leases"): cells.lease,
    ("networking.k8s.io", "networkpolicies"): cells.network_policy,
    ("policy", "poddisruptionbudgets"): cells.budget,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): cells.role_binding,
    ("rbac.authorization.k8s.io", "rolebindings"): cells.role_binding,
    ("resource.k8s.io", "deviceclasses"): cells.only_age,
    ("resource.k8s.io", "devicetaintrules"): cells.taint_rule,
    ("resource.k8s.io", "resourceclaims"): cells.resource_claim,
    ("resource.k8s.io", "resourceclaimtemplates"): cells.only_age,
    ("resource.k8s.io", "resourceslices"): cells.resource_slice,
    ("scheduling.k8s.io", "podgroups"): cells.pod_group,
    ("scheduling.k8s.io", "priorityclasses"): cells.priority_class,
    ("scheduling.k8s.io", "workloads"): cells.only_age,
    ("storage.k8s.io", "csidrivers"): cells.driver,
    ("storage.k8s.io", "csinodes"): cells.node_drivers,
    ("storage.k8s.io", "storageclasses"): cells.storage_class,
    ("storage.k8s.io", "volumeattachments"): cells.attachment,
}
_ROWS: Mapping[tuple[str, str], Callable[[Object, int], Row]] = {
    ("", "pods"): pod_row,
    ("", "events"): lambda obj, now: Row(cells.event(obj, now)),
    ("events.k8s.io", "events"): lambda obj, now: Row(cells.event(obj, now)),
}
"""Forms whose rows do not begin with the name, or have more than cells."""


@cache
def forms() -> Mapping[tuple[str, str], TableForm]:
    """Return the forms of the built-in kinds by group and plural."""
    found = {}
    for facts in builtin_resources():
        key = facts["group"], facts["resource"]
        columns = tuple(_column(each) for each in facts.get("columns", ()))
        if key in _ROWS:
            found[key] = TableForm(columns, _ROWS[key])
        elif key in _CELLS:
            found[key] = simple(columns[1:], _CELLS[key])
        elif columns:
            found[key] = simple(columns[1:], cells.created)
    return found


def _column(facts: Mapping[str, Any]) -> Column:
    return Column(facts["name"], facts["type"], facts["priority"], facts["format"])
