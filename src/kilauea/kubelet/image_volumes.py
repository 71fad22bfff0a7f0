"""Volumes that are images: folders that replace an image, or images that the runtime mounts itself."""

from __future__ import annotations

from pathlib import Path

from kilauea.kubelet.container_runtime import ContainerError
from kilauea.kubelet.host import Images
from kilauea.kubelet.volumes import ImageVolume, Prepared, VolumeError


def image_volumes(images: Images) -> ImageVolume:
    """Return the function that prepares volumes of images.

    Args:
        images: of this machine.
    """

    async def prepare(reference: str, policy: str) -> Prepared:
        await images.pull(reference, policy)
        try:
            image = images.find(reference)
        except ContainerError as error:
            raise VolumeError(str(error)) from error
        if image.name:
            return Prepared(Path("/"), True, image=image.name)
        folder = image.root or image.part
        if folder is None:
            message = f'image "{reference}" stands for all files of this machine, which no volume shows; '
            raise VolumeError(f"{message}restart with --image {reference}=PATH (a folder)")
        return Prepared(folder, True)

    return prepare
