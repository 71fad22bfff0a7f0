"""Volumes of a Volcano job: claims that it names must exist, those that it only describes are created for it.

Names that are random in Volcano come from a hash here: asked again, the controller says the same, so that a second
try after a failure does not make a second claim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count
from typing import Any

from kilauea.api.kinds import CLAIMS, VC_JOBS
from kilauea.api.ports import Create, Key, Obj, Operation, View
from kilauea.controllers.objects import controller_of, name_of, owner_reference, spec_of, uid_of
from kilauea.controllers.vcjobs.refusals import CLAIM_REFUSED

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
SUFFIX_LENGTH = 12


@dataclass(frozen=True, slots=True)
class Volumes:
    """Claims to create and problems to report for the volumes of a job.

    Attributes:
        operations: claims to be made.
        claim_names: names of claims that were chosen here, by the index in `spec.volumes`: to be written into the job.
        controlled: entries of the status' `controlledResources`, of all volumes that have a claim.
        missing: the objects that it waits for, in words; empty if none.
    """

    operations: Sequence[Operation]
    claim_names: Mapping[int, str]
    controlled: Mapping[str, str]
    missing: str


def volumes_of(job: Obj, view: View) -> Volumes:
    """Return the needs of the volumes of a job, with claims as they are now."""
    operations: list[Operation] = []
    names: dict[int, str] = {}
    controlled: dict[str, str] = {}
    missing = ""
    for index, volume in enumerate(spec_of(job).get("volumes") or ()):
        name = volume.get("volumeClaimName") or ""
        if name and view.get(CLAIMS, Key(job["metadata"]["namespace"], name)) is None:
            missing = (
                missing or f"pvc {name} is not found, the job will be in the Pending state until the PVC is created"
            )
            continue
        if not name and volume.get("volumeClaim") is None:
            missing = missing or f"spec.volumes[{index}] has no claim: set volumeClaimName or volumeClaim"
            continue
        if not name:
            name, made = _own_claim(job, volume, view)
            operations += made
            names[index] = name
        controlled[f"volume-pvc-{name}"] = name
    return Volumes(operations, names, controlled, missing)


def claim_name(job: Obj, volume: Mapping[str, Any], attempt: int = 0) -> str:
    """The name of the claim of a volume: that which the job gives, or one that is made up.

    Args:
        job: the job.
        volume: one of its volumes.
        attempt: how many names that were made up before were taken.
    """
    path = volume["mountPath"]
    return str(volume.get("volumeClaimName") or f"{name_of(job)}-pvc-{hashed(f'{uid_of(job)}/{path}/{attempt}')}")


def _own_claim(job: Obj, volume: Mapping[str, Any], view: View) -> tuple[str, list[Operation]]:
    """The name of the claim that is made for a volume, and how, unless it is there already."""
    for attempt in count():
        name = claim_name(job, volume, attempt)
        found = view.get(CLAIMS, Key(job["metadata"]["namespace"], name))
        if found is None:
            return name, [Create(CLAIMS, _claim(job, name, volume["volumeClaim"]), job, CLAIM_REFUSED)]
        owner = controller_of(found)
        if owner is not None and owner["uid"] == uid_of(job):
            return name, []
    raise AssertionError("counting has no end")


def _claim(job: Obj, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": job["metadata"]["namespace"],
        "ownerReferences": [owner_reference(VC_JOBS, job)],
    }
    return {"apiVersion": CLAIMS.api_version, "kind": CLAIMS.kind, "metadata": metadata, "spec": spec}


def hashed(text: str) -> str:
    """Twelve digits and small letters, always the same for a text."""
    number = int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
    letters = ""
    for _ in range(SUFFIX_LENGTH):
        number, letter = divmod(number, len(_DIGITS))
        letters += _DIGITS[letter]
    return letters
