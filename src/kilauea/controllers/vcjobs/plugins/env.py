"""Plugin env: passes the index of a pod in its task to containers."""

from __future__ import annotations

from collections.abc import Sequence

from kilauea.api.job_plugins import Arguments, read
from kilauea.api.ports import Obj
from kilauea.controllers.vcjobs.plugins.additions import add_variables, all_containers, variable
from kilauea.controllers.vcjobs.plugins.base import JobPlugin, Pod, Task


class Env(JobPlugin):
    """Sets `VC_TASK_INDEX`, and `VK_TASK_INDEX`, its former name."""

    name = "env"

    def __init__(self, job: Obj, arguments: Sequence[str]) -> None:
        super().__init__(job, arguments)
        read(self.name, Arguments, arguments)

    def on_pod(self, pod: Pod, task: Task, index: int) -> None:
        """Set the variables in all containers."""
        add_variables(all_containers(pod), [variable("VK_TASK_INDEX", index), variable("VC_TASK_INDEX", index)])
