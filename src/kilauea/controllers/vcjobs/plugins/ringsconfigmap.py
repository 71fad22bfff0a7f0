"""Plugin ringsconfigmap: a ConfigMap for the rank table of Ascend devices, mounted in all pods.

A controller of the devices writes the table to it once all pods have devices; the job waits for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kilauea.api.job_plugins import RingsConfigMapArguments, read
from kilauea.api.kinds import CONFIG_MAPS
from kilauea.api.ports import Obj
from kilauea.controllers.objects import name_of, uid_of
from kilauea.controllers.vcjobs.plugins.additions import all_containers
from kilauea.controllers.vcjobs.plugins.base import Belonging, JobPlugin, Pod, Task

_FIELD = re.compile(r"\{\{ *\.(\w+) *\}\}")


class RingsConfigMap(JobPlugin):
    """A ConfigMap in all pods."""

    name = "ringsconfigmap"

    def __init__(self, job: Obj, arguments: Sequence[str]) -> None:
        super().__init__(job, arguments)
        self._flags = read(self.name, RingsConfigMapArguments, arguments)
        fields = {"Name": name_of(job), "Namespace": job["metadata"]["namespace"], "UID": uid_of(job)}
        self._config_map = _FIELD.sub(lambda found: fields[found[1]], self._flags.configmap_name_template)

    @property
    def belongings(self) -> Sequence[Belonging]:
        """The ConfigMap; others own its data from then on."""
        flags = self._flags
        kept = Belonging(
            CONFIG_MAPS,
            self._config_map,
            lambda: {"data": dict(flags.configmap_data)},
            labels=flags.configmap_labels,
            annotations=flags.configmap_annotations,
        )
        return [kept]

    def on_pod(self, pod: Pod, task: Task, index: int) -> None:
        """Mount the ConfigMap, unless a template already has a volume with that name, or a mount at that path."""
        spec, name, path = pod["spec"], self._flags.volume_name, self._flags.mount_path
        volumes: Sequence[dict[str, Any]] = spec.get("volumes") or ()
        if all(each["name"] != name for each in volumes):
            spec["volumes"] = [*volumes, {"name": name, "configMap": {"name": self._config_map}}]
        for container in all_containers(pod):
            mounts: Sequence[dict[str, Any]] = container.get("volumeMounts") or ()
            if all(each["name"] != name and each["mountPath"] != path for each in mounts):
                container["volumeMounts"] = [*mounts, {"name": name, "mountPath": path}]
