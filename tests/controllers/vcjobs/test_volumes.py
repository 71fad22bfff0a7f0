"""Claims that a job describes are made for it, once; those that it names are waited for."""

from __future__ import annotations

import re
from typing import Any

from kilauea.api.kinds import CLAIMS
from kilauea.api.ports import Create
from kilauea.controllers.vcjobs.volumes import hashed, volumes_of
from support.vcjob_parts import job, there, view_of

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
MADE = {"mountPath": "/made", "volumeClaim": CLAIM}
NAMED = {"mountPath": "/named", "volumeClaimName": "data"}


def owned(uid: str) -> dict[str, Any]:
    return {"ownerReferences": [{"apiVersion": "v", "kind": "Job", "name": "m", "uid": uid, "controller": True}]}


def test_a_claim_that_is_described_is_made_with_a_name_of_its_own() -> None:
    found = volumes_of(job(volumes=[MADE]), view_of())
    (create,) = found.operations
    assert isinstance(create, Create)
    name = create.body["metadata"]["name"]
    assert re.fullmatch("m-pvc-[0-9a-z]{12}", name)
    assert create.resource == CLAIMS
    assert create.body["spec"] == CLAIM
    assert create.body["metadata"]["ownerReferences"][0]["uid"] == "5d0e"
    assert found.claim_names == {0: name}
    assert found.controlled == {f"volume-pvc-{name}": name}
    assert found.missing == ""


def test_asked_again_it_is_the_same_claim_and_made_only_once() -> None:
    of = job(volumes=[MADE])
    first = volumes_of(of, view_of())
    name = first.claim_names[0]
    again = volumes_of(of, view_of(there(CLAIMS, name, metadata=owned("5d0e"))))
    assert (again.operations, again.claim_names, again.controlled) == ([], first.claim_names, first.controlled)


def test_a_claim_of_somebody_else_is_not_taken() -> None:
    of = job(volumes=[MADE])
    name = volumes_of(of, view_of()).claim_names[0]
    other = volumes_of(of, view_of(there(CLAIMS, name, metadata=owned("of an earlier m"))))
    assert other.claim_names[0] != name
    assert len(other.operations) == 1


def test_a_claim_that_is_named_must_be_there() -> None:
    of = job(volumes=[NAMED])
    assert volumes_of(of, view_of()).missing == (
        "pvc data is not found, the job will be in the Pending state until the PVC is created"
    )
    found = volumes_of(of, view_of(there(CLAIMS, "data")))
    assert (found.operations, found.claim_names, found.missing) == ([], {}, "")
    assert found.controlled == {"volume-pvc-data": "data"}


def test_a_claim_whose_name_is_written_back_is_not_made_again() -> None:
    found = volumes_of(job(volumes=[MADE | {"volumeClaimName": "m-pvc-x"}]), view_of())
    assert found.operations == []
    assert found.missing.startswith("pvc m-pvc-x is not found")


def test_a_volume_without_any_claim_says_what_to_do() -> None:
    found = volumes_of(job(volumes=[NAMED, {"mountPath": "/x"}]), view_of(there(CLAIMS, "data")))
    assert found.missing == "spec.volumes[1] has no claim: set volumeClaimName or volumeClaim"


def test_what_can_be_made_is_made_while_something_is_missing() -> None:
    found = volumes_of(job(volumes=[NAMED, MADE]), view_of())
    assert found.missing
    assert list(found.claim_names) == [1]
    assert len(found.operations) == 1


def test_a_job_without_volumes_needs_nothing() -> None:
    found = volumes_of(job(), view_of())
    assert (found.operations, found.claim_names, found.controlled, found.missing) == ([], {}, {}, "")


def test_hashed_names_have_twelve_characters_and_differ() -> None:
    names = {hashed(str(number)) for number in range(1000)}
    assert len(names) == 1000
    assert {len(name) for name in names} == {12}
