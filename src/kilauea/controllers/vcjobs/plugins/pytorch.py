"""Plugin pytorch: passes the address of the master, the rank and the number of pods to containers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from kilauea.api.job_plugins import PytorchArguments, read
from kilauea.api.ports import Obj
from kilauea.controllers.vcjobs.names import task_name
from kilauea.controllers.vcjobs.plugins.additions import add_port, add_variables, containers, variable
from kilauea.controllers.vcjobs.plugins.base import JobPlugin, Pod, Task

PORT_NAME = "pytorchjob-port"
WAITER = "wait-for-master"
# Not every image has nc, and only bash supports /dev/tcp.
_WAIT = """\
left={timeout}
until nc -z -w 2 "$MASTER_ADDR" "$MASTER_PORT" || (: < "/dev/tcp/$MASTER_ADDR/$MASTER_PORT"); do
  left=$((left - 2))
  [ "$left" -gt 0 ] || break
  sleep 2
done 2>/dev/null
[ "$left" -gt 0 ] || echo "no master at $MASTER_ADDR:$MASTER_PORT after {timeout} s"
[ "$left" -gt 0 ]
"""


class Pytorch(JobPlugin):
    """A PyTorch process group; without a master task, nothing is added."""

    name = "pytorch"

    def __init__(self, job: Obj, arguments: Sequence[str]) -> None:
        super().__init__(job, arguments)
        self._flags = read(self.name, PytorchArguments, arguments)

    def on_pod(self, pod: Pod, task: Task, index: int) -> None:
        """Set port and variables, and let workers wait for the master if requested."""
        if not self._master:
            return
        name = task_name(task)
        ranks = {self._flags.master: 0, self._flags.worker: index + 1}
        rank = [variable("RANK", ranks[name])] if name in ranks else []
        add_port(containers(pod), PORT_NAME, self._flags.port)
        add_variables(containers(pod), [*self._master, self._world_size, *rank])
        if self._flags.wait_master_enabled and name == self._flags.worker:
            self._wait(pod)

    @cached_property
    def _master(self) -> list[dict[str, str]]:
        """Variables with the address of the master; empty without a master."""
        if self._flags.master not in self.tasks:
            return []
        (address,) = self.addresses(self._flags.master)[:1] or ("",)
        return [variable("MASTER_ADDR", address), variable("MASTER_PORT", self._flags.port)]

    @cached_property
    def _world_size(self) -> dict[str, str]:
        return variable("WORLD_SIZE", self.replicas(self._flags.master) + self.replicas(self._flags.worker))

    def _wait(self, pod: Pod) -> None:
        before: Sequence[Any] = pod["spec"].get("initContainers") or ()
        if all(each["name"] != WAITER for each in before):
            pod["spec"]["initContainers"] = [*before, self._waiter]

    @cached_property
    def _waiter(self) -> dict[str, Any]:
        script = _WAIT.format(timeout=self._flags.wait_master_timeout)
        command = ["sh", "-c", script]
        return {"name": WAITER, "image": self._flags.wait_master_image, "command": command, "env": self._master}
