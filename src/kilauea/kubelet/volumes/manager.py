"""`Volumes`: prepares the volumes of pods, keeps them up to date, tells where containers see them, removes them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kilauea.api.kinds import CONFIG_MAPS, SECRETS
from kilauea.api.ports import Obj
from kilauea.kubelet.container_runtime import Mount
from kilauea.kubelet.environment import ConfigError, PodFacts, expand
from kilauea.kubelet.removal import remove_later
from kilauea.kubelet.volumes.atomic import write_files
from kilauea.kubelet.volumes.claims import claimed_path
from kilauea.kubelet.volumes.host_path import prepare_host_path
from kilauea.kubelet.volumes.sources import Files, Lookup, VolumeError, field_files, object_files, projected_files
from kilauea.kubelet.volumes.tokens import Tokens

SHARED_MEMORY = Path("/dev/shm")
COVER_SIZE = 4096
"""Bytes of an empty folder that covers another one."""
_SUPPORTED = "emptyDir, hostPath, configMap, secret, projected, downwardAPI or persistentVolumeClaim"


class Prepared(NamedTuple):
    """A volume on this machine.

    Attributes:
        path: a file or folder.
        read_only: True if no container may write there.
        is_of_machine: True for a path that someone has chosen, and not the kubelet.
    """

    path: Path
    read_only: bool = False
    is_of_machine: bool = False


class Volumes:
    """The volumes of the pods of this machine.

    Args:
        folder: contains a folder for each pod, named by its uid.
        lookup: returns the objects that volumes refer to.
        tokens: of service accounts.
        memory: folder in memory, for those that pods want there; it need not exist.
        hidden: folder of the cluster, whose credentials are for its administrator alone; None to hide nothing.
    """

    def __init__(
        self,
        folder: Path,
        lookup: Lookup,
        tokens: Tokens,
        memory: Path = SHARED_MEMORY,
        hidden: Path | None = None,
    ) -> None:
        self._folder = folder
        self._lookup = lookup
        self._tokens = tokens
        self._memory = memory
        self._hidden = None if hidden is None else hidden.resolve()

    async def prepare(self, pod: Obj, facts: PodFacts) -> dict[str, Prepared]:
        """Create the volumes of a pod, or bring them up to date; return them by name.

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
                words = f"{error.filename}: {error.strerror}"
                raise VolumeError(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {words}') from error
        return found

    async def _prepare(self, pod: Obj, volume: Obj, facts: PodFacts) -> Prepared:
        if "emptyDir" in volume or set(volume) == {"name"}:
            return Prepared(self._empty(pod, volume))
        if "hostPath" in volume:
            source = volume["hostPath"]
            return Prepared(prepare_host_path(source["path"], source.get("type") or ""), is_of_machine=True)
        if "persistentVolumeClaim" in volume:
            source = volume["persistentVolumeClaim"]
            claimed = claimed_path(source["claimName"], pod, self._lookup)
            return Prepared(claimed.path, claimed.read_only or bool(source.get("readOnly")), is_of_machine=True)
        kind, files = await self._files(pod, volume, facts)
        folder = self._path(pod, kind, volume["name"])
        write_files(folder, files)
        return Prepared(folder, True)

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
            tokens = await self._tokens.of_volume(pod, volume["projected"])
            return "projected", projected_files(volume["projected"], namespace, self._lookup, value, tokens)
        kinds = ", ".join(sorted(set(volume) - {"name"}))
        raise VolumeError(f"volumes of kind {kinds} are not supported by pods that run as processes: use {_SUPPORTED}")

    def _empty(self, pod: Obj, volume: Obj) -> Path:
        """The folder of an emptyDir."""
        source = volume.get("emptyDir") or {}
        folder = self._path(pod, "empty-dir", volume["name"])
        if source.get("medium") == "Memory" and self._memory.is_dir():
            folder = self._in_memory(pod["metadata"]["uid"]) / volume["name"]
            folder.parent.mkdir(mode=0o700, exist_ok=True)  # other users of the machine are not to look into it
        if not folder.exists():
            folder.mkdir(parents=True)
            folder.chmod(0o777)
        return folder

    def _path(self, pod: Obj, plugin: str, name: str) -> Path:
        return self._folder / str(pod["metadata"]["uid"]) / "volumes" / f"kubernetes.io~{plugin}" / name

    def _in_memory(self, uid: str) -> Path:
        return self._memory / f"kilauea-{uid}"

    def mounts(
        self, pod: Obj, container: Obj, volumes: Mapping[str, Prepared], variables: Mapping[str, str]
    ) -> list[Mount]:
        """Return what a container sees of the volumes of its pod, parents first.

        A volume that contains the folder of the cluster, such as a home folder, has an empty one in its place.

        Args:
            pod: the pod.
            container: as the pod's specification has it.
            volumes: as `prepare` has returned them.
            variables: of the container, for `subPathExpr`.

        Raises:
            ConfigError: a mount names no volume, a path that leads out of it, or one in the folder of the cluster.
        """
        found = []
        for mount in container.get("volumeMounts") or ():
            volume = volumes.get(mount["name"])
            if volume is None:
                raise ConfigError(
                    f'volume "{mount["name"]}" of a mount of container {container["name"]} does not exist'
                )
            part = expand(mount.get("subPathExpr") or "", variables) or mount.get("subPath") or ""
            source = _within(volume.path, part) if part else volume.path
            read_only = volume.read_only or bool(mount.get("readOnly"))
            found.append(Mount(mount["mountPath"], str(source), read_only))
            if volume.is_of_machine:
                found += self._covers(mount, source)
        return sorted(found, key=lambda each: (each.target.rstrip("/").count("/"), each.target))

    def _covers(self, mount: Obj, source: Path) -> list[Mount]:
        """Empty folders that hide the folder of the cluster in a mount; none if that does not contain it.

        Raises:
            ConfigError: the mount is of that folder or of a part of it.
        """
        hidden, real = self._hidden, source.resolve()
        if hidden is None:
            return []
        if real.is_relative_to(hidden):
            words = (
                f'volume "{mount["name"]}": {source} is in {hidden}, the folder of the cluster, which pods cannot see'
            )
            raise ConfigError(words)
        if not hidden.is_relative_to(real):
            return []
        target = Path(mount["mountPath"]) / hidden.relative_to(real)
        return [Mount(str(target), read_only=True, size=COVER_SIZE, optional=True)]

    def renewal(self, uid: str) -> int | None:
        """Return the time at which a token of a pod is to be replaced; None if it has none."""
        return self._tokens.renewal(uid)

    def remove(self, uid: str) -> None:
        """Remove the volumes of a pod and what else is in its folder, soon."""
        self._tokens.forget(uid)
        for folder in (self._in_memory(uid), self._folder / uid):
            if folder.exists():
                remove_later(folder)

    def pods(self) -> Sequence[str]:
        """Return the uids of pods that have a folder."""
        return sorted(os.listdir(self._folder)) if self._folder.is_dir() else ()


def _within(folder: Path, part: str) -> Path:
    """A path in a volume, which is created as a folder if nothing is there.

    Raises:
        ConfigError: it leads out of the volume.
    """
    if part.startswith("/") or ".." in part.split("/"):
        raise ConfigError(f'subPath "{part}" must be relative and must not contain ".."')
    root, found = folder.resolve(), (folder / part).resolve()
    if not found.is_relative_to(root):  # looked at first, so that nothing is made elsewhere
        raise ConfigError(f'subPath "{part}" leads out of its volume')
    if not found.exists():
        _make_folders(root, found)
    return found


def _make_folders(folder: Path, path: Path) -> None:
    """Make a path in a volume, so that all writers of the volume can write there, as kubelets do it."""
    mode = folder.stat().st_mode & 0o777
    for each in (*reversed(path.relative_to(folder).parents), path.relative_to(folder)):
        if not (folder / each).exists():
            (folder / each).mkdir()
            (folder / each).chmod(mode)


def objects_of(pod: Obj) -> set[tuple[str, str]]:
    """Return kind and name of the ConfigMaps and Secrets that the volumes of a pod are made of."""
    found = set()
    for volume in pod["spec"].get("volumes") or ():
        for part in (volume, *((volume.get("projected") or {}).get("sources") or ())):
            if "configMap" in part:
                found.add((CONFIG_MAPS.kind, part["configMap"].get("name") or ""))
            if "secret" in part:
                found.add((SECRETS.kind, part["secret"].get("secretName") or part["secret"].get("name") or ""))
    return found


def fields_shown(pod: Obj) -> dict[str, Any]:
    """Return the fields that can change in a pod and that its volumes may show; none if it has no such volume."""
    for volume in pod["spec"].get("volumes") or ():
        for part in (volume, *((volume.get("projected") or {}).get("sources") or ())):
            if "downwardAPI" in part:
                metadata, containers = pod["metadata"], pod["spec"]["containers"]
                resources = [each.get("resources") for each in containers]
                return {"resources": resources, **{key: metadata.get(key) for key in ("labels", "annotations")}}
    return {}
