"""The volumes of a job: each has its own path, and is either an existing claim or one to create."""

from __future__ import annotations

from collections.abc import Sequence

from kilauea.admission.reading import bracketed
from kilauea.api.batch import JobVolume
from kilauea.api.names import subdomain_problems

_BOTH = (
    "conflict: If you want to use an existing PVC, just specify VolumeClaimName."
    "If you want to create a new PVC, you do not need to specify VolumeClaimName"
)


def check_volumes(volumes: Sequence[JobVolume] | None) -> str:
    """Describe the error in the first invalid volume; empty if there is none."""
    paths: set[str] = set()
    for volume in volumes or ():
        fault = _fault(volume, paths)
        if fault:
            return fault
        paths.add(volume.mount_path)
    return ""


def _fault(volume: JobVolume, paths: set[str]) -> str:
    if not volume.mount_path:
        return " mountPath is required;"
    if volume.mount_path in paths:
        return f" duplicated mountPath: {volume.mount_path};"
    name = volume.volume_claim_name
    if not name:
        return "" if volume.volume_claim is not None else " either VolumeClaim or VolumeClaimName must be specified;"
    if volume.volume_claim is not None:
        return _BOTH
    problems = subdomain_problems(name)
    return f"invalid VolumeClaimName {name} : {bracketed(problems)}" if problems else ""
