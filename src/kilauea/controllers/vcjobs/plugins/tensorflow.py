"""Plugin tensorflow: describes the entire cluster to containers in `TF_CONFIG`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec

from kilauea.api.job_plugins import TensorflowArguments, read
from kilauea.api.ports import Obj
from kilauea.controllers.vcjobs.names import task_name
from kilauea.controllers.vcjobs.plugins.additions import add_variables, containers, variable
from kilauea.controllers.vcjobs.plugins.base import JobPlugin, Pod, Task


class Tensorflow(JobPlugin):
    """A TensorFlow cluster."""

    name = "tensorflow"

    def __init__(self, job: Obj, arguments: Sequence[str]) -> None:
        super().__init__(job, arguments)
        self._flags = read(self.name, TensorflowArguments, arguments)
        flags = self._flags
        self._roles = {"ps": flags.ps, "worker": flags.worker, "chief": flags.chief, "evaluator": flags.evaluator}

    def on_pod(self, pod: Pod, task: Task, index: int) -> None:
        """Describe the cluster and the role of the pod in it; a single pod needs no cluster."""
        if sum(map(self.replicas, self.tasks)) == len(self.tasks) == 1:
            return
        name = task_name(task)
        role = next((role for role, of in self._roles.items() if of == name), name)
        place = msgspec.json.encode({"type": role, "index": index}).decode()
        text = f'{{"cluster":{self._cluster},"task":{place}}}'
        add_variables(containers(pod), [variable("TF_CONFIG", text)])

    @cached_property
    def _cluster(self) -> str:
        """The addresses of each role with a task, as JSON; encoded once for all pods."""
        port = self._flags.port
        found = {
            role: [f"{each}:{port}" for each in self.addresses(task)]
            for role, task in self._roles.items()
            if self.replicas(task)
        }
        return msgspec.json.encode(found).decode()
