"""The content of volumes, their updates, and where containers see them."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilauea.api.kinds import CLAIMS, CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, VOLUMES
from kilauea.api.ports import Key, Obj, Resource
from kilauea.kubelet.container_runtime import ContainerError, Mount
from kilauea.kubelet.host import Image
from kilauea.kubelet.image_volumes import image_volumes
from kilauea.kubelet.processes.supervisor import linux
from kilauea.kubelet.volumes import VolumeError, Volumes
from kilauea.kubelet.volumes.manager import memory_size
from kilauea.kubelet.volumes.tokens import Tokens
from kilauea.nodes.environment import ConfigError, PodFacts
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
        self.restart()

    def restart(self) -> None:
        """Begin again, with what is on the disk."""
        tokens, folder = Tokens(self.api, self.clock), self.folder  # type: ignore[arg-type]
        self.volumes = Volumes(folder / "pods", self._lookup, tokens, folder / "shm", hidden=folder / "cluster")

    def _lookup(self, resource: Resource, key: Key) -> Obj | None:
        return self.objects.get((resource, key.name))

    def prepare(self, *volumes: Obj, **spec: Any) -> dict[str, Any]:
        asked = pod(*volumes)
        asked["spec"] |= spec
        facts = PodFacts(asked, allocatable={"memory": "64Mi"})
        return asyncio.run(self.volumes.prepare(asked, facts))

    def one(self, **source: Any) -> Path:
        path: Path = self.prepare({"name": "v", **source})["v"].path
        return path

    def mounts(self, container: Obj, *volumes: Obj, **variables: str) -> list[tuple[str, str, bool]]:
        found = self.volumes.mounts(pod(*volumes), {"name": "main", **container}, self.prepare(*volumes), variables)
        return [(each.target, each.source, each.read_only) for each in found]


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def pod(*volumes: Obj) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "ns", "uid": "u-1", "labels": {"app": "web"}}
    return {"metadata": metadata, "spec": {"containers": [], "volumes": list(volumes)}}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    found = Machine(tmp_path)
    found.objects[CONFIG_MAPS, "settings"] = {
        "kind": "ConfigMap",
        "data": {"a": "1", "b": "2"},
        "binaryData": {"c": base64.b64encode(b"\xff").decode()},
    }
    found.objects[SECRETS, "keys"] = {"kind": "Secret", "data": {"id": base64.b64encode(b"x").decode()}}
    yield found
    found.volumes.remove("u-1")
    until_removed()


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
        assert mounts == [("/machine", str(machine.folder), False), ("/machine/cluster", "", True)]


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
        with pytest.raises((ConfigError, VolumeError), match="the folder of the cluster, which pods cannot see"):
            machine.mounts(mounts, {"name": "v", "hostPath": {"path": str(path)}})
    machine.objects[CLAIMS, "c"] = {"spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}}
    for kind in ("hostPath", "local"):
        machine.objects[VOLUMES, "pv"] = {"spec": {kind: {"path": str(cluster / part)}}}
        with pytest.raises((ConfigError, VolumeError), match="the folder of the cluster, which pods cannot see"):
            machine.mounts({"volumeMounts": [mount]}, {"name": "v", "persistentVolumeClaim": {"claimName": "c"}})


@pytest.mark.parametrize("type", ["", "DirectoryOrCreate", "FileOrCreate"])
def test_nothing_is_made_in_the_folder_of_the_cluster(machine: Machine, type: str) -> None:
    store = machine.folder / "cluster" / "store"
    store.mkdir(parents=True)
    (machine.folder / "link").symlink_to(store)
    container = {"volumeMounts": [{"name": "v", "mountPath": "/in"}]}
    machine.objects[CLAIMS, "c"] = {"spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}}
    for path in (store / "store.db-journal", machine.folder / "link" / "store.db-journal"):
        source = {"hostPath": {"path": str(path), "type": type}}
        machine.objects[VOLUMES, "pv"] = {"spec": source}
        for volume in (source, {"persistentVolumeClaim": {"claimName": "c"}}):
            with pytest.raises(VolumeError, match="the folder of the cluster, which pods cannot see"):
                machine.mounts(container, {"name": "v", **volume})
    container["volumeMounts"][0]["subPath"] = "cluster/store/store.db-journal/deep"
    with pytest.raises(ConfigError, match="the folder of the cluster, which pods cannot see"):
        machine.mounts(container, {"name": "v", "hostPath": {"path": str(machine.folder)}})
    assert list(store.iterdir()) == []


def test_other_users_cannot_look_into_folders_in_memory(machine: Machine) -> None:
    folder = machine.one(emptyDir={"medium": "Memory"})
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.stat().st_mode) == 0o1777


def seen(path: Path) -> tuple[str, int]:
    """Mode and group of a file or folder."""
    found = path.lstat()
    return stat.filemode(found.st_mode), found.st_gid


@needs_root
def test_volumes_are_given_to_the_group_of_a_pod(machine: Machine) -> None:
    sources = [
        {"configMap": {"name": "settings", "items": [{"key": "a", "path": "in/a", "mode": 0o400}]}},
        {"serviceAccountToken": {"path": "token"}},
    ]
    found = machine.prepare(
        {"name": "e", "emptyDir": {}},
        {"name": "m", "emptyDir": {"medium": "Memory"}},
        {"name": "c", "configMap": {"name": "settings", "defaultMode": 0o600}},
        {"name": "s", "secret": {"secretName": "keys", "defaultMode": 0o644}},
        {"name": "d", "downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"name": "p", "projected": {"defaultMode": 0o644, "sources": sources}},
        securityContext={"fsGroup": 1234},
    )
    paths = {name: volume.path for name, volume in found.items()}
    assert seen(paths["e"]) == ("drwxrwsrwx", 1234)
    assert seen(paths["m"]) == ("drwxrwsrwt", 1234)
    assert seen((paths["c"] / "a").resolve()) == ("-rw-r-----", 1234)
    assert seen((paths["s"] / "id").resolve()) == ("-rw-r--r--", 1234)
    assert seen((paths["d"] / "x").resolve()) == ("-rw-r--r--", 1234)
    assert seen((paths["p"] / "token").resolve()) == ("-rw-r-----", 1234)
    assert seen((paths["p"] / "in").resolve()) == ("drwxr-sr-x", 1234)
    assert seen((paths["p"] / "in/a").resolve()) == ("-r--r-----", 1234)
    part = machine.volumes.mounts(
        pod(), {"name": "x", "volumeMounts": [{"name": "e", "mountPath": "/e", "subPath": "a/b"}]}, found, {}
    )
    assert seen(Path(part[0].source)) == ("drwxrwsrwx", 1234)


@needs_root
@pytest.mark.parametrize(
    ("users", "mode", "owner"),
    [
        ([7, 7], "-rw-------", 7),
        ([7, 8], "-rw-r--r--", 0),
        ([7, None], "-rw-r--r--", 0),
        ([None, None], "-rw-------", 9),
    ],
)
def test_a_token_is_for_the_one_user_of_a_pod(machine: Machine, users: list[int | None], mode: str, owner: int) -> None:
    of_pod = {} if None in users and 7 in users else {"runAsUser": 9}
    containers = [{"name": "x", "securityContext": {} if each is None else {"runAsUser": each}} for each in users]
    volume = {"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    machine.prepare(volume, containers=containers, securityContext=of_pod)
    found = machine.prepare(volume, containers=containers, securityContext=of_pod)
    token = (found["v"].path / "token").resolve()
    assert (seen(token)[0], token.stat().st_uid) == (mode, owner)


@needs_root
def test_a_local_volume_is_given_to_a_group_by_its_policy(machine: Machine) -> None:
    folder = machine.folder / "pv"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub/file").touch(mode=0o600)
    (folder / "out").symlink_to(machine.folder)
    machine.objects[CLAIMS, "data"] = {"spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}}
    machine.objects[VOLUMES, "pv"] = {"spec": {"local": {"path": str(folder)}}}
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    for group, policy, expected in ((5, "Always", 5), (5, "OnRootMismatch", 0), (6, "OnRootMismatch", 6)):
        machine.prepare(volume, securityContext={"fsGroup": group, "fsGroupChangePolicy": policy})
        assert seen(folder / "sub/file")[1] == expected
        assert seen(machine.folder)[1] != group
        machine.volumes.remove("u-1")
        os.chown(folder / "sub/file", 0, 0)
    assert [seen(folder / each)[0] for each in ("", "sub", "sub/file")] == ["drwxrwsr-x", "drwxrwsr-x", "-rw-rw----"]


def test_without_root_volumes_keep_their_group(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    found = machine.prepare({"name": "e", "emptyDir": {}}, securityContext={"fsGroup": 1234})
    assert seen(found["e"].path) == ("drwxrwxrwx", os.getegid())


def test_the_size_of_a_folder_in_memory_is_the_least_of_all_limits() -> None:
    def size(*limits: str, of_volume: str = "", node: str = "100Mi") -> int:
        containers = [
            {"name": str(number), "resources": {"limits": {"memory": limit} if limit else {}}}
            for number, limit in enumerate(limits)
        ]
        source = {"sizeLimit": of_volume} if of_volume else {}
        return memory_size({"spec": {"containers": containers}}, source, {"memory": node} if node else {}) >> 20

    assert size("", of_volume="3Mi") == 3
    assert size("") == 100
    assert size("4Mi", "5Mi") == 9
    assert size("4Mi", "") == 100
    assert size("4Mi", of_volume="5Mi") == 4
    assert size("", node="") == 0


@pytest.fixture
def mounting(machine: Machine) -> Machine:
    if not machine.one(emptyDir={"medium": "Memory"}).is_mount():
        pytest.skip("file systems can be mounted only with the rights of root")
    machine.volumes.remove("u-1")
    until_removed()
    return machine


def test_a_folder_in_memory_is_full_at_its_limit(mounting: Machine) -> None:
    volumes = [
        {"name": "one", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "two", "emptyDir": {"medium": "Memory"}},
    ]
    found = mounting.prepare(*volumes)
    with pytest.raises(OSError, match="No space left on device"):
        (found["one"].path / "file").write_bytes(bytes(2 << 20))
    (found["two"].path / "file").write_bytes(bytes(2 << 20))
    mounting.restart()
    assert mounting.prepare(*volumes)["two"].path.joinpath("file").stat().st_size == 2 << 20
    mounting.volumes.remove("u-1")
    until_removed()
    assert str(mounting.folder) not in Path("/proc/self/mountinfo").read_text()
    assert list((mounting.folder / "shm").iterdir()) == []


def test_copies_of_the_machine_do_not_keep_a_folder_in_memory_alive(mounting: Machine) -> None:
    folder = mounting.one(emptyDir={"medium": "Memory"})
    around = linux.copy_tree(str(mounting.folder))
    own = linux.copy_tree(str(folder))
    try:
        assert os.listdir(f"/proc/self/fd/{own}") == []
        os.mkdir(folder / "made")
        assert os.listdir(f"/proc/self/fd/{own}") == ["made"]
        assert os.listdir(f"/proc/self/fd/{around}/shm/kilauea-u-1") == []
    finally:
        linux.close_trees()


class OneImage:
    """One image that is a folder, and one that the runtime knows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.pulled: list[tuple[str, str]] = []

    async def pull(self, name: str, policy: str) -> None:
        self.pulled.append((name, policy))

    def find(self, name: str) -> Image:
        if name == "missing":
            raise ContainerError("ErrImagePull", "there is none")
        return {"folder": Image(self._folder), "host": Image(None), "known": Image(None, name="abc")}[name]


def test_an_image_is_a_volume(machine: Machine) -> None:
    images = OneImage(machine.folder)
    (machine.folder / "model").mkdir()
    tokens = Tokens(machine.api, machine.clock)  # type: ignore[arg-type]
    machine.volumes = Volumes(machine.folder / "pods", lambda *_: None, tokens, image_volume=image_volumes(images))

    def mounts(reference: str, part: str = "") -> list[Mount]:
        volume = {"name": "v", "image": {"reference": reference, "pullPolicy": "Never"}}
        mount = {"name": "v", "mountPath": "/m", **({"subPath": part} if part else {})}
        return machine.volumes.mounts(pod(volume), {"name": "x", "volumeMounts": [mount]}, machine.prepare(volume), {})

    assert mounts("folder", "model") == [Mount("/m", str(machine.folder / "model"), True, real=True)]
    assert mounts("known") == [Mount("/m", read_only=True, image="abc")]
    assert images.pulled == [("folder", "Never"), ("known", "Never")]
    with pytest.raises(ConfigError, match="podman mounts only entire images"):
        mounts("known", "model")
    with pytest.raises(VolumeError, match='"host" stands for all files of this machine'):
        mounts("host")
    with pytest.raises(VolumeError, match="there is none"):
        mounts("missing")


def test_others_have_their_turn_between_the_volumes_of_a_pod(machine: Machine) -> None:
    machine.objects[CONFIG_MAPS, "c"] = {"kind": "ConfigMap", "data": {"a": "x"}}
    asked = pod(*({"name": f"v{number}", "configMap": {"name": "c"}} for number in range(150)))
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def story() -> int:
        task = asyncio.ensure_future(other())
        found = await machine.volumes.prepare(asked, PodFacts(asked))
        task.cancel()
        return len(found)

    assert asyncio.run(story()) == 150
    assert turns >= 149
