"""The kinds of storage: how they are read, what is wrong with them, and what is filled in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kilauea.api import storage
from kilauea.api.decode import decode
from kilauea.api.defaults import fill_in
from kilauea.api.errors import object_label
from kilauea.api.meta import Object
from kilauea.api.quantity import QuantityError, parse_size
from kilauea.api.validate import check

GROUP = "storage.k8s.io/v1"


def read(kind: str, api_version: str = "", name: str = "x", **fields: Any) -> Any:
    text = json.dumps({"kind": kind, "apiVersion": api_version, "metadata": {"name": name}} | fields).encode()
    decoded = decode(text, "test")
    assert not decoded.errors
    return decoded.objects[0] if decoded.objects else None


@pytest.mark.parametrize(
    ("kind", "group", "label"),
    [
        ("PersistentVolume", "v1", "x"),
        ("PersistentVolumeClaim", "v1", "default/x"),
        ("StorageClass", GROUP, "x"),
        ("CSINode", GROUP, "x"),
        ("CSIDriver", GROUP, "x"),
        ("CSIStorageCapacity", GROUP, "default/x"),
        ("VolumeAttachment", GROUP, "x"),
    ],
)
def test_kinds_have_a_group_and_a_scope(kind: str, group: str, label: str) -> None:
    assert object_label(read(kind, group)) == label
    assert read(kind, "example.com/v1") is None


def test_fields_are_read_as_manifests_spell_them() -> None:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "slow",
        "volumeMode": "Block",
        "claimRef": {"namespace": "ns", "name": "data", "uid": "u", "kind": "PersistentVolumeClaim"},
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": "csi", "volumeHandle": "h"},
    }
    volume: storage.PersistentVolume = read("PersistentVolume", "v1", spec=spec, status={"phase": "Available"})
    assert volume.spec.csi is not None
    assert (volume.spec.csi.volume_handle, volume.spec.claim_ref and volume.spec.claim_ref.uid) == ("h", "u")
    node: storage.CSINode = read(
        "CSINode", GROUP, spec={"drivers": [{"name": "csi", "nodeID": "n", "allocatable": {"count": 3}}]}
    )
    assert [d.allocatable and d.allocatable.count for d in node.spec.drivers or ()] == [3]


def found(obj: Object) -> list[str]:
    return [f"{error.field}: {error.message}" for error in check(obj)]


@pytest.mark.parametrize(
    ("kind", "fields", "problems"),
    [
        ("PersistentVolume", {"spec": {"capacity": {"storage": "8Ei"}, "volumeMode": "Block"}}, []),
        (
            "PersistentVolume",
            {"spec": {"capacity": {"storage": "-1"}, "volumeMode": "Tape"}},
            [
                'spec.capacity[storage]: "-1" is negative: use 0 or more',
                'spec.volumeMode: "Tape" is not known: use Filesystem or Block',
            ],
        ),
        (
            "PersistentVolume",
            {
                "spec": {
                    "nodeAffinity": {
                        "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}
                    }
                }
            },
            [
                "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0]: "
                "In without values: give at least one value"
            ],
        ),
        (
            "PersistentVolumeClaim",
            {"spec": {"resources": {"requests": {"storage": "much"}}}},
            [
                'spec.resources.requests[storage]: "much" is not a quantity: '
                "use a number with an optional suffix such as 500m, 2, 1.5Gi"
            ],
        ),
        ("StorageClass", {"provisioner": "csi"}, []),
        (
            "StorageClass",
            {"volumeBindingMode": "Later", "allowedTopologies": [{"matchLabelExpressions": [{"values": ["a"]}]}]},
            [
                "provisioner: missing: give a value",
                'volumeBindingMode: "Later" is not known: use Immediate or WaitForFirstConsumer',
                "allowedTopologies[0].matchLabelExpressions[0].key: missing: give a value",
            ],
        ),
        (
            "CSINode",
            {"spec": {"drivers": [{"allocatable": {"count": -1}}]}},
            [
                "spec.drivers[0].name: missing: give a value",
                "spec.drivers[0].allocatable.count: -1 is out of range: use 0 to 2147483647",
            ],
        ),
        (
            "CSIStorageCapacity",
            {"capacity": "-1", "maximumVolumeSize": "1Gi"},
            ['capacity: "-1" is negative: use 0 or more'],
        ),
        ("VolumeAttachment", {}, []),
        (
            "Pod",
            {"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {}}]}},
            ["spec.volumes[0].persistentVolumeClaim.claimName: missing: give a value"],
        ),
        ("Pod", {"spec": {"volumes": [{"name": "v", "ephemeral": {}}, {"name": "w", "emptyDir": {}}]}}, []),
    ],
)
def test_what_is_wrong_is_named(kind: str, fields: dict[str, Any], problems: list[str]) -> None:
    assert found(read(kind, **fields)) == problems


@pytest.mark.parametrize(
    ("text", "size"), [("1Gi", 1 << 30), (5, 5), ("1500m", 2), ("16Ei", 1 << 64), (1.5, 2), ("1e20", 10**20)]
)
def test_sizes_may_be_of_any_magnitude(text: str | int | float, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "-1", -1, "1Gib"])
def test_sizes_are_quantities(text: str | int) -> None:
    with pytest.raises(QuantityError):
        parse_size(text)


DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}


def class_of(*classes: tuple[str, dict[str, Any]], claim: dict[str, Any]) -> str | None:
    """The class that a claim has once everything is filled in."""
    objects: list[Object] = [
        read("StorageClass", GROUP, provisioner="csi", metadata={"name": name} | metadata) for name, metadata in classes
    ]
    wanted: storage.PersistentVolumeClaim = read("PersistentVolumeClaim", "v1", **claim)
    assert fill_in([wanted, *objects]) == []
    return wanted.spec.storage_class_name


def test_a_claim_without_a_class_gets_the_default_one() -> None:
    marked = {"annotations": DEFAULT}
    assert class_of(("a", {}), ("b", marked), claim={}) == "b"
    assert class_of(("a", {}), claim={}) is None
    assert class_of(("a", marked), claim={"spec": {"storageClassName": ""}}) == ""
    assert class_of(("b", marked), ("a", marked), claim={}) == "a"
    newer = marked | {"creationTimestamp": "2026-01-01T00:00:00Z"}
    assert class_of(("b", newer), ("a", marked), claim={}) == "b"
    beta = {"metadata": {"name": "x", "annotations": {"volume.beta.kubernetes.io/storage-class": "c"}}}
    assert class_of(("a", marked), claim=beta) is None


def test_a_class_binds_at_once_unless_it_says_otherwise() -> None:
    plain = read("StorageClass", GROUP, provisioner="csi")
    waits = read("StorageClass", GROUP, provisioner="csi", volumeBindingMode="WaitForFirstConsumer")
    fill_in([plain, waits])
    assert (plain.volume_binding_mode, waits.volume_binding_mode) == ("Immediate", "WaitForFirstConsumer")
