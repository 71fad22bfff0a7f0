"""The text of hosts files."""

from __future__ import annotations

import pytest

from kilauea.kubelet.network.hosts import alias_lines, machine_lines, pod_line, pod_names, service_lines
from support.network_objects import Object, endpoint, endpoint_slice, pod, service

WEB = "127.96.0.9\tweb.default.svc.cluster.local web.default.svc web.default"
JOB = "job.default.svc.cluster.local job.default.svc job.default job"


@pytest.mark.parametrize(
    ("of", "slices", "lines"),
    [
        (service("web", "127.96.0.9"), [], [f"{WEB} web"]),
        (service("web", ""), [], []),
        (service("web", "", type="ExternalName", externalName="example.com"), [], []),
        (service("job", "None"), [], []),
        (service("job", "None"), [endpoint_slice("job", [endpoint("127.64.0.9")])], [f"127.64.0.9\t{JOB}"]),
        (service("job", "None"), [endpoint_slice("job", [endpoint("127.64.0.9", ready=False)])], []),
        (
            service("job", "None"),
            [endpoint_slice("job", [endpoint("127.64.0.10")]), endpoint_slice("job", [endpoint("127.64.0.9")])],
            [f"127.64.0.9\t{JOB}", f"127.64.0.10\t{JOB}"],
        ),
        (
            service("job", "None"),
            [endpoint_slice("job", [endpoint("127.64.0.9", "w-0")])],
            [
                f"127.64.0.9\t{JOB}",
                "127.64.0.9\tw-0.job.default.svc.cluster.local w-0.job.default.svc w-0.job.default w-0.job",
            ],
        ),
    ],
    ids=[
        "address", "no address yet", "name elsewhere", "headless without endpoints", "headless", "not ready",
        "two slices, in order of addresses", "host name",
    ],
)  # fmt: skip
def test_a_service_has_the_names_that_the_dns_of_a_cluster_gives_it(
    of: Object, slices: list[Object], lines: list[str]
) -> None:
    assert service_lines(of, slices, short=True).splitlines() == lines


def test_pods_of_other_namespaces_name_the_namespace_of_a_service() -> None:
    assert service_lines(service("web", "127.96.0.9"), [], short=False) == f"{WEB}\n"


@pytest.mark.parametrize("address", ["127.64.0.9", "127.64.0.1"], ids=["its own", "that of the pod before it"])
def test_a_pod_that_has_a_line_already_gets_no_second_one(address: str) -> None:
    slices = [endpoint_slice("job", [endpoint(address, "w-0")])]
    known = frozenset({"w-0.job.default.svc.cluster.local"})
    assert service_lines(service("job", "None"), slices, short=True, known=known).splitlines() == [f"{address}\t{JOB}"]


@pytest.mark.parametrize(
    ("of", "line"),
    [
        (pod("p"), "127.64.0.1\tp\n"),
        (pod("p", hostname="h"), "127.64.0.1\th\n"),
        (
            pod("p", hostname="h", subdomain="s"),
            "127.64.0.1\th.s.default.svc.cluster.local h.s.default.svc h.s.default h.s h\n",
        ),
        (pod(f"{'x' * 62}-{'y' * 9}"), f"127.64.0.1\t{'x' * 62}\n"),
        (pod("p", hostname="h", hostnameOverride="o.example"), "127.64.0.1\to.example\n"),
        (
            pod("p", hostname="h", subdomain="s", hostnameOverride="o"),
            "127.64.0.1\to\n127.64.0.1\th.s.default.svc.cluster.local h.s.default.svc h.s.default h.s\n",
        ),
    ],
    ids=["name", "hostname", "subdomain", "cut to 63 characters", "override", "override and subdomain"],
)
def test_a_pod_finds_its_own_name(of: Object, line: str) -> None:
    assert pod_line(pod_names(of, "127.64.0.1"), own=True) == line


def test_others_find_a_pod_by_its_service_only() -> None:
    assert pod_line(pod_names(pod("p"), "127.64.0.1"), own=False) == ""
    line = pod_line(pod_names(pod("p", subdomain="s"), "127.64.0.1"), own=False)
    assert line == "127.64.0.1\tp.s.default.svc.cluster.local p.s.default.svc p.s.default p.s\n"


def test_host_aliases_are_added_as_they_are() -> None:
    aliases = [{"ip": "192.0.2.1", "hostnames": ["db", "db.local"]}, {"ip": "192.0.2.2"}]
    assert alias_lines(pod("p", hostAliases=aliases)).splitlines()[2:] == ["192.0.2.1\tdb\tdb.local"]


def test_entries_of_the_machine_are_kept_but_for_its_own_names() -> None:
    text = (
        "127.0.0.1 localhost\n127.0.1.1 desk\n::1 localhost\n# note\n192.0.2.7 files files.lab # the server\n\nbroken\n"
    )
    assert machine_lines(text) == "192.0.2.7\tfiles files.lab\n"
