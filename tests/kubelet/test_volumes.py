"""The content of volumes, their updates, and where containers see them."""

from __future__ import annotations

import asyncio
import base64
import stat
from pathlib import Path
from typing import Any

import pytest

from kilauea.api.kinds import CLAIMS, CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, VOLUMES
from kilauea.api.ports import Key, Obj, Resource
from kilauea.kubelet.environment import ConfigError, PodFacts
from kilauea.kubelet.volumes import VolumeError, Volumes
from kilauea.kubelet.volumes.tokens import Tokens
from support.kubelets import until_removed
from support.virtual_time import START


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.moment = START

    def now(self) -> int:
        return self.moment

    def monotonic(self) -> int:
        return self.moment

    async def sleep(self, seconds: float) -> None:
        self.moment += int(seconds * 1_000_000)


class Api:
    """Issues tokens with a number."""

    def __init__(self) -> None:
        self.requests: list[Obj] = []

    async def create(
        self, resource: Resource, namespace: str, body: Obj, subresource: str = "", name: str = ""
    ) -> dict[str, Any]:
        assert (resource, subresource) == (SERVICE_ACCOUNTS, "token")
        self.requests.append({"namespace": namespace, "name": name, **body["spec"]})
        return {"status": {"token": f"token-{len(self.requests)}"}}


class Machine:
    """Volumes in a folder, and the objects they are made of."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.objects: dict[tuple[Resource, str], Obj] = {}
        self.api, self.clock = Api(), Clock()
        (folder / "shm").mkdir()
        tokens = Tokens(self.api, self.clock)  # type: ignore[arg-type]
        self.volumes = Volumes(folder / "pods", self._lookup, tokens, folder / "shm", hidden=folder / "cluster")

    def _lookup(self, resource: Resource, key: Key) -> Obj | None:
        return self.objects.get((resource, key.name))

    def prepare(self, *volumes: Obj) -> dict[str, Any]:
        return asyncio.run(self.volumes.prepare(pod(*volumes), PodFacts(pod(*volumes))))

    def one(self, **source: Any) -> Path:
        path: Path = self.prepare({"name": "v", **source})["v"].path
        return path

    def mounts(self, container: Obj, *volumes: Obj, **variables: str) -> list[tuple[str, str, bool]]:
        found = self.volumes.mounts(pod(*volumes), {"name": "main", **container}, self.prepare(*volumes), variables)
        return [(each.target, each.source, each.read_only) for each in found]


def pod(*volumes: Obj) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "ns", "uid": "u-1", "labels": {"app": "web"}}
    return {"metadata": metadata, "spec": {"containers": [], "volumes": list(volumes)}}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    found = Machine(tmp_path)
    found.objects[CONFIG_MAPS, "settings"] = {
        "kind": "ConfigMap",
        "data": {"a": "1", "b": "2"},
        "binaryData": {"c": base64.b64encode(b"\xff").decode()},
    }
    found.objects[SECRETS, "keys"] = {"kind": "Secret", "data": {"id": base64.b64encode(b"x").decode()}}
    return found


def content(folder: Path) -> dict[str, bytes]:
    """Files that a reader of a volume sees."""
    return {
        str(each.relative_to(folder)): each.read_bytes()
        for each in sorted(folder.rglob("*"))
        if each.is_file() and ".." not in str(each.relative_to(folder))
    }


def test_a_config_map_is_a_folder_of_its_entries(machine: Machine) -> None:
    folder = machine.one(configMap={"name": "settings", "defaultMode": 0o600})
    assert content(folder) == {"a": b"1", "b": b"2", "c": b"\xff"}
    assert (folder / "a").stat().st_mode & 0o777 == 0o600
    assert (folder / "a").readlink() == Path("..data/a")


def test_items_choose_entries_paths_and_modes(machine: Machine) -> None:
    items = [{"key": "id", "path": "deep/key", "mode": 0o400}]
    folder = machine.one(secret={"secretName": "keys", "items": items})
    assert (folder / "deep" / "key").read_bytes() == b"x"
    assert (folder / "deep" / "key").stat().st_mode & 0o777 == 0o400


def test_a_change_of_the_object_replaces_all_files_at_once(machine: Machine) -> None:
    folder = machine.one(configMap={"name": "settings"})
    before = (folder / "..data").readlink()
    assert machine.one(configMap={"name": "settings"}) == folder
    assert (folder / "..data").readlink() == before
    machine.objects[CONFIG_MAPS, "settings"] = {"kind": "ConfigMap", "data": {"b": "3", "d": "4"}}
    machine.one(configMap={"name": "settings"})
    assert content(folder) == {"b": b"3", "d": b"4"}
    assert (folder / "..data").readlink() != before
    assert not (folder / before).exists()
    assert not (folder / "a").is_symlink()


def test_a_projected_volume_joins_its_sources(machine: Machine) -> None:
    sources = [
        {"configMap": {"name": "settings", "items": [{"key": "a", "path": "one/a"}]}},
        {"secret": {"name": "keys"}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 600}},
    ]
    folder = machine.one(projected={"sources": sources})
    found = {name: (folder / name).read_bytes() for name in ("one/a", "id", "labels", "token")}
    assert found == {"one/a": b"1", "id": b"x", "labels": b'app="web"', "token": b"token-1"}
    (request,) = machine.api.requests
    assert (request["name"], request["audiences"], request["expirationSeconds"]) == ("default", ["vault"], 600)
    assert request["boundObjectRef"]["uid"] == "u-1"


def test_a_token_is_replaced_before_it_expires(machine: Machine) -> None:
    source = {"sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 600}}]}
    folder = machine.one(projected=source)
    machine.clock.moment += 400 * 1_000_000
    machine.one(projected=source)
    assert (folder / "token").read_bytes() == b"token-1"
    assert machine.volumes.renewal("u-1") == START + 480 * 1_000_000
    machine.clock.moment += 100 * 1_000_000
    machine.one(projected=source)
    assert (folder / "token").read_bytes() == b"token-2"


def test_an_empty_folder_keeps_its_content_and_goes_with_the_pod(machine: Machine) -> None:
    folder = machine.one(emptyDir={})
    memory = machine.prepare({"name": "m", "emptyDir": {"medium": "Memory"}})["m"].path
    (folder / "file").write_text("kept")
    (memory / "file").write_text("kept")
    assert (machine.one(emptyDir={}) / "file").read_text() == "kept"
    assert memory.is_relative_to(machine.folder / "shm")
    machine.volumes.remove("u-1")
    until_removed()
    assert not folder.exists()
    assert not memory.exists()


@pytest.mark.parametrize(
    ("path", "type", "message"),
    [
        ("none", "Directory", "hostPath type check failed: {} is not a directory"),
        ("none", "File", "hostPath type check failed: {} is not a file"),
        ("folder", "File", "hostPath type check failed: {} is not a file"),
        ("file", "DirectoryOrCreate", "hostPath type check failed: {} is not a directory"),
        ("folder", "Socket", "hostPath type check failed: {} is not a socket"),
        ("folder", "Directory", ""),
        ("file", "File", ""),
        ("new", "DirectoryOrCreate", ""),
        ("new", "FileOrCreate", ""),
        ("file", "", ""),
    ],
)
def test_host_paths_are_checked_by_their_type(machine: Machine, path: str, type: str, message: str) -> None:
    (machine.folder / "folder").mkdir()
    (machine.folder / "file").touch()
    at = str(machine.folder / path)
    source = {"path": at, "type": type}
    if not message:
        assert machine.one(hostPath=source) == Path(at)
        assert Path(at).exists()
        return
    with pytest.raises(VolumeError) as refused:
        machine.one(hostPath=source)
    assert str(refused.value) == f'MountVolume.SetUp failed for volume "v" : {message.format(at)}'


def test_a_claim_is_the_folder_of_its_volume(machine: Machine) -> None:
    machine.objects[CLAIMS, "data"] = {"spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}}
    machine.objects[VOLUMES, "pv"] = {"spec": {"hostPath": {"path": str(machine.folder / "pv")}}}
    assert machine.one(persistentVolumeClaim={"claimName": "data"}) == machine.folder / "pv"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMap": {"name": "none"}}, 'configmap "none" not found'),
        ({"secret": {"secretName": "none"}}, 'secret "none" not found'),
        (
            {"configMap": {"name": "settings", "items": [{"key": "z", "path": "z"}]}},
            "configmap references non-existent config key: z",
        ),
        (
            {"secret": {"secretName": "keys", "items": [{"key": "z", "path": "z"}]}},
            "references non-existent secret key: z",
        ),
        ({"configMap": {"name": "settings", "items": [{"key": "a", "path": "../a"}]}}, 'invalid path "../a"'),
        ({"persistentVolumeClaim": {"claimName": "none"}}, 'persistentvolumeclaims "none" not found'),
        ({"nfs": {"server": "s", "path": "/"}}, "volumes of kind nfs are not supported by pods that run as processes"),
        (
            {"projected": {"sources": [{"clusterTrustBundle": {}}]}},
            "projected source clusterTrustBundle is not supported",
        ),
    ],
)
def test_a_volume_that_cannot_be_mounted_says_why(machine: Machine, source: dict[str, Any], message: str) -> None:
    with pytest.raises(VolumeError) as refused:
        machine.one(**source)
    assert str(refused.value).startswith('MountVolume.SetUp failed for volume "v" : ')
    assert message in str(refused.value)


def test_optional_objects_may_be_missing(machine: Machine) -> None:
    assert content(machine.one(configMap={"name": "none", "optional": True})) == {}


def test_mounts_have_parts_of_volumes_parents_first(machine: Machine) -> None:
    mounts = [
        {"name": "v", "mountPath": "/data/inner", "subPathExpr": "$(WHO)/x"},
        {"name": "v", "mountPath": "/data", "readOnly": True},
        {"name": "c", "mountPath": "/etc/a.conf", "subPath": "a"},
    ]
    volumes = ({"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {"name": "settings"}})
    found = machine.mounts({"volumeMounts": mounts}, *volumes, WHO="me")
    folder = machine.prepare(*volumes)["v"].path
    assert [each[0] for each in found] == ["/data", "/data/inner", "/etc/a.conf"]
    assert found[0][1:] == (str(folder), True)
    assert found[1][1:] == (str(folder / "me" / "x"), False)
    assert Path(found[2][1]).read_text() == "1"


def test_a_part_of_a_volume_must_lie_in_it(machine: Machine) -> None:
    volume = {"name": "v", "emptyDir": {}}
    folder = machine.prepare(volume)["v"].path
    (folder / "out").symlink_to("/etc")
    for part in ("../x", "/etc", "out"):
        with pytest.raises(ConfigError):
            machine.mounts({"volumeMounts": [{"name": "v", "mountPath": "/d", "subPath": part}]}, volume)


def test_nothing_is_made_outside_of_a_volume(machine: Machine) -> None:
    volume = {"name": "v", "emptyDir": {}}
    folder, elsewhere = machine.prepare(volume)["v"].path, machine.folder / "elsewhere"
    elsewhere.mkdir()
    (folder / "out").symlink_to(elsewhere)
    (folder / "dangling").symlink_to(machine.folder / "missing")
    for part in ("out/new", "out/new/deep", "dangling", "dangling/new"):
        with pytest.raises(ConfigError, match=f'subPath "{part}" leads out of its volume'):
            machine.mounts({"volumeMounts": [{"name": "v", "mountPath": "/d", "subPath": part}]}, volume)
    assert list(elsewhere.iterdir()) == []
    assert not (machine.folder / "missing").exists()


def test_a_volume_that_contains_the_folder_of_the_cluster_has_an_empty_one_there(machine: Machine) -> None:
    (machine.folder / "cluster" / "credentials").mkdir(parents=True)
    (machine.folder / "link").symlink_to(machine.folder)
    for path in (machine.folder, machine.folder / "link"):
        volume = {"name": "v", "hostPath": {"path": str(path)}}
        mounts = machine.mounts({"volumeMounts": [{"name": "v", "mountPath": "/machine"}]}, volume)
        assert mounts == [("/machine", str(path), False), ("/machine/cluster", "", True)]


@pytest.mark.parametrize("part", ["", "credentials", "credentials/token"])
def test_no_volume_is_in_the_folder_of_the_cluster(machine: Machine, part: str) -> None:
    cluster = machine.folder / "cluster"
    (cluster / "credentials").mkdir(parents=True)
    (cluster / "credentials" / "token").write_text("secret")
    (machine.folder / "link").symlink_to(cluster)
    mount = {"name": "v", "mountPath": "/in"}
    sources = [(cluster / part, ""), (machine.folder / "link" / part, ""), (machine.folder, f"cluster/{part}")]
    for path, below in sources:
        mounts = {"volumeMounts": [{**mount, "subPath": below} if below else mount]}
        with pytest.raises(ConfigError, match="the folder of the cluster, which pods cannot see"):
            machine.mounts(mounts, {"name": "v", "hostPath": {"path": str(path)}})
    machine.objects[CLAIMS, "c"] = {"spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}}
    for kind in ("hostPath", "local"):
        machine.objects[VOLUMES, "pv"] = {"spec": {kind: {"path": str(cluster / part)}}}
        with pytest.raises(ConfigError, match="the folder of the cluster, which pods cannot see"):
            machine.mounts({"volumeMounts": [mount]}, {"name": "v", "persistentVolumeClaim": {"claimName": "c"}})


def test_other_users_cannot_look_into_folders_in_memory(machine: Machine) -> None:
    folder = machine.one(emptyDir={"medium": "Memory"})
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.stat().st_mode) == 0o777
