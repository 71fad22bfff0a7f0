"""`Volumes`: prepares the volumes of pods, updates them, reports their paths in containers, and removes them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from kilauea.api.kinds import CONFIG_MAPS, SECRETS
from kilauea.api.ports import Obj
from kilauea.api.quantity import parse_size
from kilauea.kubelet.container_runtime import Mount
from kilauea.kubelet.removal import remove_later
from kilauea.kubelet.volumes.atomic import write_files
from kilauea.kubelet.volumes.claims import claimed_path
from kilauea.kubelet.volumes.host_path import prepare_host_path, refusal
from kilauea.kubelet.volumes.memory import MemoryFolders
from kilauea.kubelet.volumes.ownership import fs_group_of, fs_user_of, give, give_all, policy_of
from kilauea.kubelet.volumes.sources import (
    DEFAULT_MODE,
    File,
    Files,
    Lookup,
    VolumeError,
    field_files,
    object_files,
    projected_files,
)
from kilauea.kubelet.volumes.tokens import Tokens
from kilauea.nodes.environment import ConfigError, PodFacts, expand
from kilauea.nodes.requests import amounts_of, requests_of

SHARED_MEMORY = Path("/dev/shm")
COVER_SIZE = 4096
"""Size of an empty folder that covers another one, in bytes."""
_SUPPORTED = "emptyDir, hostPath, configMap, secret, projected, downwardAPI, image or persistentVolumeClaim"


class Prepared(NamedTuple):
    """A volume on this machine.

    Attributes:
        path: a file or folder.
        read_only: True if it is read-only.
        is_of_machine: True for a path that was not chosen by the kubelet.
        image: name of an image that the runtime mounts instead of the path; empty for none.
    """

    path: Path
    read_only: bool = False
    is_of_machine: bool = False
    image: str = ""


ImageVolume = Callable[[str, str], Awaitable[Prepared]]
"""Prepares the volume of an image, by the name of the image and a policy for its pull; raises `VolumeError`."""


class Volumes:
    """The volumes of the pods of this machine.

    Args:
        folder: contains a folder for each pod, named by its uid.
        lookup: returns the objects that volumes refer to.
        tokens: of service accounts.
        memory: folder in memory, for volumes with medium Memory; need not exist.
        hidden: folder of the cluster, whose credentials are only for its administrator; None to hide nothing.
        image_volume: prepares volumes that are images; None if unsupported.
    """

    def __init__(
        self,
        folder: Path,
        lookup: Lookup,
        tokens: Tokens,
        memory: Path = SHARED_MEMORY,
        hidden: Path | None = None,
        image_volume: ImageVolume | None = None,
    ) -> None:
        self._folder = folder
        self._lookup = lookup
        self._tokens = tokens
        self._memory = MemoryFolders(memory)
        self._image_volume = image_volume
        self._given: set[tuple[str, str]] = set()
        """Volumes of claims whose group was set to that of the pod: its uid and the volume's name."""
        self._hidden = None if hidden is None else hidden.resolve()

    async def prepare(self, pod: Obj, facts: PodFacts) -> dict[str, Prepared]:
        """Create or update the volumes of a pod; return them by name.

        Raises:
            VolumeError: one cannot be mounted; its text names it.
        """
        found = {}
        for volume in pod["spec"].get("volumes") or ():
            try:
                found[volume["name"]] = await self._prepare(pod, volume, facts)
            except (VolumeError, ConfigError) as error:
                raise VolumeError(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error}') from error
            except OSError as error:
                message = f"{error.filename}: {error.strerror}"
                raise VolumeError(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {message}') from error
        return found

    async def _prepare(self, pod: Obj, volume: Obj, facts: PodFacts) -> Prepared:
        if "emptyDir" in volume or set(volume) == {"name"}:
            return Prepared(self._empty(pod, volume, facts))
        if "hostPath" in volume:
            source = volume["hostPath"]
            path = prepare_host_path(source["path"], source.get("type") or "", self._hidden)
            return Prepared(path, is_of_machine=True)
        if "image" in volume and self._image_volume is not None:
            source = volume["image"]
            return await self._image_volume(source.get("reference") or "", source.get("pullPolicy") or "IfNotPresent")
        if "persistentVolumeClaim" in volume:
            return await self._claimed(pod, volume)
        kind, files = await self._files(pod, volume, facts)
        folder = self._path(pod, kind, volume["name"])
        write_files(folder, files, fs_group_of(pod))
        await asyncio.sleep(0)  # a pod can have more than a hundred ConfigMaps of a megabyte each
        return Prepared(folder, True)

    async def _claimed(self, pod: Obj, volume: Obj) -> Prepared:
        """The volume of a claim; for a local one, the group of the pod is set before its first container starts."""
        source = volume["persistentVolumeClaim"]
        claimed = claimed_path(source["claimName"], pod, self._lookup, self._hidden)
        read_only = claimed.read_only or bool(source.get("readOnly"))
        group, key = fs_group_of(pod), (pod["metadata"]["uid"], volume["name"])
        if claimed.has_group and group is not None and not read_only and key not in self._given:
            await asyncio.to_thread(give_all, claimed.path, group, policy_of(pod))
            self._given.add(key)
        return Prepared(claimed.path, read_only, is_of_machine=True)

    async def _files(self, pod: Obj, volume: Obj, facts: PodFacts) -> tuple[str, Files]:
        """The name of a volume's plugin, and its files."""
        namespace = pod["metadata"].get("namespace", "")

        def value(item: Obj) -> str:
            if "fieldRef" in item:
                return facts.field(item["fieldRef"]["fieldPath"])
            return facts.resource(item["resourceFieldRef"], {"name": ""})

        if "configMap" in volume:
            return "configmap", object_files(CONFIG_MAPS, volume["configMap"], namespace, self._lookup)
        if "secret" in volume:
            return "secret", object_files(SECRETS, volume["secret"], namespace, self._lookup)
        if "downwardAPI" in volume:
            return "downward-api", field_files(volume["downwardAPI"], value)
        if "projected" in volume:
            tokens = _token_files(pod, volume["projected"], await self._tokens.of_volume(pod, volume["projected"]))
            return "projected", projected_files(volume["projected"], namespace, self._lookup, value, tokens)
        kinds = ", ".join(sorted(set(volume) - {"name"}))
        raise VolumeError(f"volumes of kind {kinds} are not supported by pods that run as processes: use {_SUPPORTED}")

    def _empty(self, pod: Obj, volume: Obj, facts: PodFacts) -> Path:
        """The folder of an emptyDir volume."""
        source, uid = volume.get("emptyDir") or {}, pod["metadata"]["uid"]
        if source.get("medium") == "Memory" and self._memory.exist:
            folder, is_new = self._memory.make(uid, volume["name"], memory_size(pod, source, facts.allocatable or {}))
        else:
            folder = self._path(pod, "empty-dir", volume["name"])
            is_new = not folder.exists()
            if is_new:
                folder.mkdir(parents=True)
                folder.chmod(0o777)
        group = fs_group_of(pod)
        if is_new and group is not None:
            give(folder, group)
        return folder

    def _path(self, pod: Obj, plugin: str, name: str) -> Path:
        return self._folder / str(pod["metadata"]["uid"]) / "volumes" / f"kubernetes.io~{plugin}" / name

    def mounts(
        self, pod: Obj, container: Obj, volumes: Mapping[str, Prepared], variables: Mapping[str, str]
    ) -> list[Mount]:
        """Return the volume mounts of a container, parents first.

        In a volume that contains the folder of the cluster, such as a home folder, an empty folder replaces it.

        Args:
            pod: the pod.
            container: the container in the pod's specification.
            volumes: the result of `prepare`.
            variables: of the container, for `subPathExpr`.

        Raises:
            ConfigError: a mount names an unknown volume, a path outside of it, or one in the folder of the cluster.
        """
        found = []
        for mount in container.get("volumeMounts") or ():
            volume = volumes.get(mount["name"])
            if volume is None:
                raise ConfigError(
                    f'volume "{mount["name"]}" of a mount of container {container["name"]} does not exist'
                )
            part = expand(mount.get("subPathExpr") or "", variables) or mount.get("subPath") or ""
            if volume.image:
                found.append(_image_mount(mount, part, volume.image))
                continue
            source = _within(volume.path, part) if part else volume.path.resolve()
            covers = self._covers(mount, source) if volume.is_of_machine else ()
            if not source.exists():
                _make_folders(volume.path.resolve(), source)
            read_only = volume.read_only or bool(mount.get("readOnly"))
            # The later mount must be the path checked here: other containers can write to the volume.
            found += [Mount(mount["mountPath"], str(source), read_only, real=True), *covers]
        return sorted(found, key=lambda each: (each.target.rstrip("/").count("/"), each.target))

    def _covers(self, mount: Obj, source: Path) -> list[Mount]:
        """Empty folders that hide the folder of the cluster in a mount; none if that does not contain it.

        Args:
            mount: the container's mount.
            source: its source path without links.

        Raises:
            ConfigError: the mount is of that folder or of a part of it.
        """
        hidden = self._hidden
        if hidden is None:
            return []
        if source.is_relative_to(hidden):
            raise ConfigError(f'volume "{mount["name"]}": {refusal(source, hidden)}')
        if not hidden.is_relative_to(source):
            return []
        target = Path(mount["mountPath"]) / hidden.relative_to(source)
        return [Mount(str(target), read_only=True, size=COVER_SIZE, optional=True)]

    def renewal(self, uid: str) -> int | None:
        """Return the time at which a token of a pod must be replaced; None without tokens."""
        return self._tokens.renewal(uid)

    def remove(self, uid: str) -> None:
        """Remove the folder of a pod with its volumes, asynchronously."""
        self._tokens.forget(uid)
        self._given = {key for key in self._given if key[0] != uid}
        self._memory.remove(uid)
        if (folder := self._folder / uid).exists():
            remove_later(folder)

    def pods(self) -> Sequence[str]:
        """Return the uids of pods that have a folder."""
        return sorted(os.listdir(self._folder)) if self._folder.is_dir() else ()


def _image_mount(mount: Obj, part: str, image: str) -> Mount:
    """The mount of an image by the runtime.

    Raises:
        ConfigError: it is of a part of the image.
    """
    if part:
        message = "podman mounts only entire images, so subPath cannot be used: remove it, or map the image to a folder"
        raise ConfigError(f'volume "{mount["name"]}": {message}')
    return Mount(mount["mountPath"], read_only=True, image=image)


def _token_files(pod: Obj, source: Obj, tokens: Mapping[str, str]) -> dict[str, File]:
    """The files of tokens: only for the user of the containers, if the pod defines a single one, and its group."""
    user = fs_user_of(pod)
    is_private = user is not None or (pod["spec"].get("securityContext") or {}).get("fsGroup") is not None
    mode = 0o600 if is_private else source.get("defaultMode", DEFAULT_MODE)
    owner = user if os.getuid() == 0 else None
    return {path: File(text.encode(), mode, owner) for path, text in tokens.items()}


def memory_size(pod: Obj, source: Obj, allocatable: Mapping[str, str]) -> int:
    """Return the size of an emptyDir in memory: the minimum of its limit, the containers' limits and node memory.

    Args:
        pod: the pod.
        source: of the volume.
        allocatable: of the node.

    Returns:
        Bytes; 0 if nothing limits it.
    """
    every = (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])
    limits = {each["name"]: (each.get("resources") or {}).get("limits") or {} for each in every}
    sizes = [parse_size(str(source.get("sizeLimit") or 0)), amounts_of(allocatable).get("memory", 0)]
    if all("memory" in each for each in limits.values()):
        of_pod = requests_of(pod, {name: {"requests": each} for name, each in limits.items()})
        sizes.append(of_pod.get("memory", 0))
    return min((size for size in sizes if size > 0), default=0)


def _within(folder: Path, part: str) -> Path:
    """A path in a volume, without links.

    Raises:
        ConfigError: it leads out of the volume.
    """
    if part.startswith("/") or ".." in part.split("/"):
        raise ConfigError(f'subPath "{part}" must be relative and must not contain ".."')
    root, found = folder.resolve(), (folder / part).resolve()
    if not found.is_relative_to(root):
        raise ConfigError(f'subPath "{part}" leads out of its volume')
    return found


def _make_folders(folder: Path, path: Path) -> None:
    """Create a path in a volume, so that all writers of the volume can write there, like kubelets.

    A writer may create a link there meanwhile, so links are not followed.

    Raises:
        ConfigError: it cannot be made.
    """
    mode, flags = folder.stat().st_mode & 0o2777, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    at = os.open(folder, flags)
    try:
        for name in path.relative_to(folder).parts:
            is_new = False
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=at)
                is_new = True
            below = os.open(name, flags, dir_fd=at)
            if is_new:
                os.fchmod(below, mode)
            os.close(at)
            at = below
    except OSError as error:
        raise ConfigError(f"failed to create subPath directory {path}: {error.strerror}") from error
    finally:
        os.close(at)


def objects_of(pod: Obj) -> set[tuple[str, str]]:
    """Return kind and name of the ConfigMaps and Secrets in the volumes of a pod."""
    found = set()
    for volume in pod["spec"].get("volumes") or ():
        for part in (volume, *((volume.get("projected") or {}).get("sources") or ())):
            if "configMap" in part:
                found.add((CONFIG_MAPS.kind, part["configMap"].get("name") or ""))
            if "secret" in part:
                found.add((SECRETS.kind, part["secret"].get("secretName") or part["secret"].get("name") or ""))
    return found


def fields_shown(pod: Obj) -> dict[str, Any]:
    """Return the mutable fields of a pod that its volumes may show; empty without such a volume."""
    for volume in pod["spec"].get("volumes") or ():
        for part in (volume, *((volume.get("projected") or {}).get("sources") or ())):
            if "downwardAPI" in part:
                metadata, containers = pod["metadata"], pod["spec"]["containers"]
                resources = [each.get("resources") for each in containers]
                return {"resources": resources, **{key: metadata.get(key) for key in ("labels", "annotations")}}
    return {}
