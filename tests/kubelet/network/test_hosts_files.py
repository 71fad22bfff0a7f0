"""Hosts files on disk: which pods share one, and that all have what they should."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from kilauea.kubelet.network.hosts_files import HostsFiles, Known
from support.network_objects import pod

ALIASES = [{"ip": "192.0.2.1", "hostnames": ["db"]}]


class Services:
    """Lines of services that a test sets."""

    text = "127.96.0.9\tweb\n"
    endpoints: Mapping[str, str] = {}
    """Addresses by the longest name."""

    def __call__(self, namespace: str, known: Known) -> str:
        left = ((name, address) for name, address in self.endpoints.items() if name not in known)
        return self.text + "".join(f"{address}\t{name} {name[:5]}\n" for name, address in left)


@pytest.fixture
def services() -> Services:
    return Services()


@pytest.fixture
def files(tmp_path: Path, services: Services) -> HostsFiles:
    return HostsFiles(tmp_path, services, "192.0.2.7\tfiles\n")


def names(path: Path) -> dict[str, list[str]]:
    """The addresses of each name, in order of the lines."""
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        words = line.partition("#")[0].split()
        for name in words[1:]:
            found.setdefault(name, []).append(words[0])
    return found


def test_pods_of_a_namespace_share_a_file_and_see_each_other_below_their_service(files: HostsFiles) -> None:
    one = files.add(pod("w-0", subdomain="job"), "127.64.0.1")
    two = files.add(pod("w-1", subdomain="job"), "127.64.0.2")
    other = files.add(pod("w-2", "elsewhere"), "127.64.0.3")
    assert one == two != other
    found = names(one)
    assert (found["w-0.job"], found["w-1.job"], found["w-1"]) == (["127.64.0.1"], ["127.64.0.2"], ["127.64.0.2"])
    assert (found["web"], found["files"], found["localhost"]) == (["127.96.0.9"], ["192.0.2.7"], ["127.0.0.1", "::1"])
    assert "w-2" not in found
    assert "w-0.job" not in names(other)


def test_a_pod_with_aliases_has_a_file_of_its_own_that_others_do_not_see(files: HostsFiles) -> None:
    shared = files.add(pod("w-0", subdomain="job"), "127.64.0.1")
    own = files.add(pod("w-1", subdomain="job", hostAliases=ALIASES), "127.64.0.2")
    assert "db" not in names(shared)
    assert names(shared)["w-1.job"] == ["127.64.0.2"]
    found = names(own)
    assert (found["db"], found["w-1"], found["w-0.job"]) == (["192.0.2.1"], ["127.64.0.2"], ["127.64.0.1"])
    assert "w-0" not in found


def test_two_pods_with_the_same_host_name_each_find_themselves(files: HostsFiles) -> None:
    one = files.add(pod("a", hostname="master", subdomain="job-a"), "127.64.0.1")
    two = files.add(pod("b", hostname="master", subdomain="job-b"), "127.64.0.2")
    files.refresh()
    assert names(one)["master"] == ["127.64.0.1"]
    assert names(two)["master"] == ["127.64.0.2"]
    assert names(one)["master.job-b"] == names(two)["master.job-b"] == ["127.64.0.2"]


def test_a_pod_whose_host_name_is_overridden_finds_that_name_and_others_the_one_of_its_service(
    files: HostsFiles,
) -> None:
    shared = files.add(pod("w-0", subdomain="job"), "127.64.0.1")
    own = files.add(pod("w-1", subdomain="job", hostnameOverride="w-0"), "127.64.0.2")
    files.refresh()
    assert names(own)["w-0"] == ["127.64.0.2"]
    assert (names(shared)["w-0"], names(shared)["w-1.job"]) == (["127.64.0.1"], ["127.64.0.2"])


def test_a_pod_on_the_network_of_the_node_has_names_of_services_but_none_of_its_own(files: HostsFiles) -> None:
    shared, path = files.add(pod("p"), "127.64.0.1"), files.add(pod("agent", hostNetwork=True), "127.0.0.1")
    found = names(path)
    assert found["web"] == ["127.96.0.9"]
    assert "agent" not in found
    first = [each.read_text().partition("\n")[0] for each in (shared, path)]
    assert first == ["# Kubernetes-managed hosts file.", "# Kubernetes-managed hosts file (host network)."]


def test_a_change_of_services_is_written_in_place_since_containers_have_the_file_mounted(
    files: HostsFiles, services: Services
) -> None:
    path = files.add(pod("p"), "127.64.0.1")
    own = files.add(pod("q", hostAliases=ALIASES), "127.64.0.2")
    before = [each.stat().st_ino for each in (path, own)]
    for services.text in ("127.96.0.10\tweb.of.a.longer.name web\n", "127.96.0.11\tweb\n"):
        files.touch()
        files.refresh()
        for each in (path, own):
            assert names(each)["web"] == [services.text.split("\t")[0]]
            assert each.read_text().endswith("\n")
    assert [each.stat().st_ino for each in (path, own)] == before
    assert not files.stale


def test_names_of_a_pod_end_with_it_and_its_host_name_is_free_again(files: HostsFiles) -> None:
    path = files.add(pod("a", hostname="master", subdomain="job"), "127.64.0.1")
    files.add(pod("b"), "127.64.0.2")
    files.discard("uid-a")
    files.refresh()
    assert "master.job" not in names(path)
    assert files.add(pod("c", hostname="master"), "127.64.0.3") == path
    assert names(path)["master"] == ["127.64.0.3"]


@pytest.mark.parametrize("between", ["nothing", "the names of services were written"])
def test_a_pod_that_takes_the_place_of_another_finds_itself_at_its_name_and_not_that_one(
    files: HostsFiles, services: Services, between: str
) -> None:
    path = files.add(pod("old", hostname="w-0", subdomain="job"), "127.64.0.1")
    files.add(pod("w-00", subdomain="job"), "127.64.0.2")
    files.discard("uid-old")
    if between != "nothing":
        services.endpoints = {"w-0.job.default.svc.cluster.local": "127.64.0.1"}  # the slices follow later
        files.touch()
        files.refresh()
        assert names(path)["w-0.job.default.svc.cluster.local"] == ["127.64.0.1"]
    assert files.add(pod("new", hostname="w-0", subdomain="job"), "127.64.0.3") == path
    found = names(path)
    for name in ("w-0", "w-0.job", "w-0.job.default.svc.cluster.local"):
        assert found[name] == ["127.64.0.3"], name
    assert found["w-00.job"] == ["127.64.0.2"]


def test_nothing_is_left_when_all_pods_have_ended(files: HostsFiles, tmp_path: Path) -> None:
    paths = [files.add(pod("a"), "127.64.0.1"), files.add(pod("b", hostAliases=ALIASES), "127.64.0.2")]
    for uid in ("uid-a", "uid-b", "uid-unknown"):
        files.discard(uid)
    files.refresh()
    assert [path.exists() for path in paths] == [False, False]


def test_pods_that_run_have_the_same_file_after_a_restart(
    files: HostsFiles, services: Services, tmp_path: Path
) -> None:
    pods = [
        (pod("a", hostname="master"), "127.64.0.1"),
        (pod("b", hostname="master"), "127.64.0.2"),
        (pod("c", hostAliases=ALIASES), "127.64.0.3"),
    ]
    gone = files.add(pod("gone", "elsewhere"), "127.64.0.4")
    before = [files.add(*each) for each in pods]
    inodes = [path.stat().st_ino for path in before]
    again = HostsFiles(tmp_path, services)
    again.restore(reversed(pods))
    after = [again.add(*each) for each in pods]
    assert after == before
    assert [path.stat().st_ino for path in after] == inodes
    assert [names(path)["master"] for path in after[:2]] == [["127.64.0.1"], ["127.64.0.2"]]
    assert not gone.exists()


def test_a_thousand_pods_of_a_namespace_are_written_once_each(
    files: HostsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, written, append = files.add(pod("first"), "127.64.9.1"), [0], HostsFiles._append

    def counted(self: HostsFiles, path: Path, text: str) -> None:
        written.append(len(text))
        append(self, path, text)

    monkeypatch.setattr(HostsFiles, "_append", counted)
    for number in range(1000):
        files.add(pod(f"w-{number}", subdomain="job"), f"127.64.{number // 250}.{number % 250 + 1}")
    assert len(written) == 1001
    assert sum(written) < path.stat().st_size
    assert not files.stale
    assert names(path)["w-999.job"] == ["127.64.3.250"]
