"""The chart and install.yaml at the real Kubernetes: what they install runs jobs, with Volcano's names and rights."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cluster.deployed import (
    CHART,
    COMPONENTS,
    NAMESPACE,
    ROOT,
    SECONDS,
    WEBHOOKS,
    Obj,
    Pod,
    Site,
    free_port,
    may_confine,
    real_site,
    submitted_job,
)
from cluster.up_process import until

INSTALL = ROOT / "deploy/install.yaml"
CONFIGURATION = ("configmap", "volcano-scheduler-configmap", "-n", NAMESPACE)
FILE = "volcano-scheduler.conf"
WRITTEN = ("managedFields", "resourceVersion")
RELOADS = 'kilauea_scheduler_configuration_reloads_total{result="ok"}'


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with real_site(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A cluster after one `kubectl apply -f deploy/install.yaml`, whose components run."""
    with real_site(tmp_path_factory.mktemp("installed")) as site:
        site.kubectl("apply", "-f", str(INSTALL))
        site.start_all()
        yield site


def bundles(site: Site) -> list[str]:
    """The authorities in each configuration of webhooks."""
    kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
    hooks = [each for found in site.get(kinds)["items"] for each in found["webhooks"]]
    return [each["clientConfig"].get("caBundle", "") for each in hooks]


def test_one_helm_install_runs_jobs_with_two_of_each_component(site: Site) -> None:
    two = [word for each in ("scheduler", "controller", "admission") for word in ("--set", f"custom.{each}_replicas=2")]
    site.helm("install", "volcano", str(CHART), "--namespace", NAMESPACE, "--create-namespace", *two)
    site.start_all()
    site.apply(submitted_job("first", 3))
    site.wait_for("first", "Running")
    for each in COMPONENTS:
        site.start(each, 1)
    for each in COMPONENTS:
        site.stop(f"{each}-0", kill=True)
    site.apply(submitted_job("second", 3))
    site.wait_for("second", "Running")
    for each in COMPONENTS:
        site.stop(f"{each}-1")
    site.helm("uninstall", "volcano", "--namespace", NAMESPACE)
    assert site.get("vcjob", "first")["status"]["state"]["phase"] == "Running"
    assert bundles(site) == []


def test_a_second_release_is_a_scheduler_with_nodes_of_its_own(site: Site) -> None:
    names = "custom.scheduler_names={volcano,express}"
    hard = ("--set", "custom.scheduler_sharding_mode=hard")
    release = (str(CHART), *hard, "--create-namespace", "--namespace")
    site.helm("install", "volcano", *release, NAMESPACE, "--set", "custom.controller_list=*", "--set", names)
    without = ("crds_enable", "controller_enable", "admission_enable")
    options = [word for each in without for word in ("--set", f"custom.{each}=false")]
    options += [word for each in ("name", "sharding_name") for word in ("--set", f"custom.scheduler_{each}=express")]
    site.helm("install", "express", *release, "express-system", *options)
    few = "{name: express, policies: [{name: node-limit, arguments: {maxNodes: 1}}]}"
    sharing = f"schedulerConfigs:\n- {few}\n- name: volcano\n"
    about = {"name": "volcano-sharding-configmap", "namespace": NAMESPACE}
    data = {"sharding.yaml": f"{sharing}shardSyncPeriod: 1s\n"}
    site.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data})
    site.start_all()
    site.start("express-scheduler", namespace="express-system")
    until(lambda: nodes_in_use(site) == {"express": 1, "volcano": 2}, "the nodes to be shared out", SECONDS)
    site.apply(submitted_job("usual", 3), submitted_job("urgent", 3, schedulerName="express"))
    site.wait_for("usual", "Running")
    site.wait_for("urgent", "Running")
    shards = {each["metadata"]["name"]: set(each["status"]["nodesInUse"]) for each in site.get("nodeshards")["items"]}
    assert nodes_of(site, "urgent") == shards["express"]
    assert nodes_of(site, "usual") <= shards["volcano"]


def nodes_in_use(site: Site) -> dict[str, int]:
    """The number of nodes that each scheduler works on."""
    shards = site.get("nodeshards")["items"]
    return {each["metadata"]["name"]: len(each.get("status", {}).get("nodesInUse") or ()) for each in shards}


def nodes_of(site: Site, job: str) -> set[str]:
    """The nodes of a job's pods."""
    return {each["spec"]["nodeName"] for each in site.get("pods", "-l", f"volcano.sh/job-name={job}")["items"]}


def test_one_kubectl_apply_starts_three_programs_that_run_a_job(installed: Site) -> None:
    found = installed.get("deployments", "-n", NAMESPACE)["items"]
    assert {each["metadata"]["name"] for each in found} == set(COMPONENTS)
    installed.apply(submitted_job("applied", 3))
    installed.wait_for("applied", "Running")
    refused = installed.run("kubectl", "apply", "-f", "-", given=yaml.safe_dump(submitted_job("bad", 1, queue="none")))
    assert 'unable to find job queue: queue.scheduling.volcano.sh "none" not found' in refused.stderr


def test_rights_in_a_namespace_close_no_queue(installed: Site) -> None:
    """The policy of the chart: the controllers would carry out the Command with their own rights."""

    def refusal(queue: str) -> str:
        target = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": queue, "uid": "u"}
        kind = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command"}
        command = {**kind, "metadata": {"generateName": "c-"}, "action": "OpenQueue", "target": target}
        done = installed.run("kubectl", "create", "--as=tenant", "-f", "-", given=yaml.safe_dump(command))
        return done.stderr if done.returncode else ""

    installed.kubectl("create", "role", "commands", "--verb=create", "--resource=commands.bus.volcano.sh")
    installed.kubectl("create", "rolebinding", "tenant", "--role=commands", "--user=tenant")
    words = 'user "tenant" may not update the queue "default", which the command is for'
    until(lambda: words in refusal("default"), "a refusal by the policy")
    update = ("--verb=update", "--resource=queues.scheduling.volcano.sh", "--resource-name=mine")
    installed.kubectl("create", "clusterrole", "mine", *update)
    installed.kubectl("create", "clusterrolebinding", "mine", "--clusterrole=mine", "--user=tenant")
    until(lambda: refusal("mine") == "", "the command to be accepted")
    assert words in refusal("default")


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_admission_goes_on_when_one_of_two_webhooks_fails(installed: Site, fault: signal.Signals) -> None:
    first, second = installed.pods[f"{WEBHOOKS}-0"], installed.start(WEBHOOKS, 1)
    bad, failed = yaml.safe_dump(submitted_job("bad", 1, queue="none")), time.monotonic()
    answers: list[tuple[float, str]] = []

    def answered(count: int) -> bool:
        done = installed.run("kubectl", "create", "--dry-run=server", "-f", "-", given=bad)
        answers.append((time.monotonic() - failed, done.stderr))
        return all("unable to find job queue" in text for _, text in answers[-count:]) and len(answers) >= count

    with installed.probed(first), installed.probed(second):
        first.process.send_signal(fault)
        until(lambda: answered(20), "all requests to be answered", SECONDS)
        first.process.send_signal(signal.SIGCONT)
    lost = [seconds for seconds, text in answers if "failed calling webhook" in text]
    print(f"{fault.name}: {len(lost)} of {len(answers)} requests refused, the last after {max(lost, default=0):.1f} s")
    installed.stop(f"{WEBHOOKS}-1")
    if fault == signal.SIGKILL:
        installed.stop(f"{WEBHOOKS}-0", kill=True)
        installed.start(WEBHOOKS)


@pytest.mark.skipif(not may_confine(), reason="this user may not make namespaces, so programs run with its rights")
@pytest.mark.parametrize("deployment", COMPONENTS)
def test_programs_run_as_the_user_of_the_chart_without_capabilities_on_a_read_only_root(
    installed: Site, deployment: str
) -> None:
    pod = installed.pods[f"{deployment}-0"]
    about = Path(f"/proc/{pod.process.pid}")
    status = dict(line.split(":\t", 1) for line in (about / "status").read_text().splitlines() if ":\t" in line)
    assert (int(status["CapEff"], 16), int(status["CapBnd"], 16), status["NoNewPrivs"]) == (0, 0, "1")
    assert (about / "uid_map").read_text().split()[0] == "1000"
    mounts = [line.split() for line in (about / "mountinfo").read_text().splitlines()]
    (root,) = (each[5].split(",") for each in mounts if each[4] == "/")
    assert root[0] == "ro"
    assert not list(pod.folder.rglob("*.pyc"))


def test_a_second_kubectl_apply_changes_nothing(installed: Site) -> None:
    before = contents(installed)
    assert all(bundles(installed))
    installed.kubectl("apply", "-f", str(INSTALL))
    assert contents(installed) == before


def contents(site: Site) -> dict[str, Obj]:
    """Everything that install.yaml has, without what the server writes."""
    found = {}
    for each in json.loads(site.kubectl("get", "-f", str(INSTALL), "-o", "json"))["items"]:
        metadata = {key: value for key, value in each["metadata"].items() if key not in WRITTEN}
        content = {key: value for key, value in each.items() if key != "status"}
        found[f"{each['kind']} {metadata['name']}"] = {**content, "metadata": metadata}
    return found


def test_the_scheduler_follows_the_config_map_of_volcano(installed: Site) -> None:
    given = installed.get(*CONFIGURATION)["data"][FILE]
    pod = installed.pods["volcano-scheduler-0"]
    configure(installed, pod, given.replace("allocate, ", ""))
    installed.apply(submitted_job("not-yet", 1))
    until(lambda: "Inqueue" in phases_of_groups(installed), "the pod group to be admitted", SECONDS)
    assert installed.get("vcjob", "not-yet")["status"]["state"]["phase"] == "Pending"
    configure(installed, pod, given)
    installed.wait_for("not-yet", "Running")


def phases_of_groups(site: Site) -> list[str]:
    """The phases of all pod groups."""
    return [each.get("status", {}).get("phase", "") for each in site.get("podgroups.scheduling.volcano.sh")["items"]]


def configure(site: Site, pod: Pod, text: str) -> None:
    """Write the ConfigMap, and wait until the scheduler has read it."""
    reads = pod.metric(RELOADS)
    site.kubectl("patch", *CONFIGURATION, "--type=merge", "-p", yaml.safe_dump({"data": {FILE: text}}))
    site.sync(pod, "volcano-scheduler")
    until(lambda: pod.metric(RELOADS) > reads, "the file to be read", SECONDS)


def test_a_scheduler_on_a_workstation_works_on_the_cluster(installed: Site, tmp_path: Path) -> None:
    installed.stop("volcano-scheduler-0")
    conf = tmp_path / FILE
    conf.write_text(installed.get(*CONFIGURATION)["data"][FILE])
    words = ["--kubeconfig", str(installed.kubeconfig), "--scheduler-conf", str(conf)]
    words += ["--listen-address", f"127.0.0.1:{free_port()}"]
    with subprocess.Popen([sys.executable, "-m", "kilauea", "scheduler", *words]) as scheduler:
        try:
            installed.apply(submitted_job("debugged", 2))
            installed.wait_for("debugged", "Running")
        finally:
            scheduler.terminate()
        assert scheduler.wait(60) == 0
    installed.start("volcano-scheduler")
