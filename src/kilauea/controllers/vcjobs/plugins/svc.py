"""Plugin svc: lets the pods of a job find each other by name, and gives them a list of all pods.

A headless Service gives each pod a name in the DNS, a ConfigMap lists the names of each task, and a NetworkPolicy
keeps other pods out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from kilauea.api.job_plugins import SvcArguments, read
from kilauea.api.kinds import CONFIG_MAPS, NETWORK_POLICIES, SERVICES
from kilauea.api.ports import Obj
from kilauea.controllers.objects import name_of
from kilauea.controllers.vcjobs.names import JOB_NAME, JOB_NAMESPACE
from kilauea.controllers.vcjobs.plugins.additions import add_variables, add_volume, all_containers
from kilauea.controllers.vcjobs.plugins.base import Belonging, JobPlugin, Pod, Task

MOUNT_PATH = "/etc/volcano"


class Svc(JobPlugin):
    """Names for pods."""

    name = "svc"

    def __init__(self, job: Obj, arguments: Sequence[str]) -> None:
        super().__init__(job, arguments)
        self._flags = read(self.name, SvcArguments, arguments)
        self._config_map = f"{name_of(job)}-svc"

    @property
    def belongings(self) -> Sequence[Belonging]:
        """The ConfigMap, the Service and, unless it is disabled, the NetworkPolicy."""
        name = name_of(self.job)
        kept = [
            Belonging(CONFIG_MAPS, self._config_map, lambda: {"data": self._data}, self._refreshed),
            Belonging(SERVICES, name, self._service),
        ]
        if not self._flags.disable_network_policy:
            kept.append(Belonging(NETWORK_POLICIES, name, self._policy))
        return kept

    def on_pod(self, pod: Pod, task: Task, index: int) -> None:
        """Set the host name of the pod, mount the lists of hosts, and set their variables."""
        spec = pod["spec"]
        if not spec.get("hostname"):
            spec["hostname"] = pod["metadata"]["name"]
        if not spec.get("subdomain"):
            spec["subdomain"] = name_of(self.job)
        if self._flags.inject_hosts_env:
            add_variables(all_containers(pod), self._variables)
        add_volume(pod, self._volume, {"mountPath": MOUNT_PATH})

    @cached_property
    def _volume(self) -> dict[str, Any]:
        return {"name": self._config_map, "configMap": {"name": self._config_map}}

    @cached_property
    def _variables(self) -> list[dict[str, Any]]:
        """References to the values of the ConfigMap, in the order of the tasks."""
        keys = [f"VC_{_variable_part(task)}_{what}" for task in self.tasks for what in ("HOSTS", "NUM")]
        return [{"name": key, "valueFrom": {"configMapKeyRef": {"name": self._config_map, "key": key}}} for key in keys]

    @cached_property
    def _data(self) -> dict[str, str]:
        data: dict[str, str] = {}
        for task in self.tasks:
            hosts, part = self.addresses(task), _variable_part(task)
            data[f"{task.replace('-', '_')}.host"] = "\n".join(hosts)
            data[f"VC_{part}_HOSTS"] = ",".join(hosts)
            data[f"VC_{part}_NUM"] = str(len(hosts))
        return data

    def _refreshed(self, found: Obj) -> dict[str, Any] | None:
        """Update the lists after a task was scaled."""
        has = found.get("data") or {}
        if has == self._data:
            return None
        changed = {key: value for key, value in self._data.items() if has.get(key) != value}
        return {"data": {**dict.fromkeys(has.keys() - self._data.keys()), **changed}}

    def _selector(self) -> dict[str, str]:
        return {JOB_NAME: name_of(self.job), JOB_NAMESPACE: self.job["metadata"]["namespace"]}

    def _service(self) -> dict[str, Any]:
        spec: dict[str, Any] = {"clusterIP": "None", "selector": self._selector()}
        if self._flags.publish_not_ready_addresses:
            spec["publishNotReadyAddresses"] = True
        return {"spec": spec}

    def _policy(self) -> dict[str, Any]:
        own = {"matchLabels": self._selector()}
        return {"spec": {"podSelector": own, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": own}]}]}}


def _variable_part(task: str) -> str:
    """The name of a task in variables."""
    return task.replace("-", "_").upper()
