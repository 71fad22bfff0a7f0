"""Volumes of a Volcano job: claims that it names must exist, those that it only describes are created.

Names that are random in Volcano are hashes here, so that a retry after a failure does not create a second claim.
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
        operations: claims to create.
        claim_names: names of claims that were generated, by index in `spec.volumes`, to be written to the job.
        controlled: entries of the status' `controlledResources`, of all volumes that have a claim.
        missing: the missing objects, in words; empty without any.
    """

    operations: Sequence[Operation]
    claim_names: Mapping[int, str]
    controlled: Mapping[str, str]
    missing: str


def volumes_of(job: Obj, view: View) -> Volumes:
    """Return the state of a job's volumes, with the existing claims."""
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
    """The name of the claim of a volume: the given one, or a generated one.

    Args:
        job: the job.
        volume: one of its volumes.
        attempt: number of generated names that were already taken.
    """
    path = volume["mountPath"]
    return str(volume.get("volumeClaimName") or f"{name_of(job)}-pvc-{hashed(f'{uid_of(job)}/{path}/{attempt}')}")


def _own_claim(job: Obj, volume: Mapping[str, Any], view: View) -> tuple[str, list[Operation]]:
    """The name of the claim for a volume, and the operations that create it if it does not exist."""
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
    """Twelve digits and lower-case letters, always the same for a text."""
    number = int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
    letters = ""
    for _ in range(SUFFIX_LENGTH):
        number, letter = divmod(number, len(_DIGITS))
        letters += _DIGITS[letter]
    return letters
