"""Starts containers, and reports obstacles like kubelets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kilauea.api.ports import Obj
from kilauea.kubelet.container_config import configured
from kilauea.kubelet.container_runtime import ContainerError
from kilauea.kubelet.host import Host, Image
from kilauea.kubelet.members import Member
from kilauea.kubelet.names import container_id
from kilauea.kubelet.volumes.manager import Prepared
from kilauea.nodes.environment import CONFIG_ERROR, ConfigError

_NOT_RUN = ("RunContainerError", "ContainerCannotRun", "StartError")
"""Reasons of the runtime for which a container counts as having run and failed."""
_NO_IMAGE = ("ErrImagePull", "ErrImageNeverPull", "InvalidImageName", "NotFound")


class Starter:
    """Starts the containers of a pod.

    Args:
        host: the machine.
    """

    def __init__(self, host: Host) -> None:
        self._host = host

    async def start(self, pod: Obj, member: Member, volumes: Mapping[str, Prepared], now: int) -> bool:
        """Start a container; return False if it does not run.

        Args:
            pod: its pod.
            member: the container.
            volumes: of the pod.
            now: microseconds since 1970.
        """
        name = member.spec.get("image") or ""
        await self._host.images.pull(name, member.spec.get("imagePullPolicy") or "IfNotPresent")
        image = self._image(pod, member, name, now)
        if image is None:
            return False
        attempt = member.next_attempt()
        try:
            container = configured(pod, member, image, volumes, self._host)
            state = await self._host.runtime.start(container)
        except (ConfigError, OSError) as error:
            self._waits(pod, member, CONFIG_ERROR, str(error), now)
            return False
        except ContainerError as error:
            self._not_started(pod, member, attempt, error, now)
            await self._host.forget(container_id(member.uid, member.name, attempt))
            return False
        self._host.states.setdefault(state.id, state)  # its end may have been reported first
        member.run(state, image=image.id)
        _remove_old_logs(container.log, attempt)
        self._host.event(pod, "Created", "Container created")
        self._host.event(pod, "Started", "Container started")
        return True

    def _image(self, pod: Obj, member: Member, name: str, now: int) -> Image | None:
        try:
            image = self._host.images.find(name)
        except ContainerError as error:
            words = f'Failed to pull image "{name}": {error}'
            self._host.event(pod, "Failed", words, warning=True)
            again = member.failures > 0
            if again:
                self._host.event(pod, "BackOff", f'Back-off pulling image "{name}"')
            self._host.event(pod, "Failed", "Error: ImagePullBackOff" if again else "Error: ErrImagePull", warning=True)
            message = f'Back-off pulling image "{name}": ErrImagePull: {error}' if again else str(error)
            member.wait("ImagePullBackOff" if again else "ErrImagePull", message)
            member.fail(now)
            return None
        words = f'Container image "{name}" already present on machine and can be accessed by the pod'
        self._host.event(pod, "Pulled", words)
        return image

    def _waits(self, pod: Obj, member: Member, reason: str, message: str, now: int) -> None:
        member.wait(reason, message)
        member.fail(now)
        self._host.event(pod, "Failed", f"Error: {message}", warning=True)

    def _not_started(self, pod: Obj, member: Member, attempt: int, error: ContainerError, now: int) -> None:
        if error.reason in _NOT_RUN:
            self._host.event(pod, "Created", "Container created")
            self._host.event(pod, "Failed", f"Error: {error}", warning=True)
            member.cannot_start(attempt, str(error), now)
        else:
            self._waits(pod, member, error.reason or "CreateContainerError", str(error), now)


def _remove_old_logs(log: Path, attempt: int) -> None:
    """Keep the logs of a container's last two runs, as kubelets do."""
    if attempt < 2:
        return
    for file in log.parent.glob(f"{attempt - 2}.log*"):
        file.unlink(missing_ok=True)
