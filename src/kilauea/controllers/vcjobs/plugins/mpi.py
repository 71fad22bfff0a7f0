"""Plugin mpi: passes the hosts of the workers to the master, and opens the port through which it starts them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from kilauea.api.job_plugins import MpiArguments, read
from kilauea.api.ports import Obj
from kilauea.controllers.vcjobs.names import task_name
from kilauea.controllers.vcjobs.plugins.additions import add_port, add_variables, all_containers, variable
from kilauea.controllers.vcjobs.plugins.base import JobPlugin, Pod, Task

PORT_NAME = "mpijob-port"


class Mpi(JobPlugin):
    """An MPI job."""

    name = "mpi"

    def __init__(self, job: Obj, arguments: Sequence[str]) -> None:
        super().__init__(job, arguments)
        self._flags = read(self.name, MpiArguments, arguments)

    def on_pod(self, pod: Pod, task: Task, index: int) -> None:
        """Open the port, and pass the workers to the master; a master without workers is unchanged."""
        if task_name(task) == self._flags.master:
            if self._flags.worker not in self.tasks:
                return
            add_variables(all_containers(pod), [self._hosts])
        add_port(all_containers(pod), PORT_NAME, self._flags.port)

    @cached_property
    def _hosts(self) -> dict[str, str]:
        return variable("MPI_HOST", ",".join(self.addresses(self._flags.worker)))
