"""Images of podman: local ones, pulled ones, and folders that replace some of them."""

from __future__ import annotations

import json
from collections.abc import Iterable

from kilauea.kubelet.container_runtime import ContainerError
from kilauea.kubelet.host import Image
from kilauea.kubelet.images import HOST, Mapped, MappedImages
from kilauea.kubelet.podman.command import run

_HUB = "docker.io"


class PodmanImages:
    """The images of podman.

    Args:
        mappings: images that are replaced by folders.
    """

    def __init__(self, mappings: Iterable[Mapped] = ()) -> None:
        self._mappings = [each for each in mappings if each.target != HOST]
        self._mapped = MappedImages(self._mappings)
        self._found: dict[str, Image | ContainerError] = {}

    async def pull(self, name: str, policy: str) -> None:
        """Make an image available according to an image pull policy; `find` raises the error if that failed."""
        if self._is_mapped(name) or not name:
            return
        try:
            self._found[name] = await self._pull(name, policy)
        except ContainerError as error:
            self._found[name] = error

    def find(self, name: str) -> Image:
        """Return an image that was pulled, or is mapped to a folder.

        Raises:
            ContainerError: there is none of this name.
        """
        if self._is_mapped(name) or not name:
            return self._mapped.find(name)
        found = self._found.get(name)
        if isinstance(found, Image):
            return found
        raise found or ContainerError("ErrImagePull", f'failed to pull image "{name}": it was not pulled yet')

    def _is_mapped(self, name: str) -> bool:
        return any(each.matches(name) for each in self._mappings)

    async def _pull(self, name: str, policy: str) -> Image:
        if policy != "Always":
            result = await run(["image", "inspect", name])
            if not result.code:
                return _image(name, result.text)
        if policy == "Never":
            message = f'Container image "{name}" is not present with pull policy of Never'
            raise ContainerError("ErrImageNeverPull", message)
        pulled = await run(["pull", "--quiet", full_name(name)])
        if pulled.code:
            raise ContainerError("ErrImagePull", f'failed to pull image "{name}": {pulled.error}')
        result = await run(["image", "inspect", pulled.text.strip().rpartition("\n")[2]])
        if result.code:
            raise ContainerError("ErrImagePull", f'failed to pull image "{name}": {result.error}')
        return _image(name, result.text)


def full_name(image: str) -> str:
    """Return the name of an image with its registry, completed as in Kubernetes."""
    first, slash, _ = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return image
    return f"{_HUB}/{image}" if slash else f"{_HUB}/library/{image}"


def _image(name: str, text: str) -> Image:
    """Parse podman's description of an image."""
    data = json.loads(text)[0]
    config = data.get("Config") or {}
    return Image(
        environment=dict(each.split("=", 1) for each in config.get("Env") or () if "=" in each),
        command=tuple(config.get("Entrypoint") or ()),
        arguments=tuple(config.get("Cmd") or ()),
        working_dir=config.get("WorkingDir") or "",
        id=f"{name}@sha256:{data['Id'].removeprefix('sha256:')}",
        name=data["Id"],
        user=(config.get("User") or "").partition(":")[0],
    )
