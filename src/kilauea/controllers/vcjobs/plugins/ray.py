"""Plugin ray: starts the head and the workers of a Ray cluster, and creates a Service for the head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kilauea.api.job_plugins import PluginFault, RayArguments, read
from kilauea.api.kinds import SERVICES
from kilauea.api.ports import Obj
from kilauea.api.wellknown import TASK_ROLE
from kilauea.controllers.objects import name_of
from kilauea.controllers.vcjobs.names import JOB_NAME, JOB_NAMESPACE, task_name
from kilauea.controllers.vcjobs.plugins.additions import add_port, containers
from kilauea.controllers.vcjobs.plugins.base import Belonging, JobPlugin, Pod, Task


class Ray(JobPlugin):
    """A Ray cluster."""

    name = "ray"

    def __init__(self, job: Obj, arguments: Sequence[str]) -> None:
        super().__init__(job, arguments)
        flags = self._flags = read(self.name, RayArguments, arguments)
        if flags.head not in self.tasks:
            why = f"job {name_of(job)} doesn't have head task {flags.head}: rename a task, or use --head=<task>"
            raise PluginFault(self.name, why)
        self._ports = {"gcs": flags.port, "dashboard": flags.dashboard_port, "client-server": flags.client_port}
        (self._head,) = self.addresses(flags.head)[:1] or ("",)

    @property
    def belongings(self) -> Sequence[Belonging]:
        """The Service by which clients reach the head."""
        return [Belonging(SERVICES, f"{name_of(self.job)}-head-svc", self._service)]

    def on_pod(self, pod: Pod, task: Task, index: int) -> None:
        """Let the container of the head or of a worker start Ray."""
        flags, name = self._flags, task_name(task)
        for container in containers(pod):
            if (name, container["name"]) == (flags.head, flags.head_container):
                for port, number in self._ports.items():
                    add_port([container], port, number)
                container["command"] = _shell(
                    f"ray start --head --block --dashboard-host=0.0.0.0 --port={flags.port}"
                    f" --dashboard-port={flags.dashboard_port} --ray-client-server-port={flags.client_port}"
                )
            elif (name, container["name"]) == (flags.worker, flags.worker_container):
                container["command"] = _shell(f"ray start --block --address={self._head}:{flags.port}")

    def _service(self) -> dict[str, Any]:
        selector = {
            JOB_NAME: name_of(self.job),
            JOB_NAMESPACE: self.job["metadata"]["namespace"],
            TASK_ROLE: self._flags.head,
        }
        ports = [
            {"name": name, "port": port, "protocol": "TCP", "targetPort": name} for name, port in self._ports.items()
        ]
        return {"spec": {"type": "ClusterIP", "selector": selector, "ports": ports}}


def _shell(command: str) -> list[str]:
    return ["sh", "-c", command]
