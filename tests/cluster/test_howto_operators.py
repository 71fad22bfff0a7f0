"""The examples of `docs/howto/operators.md`, played with the operators, which are built from their Go modules.

Each example waits whole while its gang has no room, and starts whole when it has; then its operator says what it says
of work that runs, ends, is scaled or starts again. That happens on `kilauea up` and at the real Kubernetes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.operators import Site, installed, need
from cluster.real_product import running_product
from cluster.up_process import GROUP, SCHEDULING, pod, running_up, until
from support.pages import ROOT, blocks

PAGE = ROOT / "docs/howto/operators.md"
NODES, CPUS = 3, 16
RUN_TIME, EXIT_CODE = "kilauea.dev/run-time", "kilauea.dev/exit-code"
LOADED = 120.0
"""Seconds to wait on a machine that is busy with other tests."""
Obj = dict[str, Any]


def example(kind: str) -> tuple[Obj, Obj]:
    """The pod group and the manifest of a kind on the page."""
    text = next(each.text for each in blocks(PAGE) if f"kind: {kind}\n" in each.text)
    group, work = yaml.safe_load_all(text)
    return group, work


def group_of(site: Site, name: str) -> tuple[str, int]:
    """Phase and running pods of a pod group of Volcano."""
    status = site.get(f"podgroups.{SCHEDULING.partition('/')[0]}", name).get("status", {})
    return status.get("phase", ""), status.get("running", 0)


def pods(site: Site, group: str) -> list[Obj]:
    """The pods of a group that have not ended and are not being deleted."""
    found = site.get("pods")["items"]
    mine = [each for each in found if each["metadata"].get("annotations", {}).get(GROUP) == group]
    return [
        each
        for each in mine
        if "deletionTimestamp" not in each["metadata"] and each["status"]["phase"] in ("Pending", "Running")
    ]


def runs(site: Site, group: str, size: int) -> bool:
    """True if so many pods of a group run, and no other."""
    return [each["status"]["phase"] for each in pods(site, group)] == ["Running"] * size


def waits_and_starts_whole(site: Site, kind: str, change: Callable[[Obj], None] = lambda work: None) -> str:
    """Play an example of the page: first one cpu too few is free, then enough; gives the group's name.

    Args:
        site: the cluster, empty.
        kind: of the example.
        change: what the test changes in the manifest.
    """
    group, work = example(kind)
    change(work)
    name, size = group["metadata"]["name"], group["spec"]["minMember"]
    full = [pod(f"full-{number}", cpu=str(CPUS)) for number in range(NODES - 1)]
    site.apply(*full, pod("full", cpu=str(CPUS - size)), pod("one", cpu="1"))
    until(lambda: all(e["status"]["phase"] == "Running" for e in site.get("pods")["items"]), "the cluster to be full")
    site.apply(group, work)
    until(lambda: len(pods(site, name)) == size, f"{size} pods of {kind}", LOADED)
    until(lambda: group_of(site, name)[0] in ("Inqueue", "Pending"), "the group to wait", LOADED)
    reason = f"/{size} tasks in gang unschedulable"
    said = lambda: site.kubectl("get", "events", "--field-selector", f"involvedObject.name={name}")  # noqa: E731
    until(lambda: reason in said(), f"an event with {reason!r}", LOADED)
    assert [each["spec"].get("nodeName") for each in pods(site, name)] == [None] * size
    site.kubectl("delete", "pod", "one", "--wait=false")
    until(lambda: runs(site, name, size), f"{size} running pods of {kind}", LOADED)
    until(lambda: group_of(site, name) == ("Running", size), "the group to run", LOADED)
    site.kubectl("delete", "pod", "full", *(each["metadata"]["name"] for each in full))
    return str(name)


def ready(site: Site, kind: str, name: str, condition: str, seconds: int = 120) -> None:
    """Wait until the operator has given an object a condition."""
    site.kubectl("wait", f"--for=condition={condition}", f"{kind.lower()}/{name}", f"--timeout={seconds}s")


def patch(site: Site, kind: str, name: str, **spec: Any) -> None:
    """Change fields of the spec of an object."""
    site.kubectl("patch", kind.lower(), name, "--type=merge", "-p", yaml.safe_dump({"spec": spec}))


def of_job_set(site: Site) -> None:
    """It can be suspended, goes on as a gang, and completes; one that fails starts again as a whole."""
    name = waits_and_starts_whole(site, "JobSet")
    first = pods(site, name)
    patch(site, "JobSet", name, suspend=True)
    until(lambda: not pods(site, name), "no pod of a suspended set", LOADED)
    ready(site, "JobSet", name, "Suspended")
    jobs = site.get("jobset", name)["spec"]["replicatedJobs"]
    for each in jobs:
        each["template"]["spec"]["template"]["metadata"]["annotations"][RUN_TIME] = "3s"
    patch(site, "JobSet", name, suspend=False, replicatedJobs=jobs)
    until(lambda: runs(site, name, 5), "the pods of a set that goes on", LOADED)
    assert not {each["metadata"]["uid"] for each in first} & {each["metadata"]["uid"] for each in pods(site, name)}
    ready(site, "JobSet", name, "Completed")

    group, work = example("JobSet")
    for each in (group, work):
        each["metadata"]["name"] = "again"
    work["spec"]["failurePolicy"] = {"maxRestarts": 1}
    for each in work["spec"]["replicatedJobs"]:
        template = each["template"]["spec"]["template"] = copy.deepcopy(each["template"]["spec"]["template"])
        template["metadata"]["annotations"] = {GROUP: "again"}
        each["template"]["spec"]["backoffLimit"] = 0
    template["metadata"]["annotations"] |= {RUN_TIME: "3s", EXIT_CODE: "1"}
    site.apply(group, work)
    until(lambda: site.get("jobset", "again").get("status", {}).get("restarts") == 1, "a restart", LOADED)
    until(lambda: runs(site, "again", 5), "the pods of a set that starts again", LOADED)
    ready(site, "JobSet", "again", "Failed")


def of_leader_worker_set(site: Site) -> None:
    """It is available, starts again as a whole when a pod goes, is scaled, and its template is rolled out."""
    name = waits_and_starts_whole(site, "LeaderWorkerSet")
    ready(site, "LeaderWorkerSet", name, "Available")
    first = {each["metadata"]["uid"] for each in pods(site, name)}
    site.kubectl("delete", "pod", f"{name}-0-1", "--wait=false")
    again = lambda: {each["metadata"]["uid"] for each in pods(site, name)}  # noqa: E731
    until(lambda: runs(site, name, 4) and not first & again(), "another leader and other workers", LOADED)
    site.kubectl("scale", f"leaderworkerset/{name}", "--replicas=2")
    until(lambda: runs(site, name, 8), "the pods of two replicas", LOADED)
    count = lambda field: site.get("leaderworkerset", name)["status"].get(field, 0)  # noqa: E731
    until(lambda: count("readyReplicas") == 2, "two ready replicas", LOADED)
    work = site.get("leaderworkerset", name)["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    work["spec"]["containers"][0]["image"] = "example.com/serve:2"
    patch(site, "LeaderWorkerSet", name, leaderWorkerTemplate={"workerTemplate": work})
    new = lambda: {each["spec"]["containers"][0]["image"] for each in pods(site, name)}  # noqa: E731
    until(lambda: runs(site, name, 8) and new() == {"example.com/serve:2"}, "the new image everywhere", LOADED)
    until(lambda: count("updatedReplicas") == 2, "two updated replicas", LOADED)


STORIES: dict[str, tuple[str, Callable[[Site], None]]] = {
    "JobSet": ("jobset", of_job_set),
    "LeaderWorkerSet": ("lws", of_leader_worker_set),
}
"""Operator and story, by the kind on the page."""


@pytest.mark.parametrize("kind", STORIES)
def test_an_example_of_the_page_is_a_gang_with_its_operator_on_a_cluster_of_ours(kind: str, tmp_path: Path) -> None:
    name, story = STORIES[kind]
    need(name)
    with ExitStack() as ends:
        options = ("--nodes", str(NODES), "--node-cpu", str(CPUS))
        site = Site.of(ends.enter_context(running_up(tmp_path / "data", *options)))
        ends.enter_context(installed(name, site, tmp_path / name))
        story(site)


def test_the_examples_of_the_page_are_gangs_with_their_operators_at_the_real_kubernetes(tmp_path: Path) -> None:
    with running_product(tmp_path) as product:
        site = Site.of(product)
        for name, story in STORIES.values():
            need(name)
            with installed(name, site, tmp_path / name):
                story(site)
            site.kubectl("delete", "pod", "--all")
