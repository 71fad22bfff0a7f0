"""PersistentVolumeClaims of pods: the folders of this machine that provide them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kilauea.api.kinds import CLAIMS, VOLUMES
from kilauea.api.ports import Key, Obj
from kilauea.kubelet.volumes.host_path import prepare_host_path
from kilauea.kubelet.volumes.sources import Lookup, VolumeError


class Claimed(NamedTuple):
    """The volume of a claim.

    Attributes:
        path: its folder.
        read_only: True if it is read-only.
        has_group: True if its group is set to the `fsGroup` of pods, as for local volumes.
    """

    path: Path
    read_only: bool
    has_group: bool = False


def claimed_path(name: str, pod: Obj, lookup: Lookup, hidden: Path | None = None) -> Claimed:
    """Return the folder of a claim.

    Args:
        name: of the claim, in the namespace of the pod.
        pod: the pod.
        lookup: returns claims and volumes.
        hidden: a folder without links that cannot contain volumes; None for none.

    Raises:
        VolumeError: the claim or its volume does not exist, is not bound, or is of a kind that this machine lacks.
    """
    namespace = pod["metadata"].get("namespace", "")
    claim = lookup(CLAIMS, Key(namespace, name))
    if claim is None:
        message = f'failed to fetch PVC from API server: persistentvolumeclaims "{name}" not found'
        raise VolumeError(f"error processing PVC {namespace}/{name}: {message}")
    bound = (claim.get("spec") or {}).get("volumeName")
    if not bound or (claim.get("status") or {}).get("phase") != "Bound":
        raise VolumeError(f"error processing PVC {namespace}/{name}: PVC is not bound")
    volume = lookup(VOLUMES, Key("", bound))
    if volume is None:
        raise VolumeError(f'failed to fetch PV {bound} from API server: persistentvolume "{bound}" not found')
    spec = volume.get("spec") or {}
    read_only = spec.get("accessModes") == ["ReadOnlyMany"]
    if "hostPath" in spec:
        path = spec["hostPath"]
        return Claimed(prepare_host_path(path["path"], path.get("type") or "", hidden), read_only)
    if "local" in spec:
        folder = Path(spec["local"]["path"])
        if not folder.exists():
            raise VolumeError(f'path "{folder}" of PersistentVolume {bound} does not exist: create it on this machine')
        return Claimed(folder, read_only, has_group=True)
    raise VolumeError(
        f"PersistentVolume {bound} is neither hostPath nor local: pods that run as processes can use only these"
    )
