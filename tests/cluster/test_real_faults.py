"""What happens to credentials, certificates and definitions at the real Kubernetes while our processes work there."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from cluster.api_process import Client
from cluster.faulty_proxy import running_proxy
from cluster.real_endpoint import ACCOUNTS, DEFINITIONS, RealEndpoint, install_definitions, real_endpoint
from cluster.test_high_availability import JOBS, MERGE, NODES, PODS, QUICK, Process, bound, job, phases
from cluster.test_scheduler_command import make_gang
from cluster.up_process import GROUPS, until

LOADED = 120.0
"""Seconds to wait on a machine that is busy with other tests."""
PAGES = "--listen-address=127.0.0.1:0"
ALONE = ("--leader-elect=false",)
REFUSED = "the server does not accept the credentials"
PATIENT = ("--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=50s")
PROGRAM = """\
import json, sys
status = {"token": open(sys.argv[1]).read()}
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RealEndpoint]:
    with real_endpoint(tmp_path) as running:
        yield running


class PodProcess(Process):
    """A command of ours that finds the server as pods do: by two variables, and files below /var/run.

    Args:
        command: its name.
        server: where it works.
        files: folder with `token`, `ca.crt` and `namespace`; new content of these is seen.
        log: what it says.
        options: of the command.
    """

    def __init__(self, command: str, server: RealEndpoint, files: Path, log: Path, *options: str) -> None:
        self.log = log
        host, _, port = server.url.removeprefix("https://").partition(":")
        pod = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        place = "/run/secrets/kubernetes.io"
        script = f'mount -t tmpfs none /run && mkdir -p {place} && ln -s "$0" {place}/serviceaccount && exec "$@"'
        words = ["unshare", "--mount", "sh", "-c", script, str(files), sys.executable, "-m", "kilauea", command]
        environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"} | pod
        with log.open("ab") as output:
            self.process = subprocess.Popen([*words, *options], stdout=output, stderr=output, env=environment)


def may_mount() -> bool:
    """True if this user may mount, which `PodProcess` needs."""
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


def kubeconfig(path: Path, server: RealEndpoint, authority: Path | None = None, **user: Any) -> Path:
    """A kubeconfig of a user."""
    cluster = {"server": server.url, "certificate-authority": str(authority or server.authority)}
    document = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(document))
    return path


def make_account(client: Client, name: str) -> str:
    """Create a service account that may do everything, in the place of the one with its name; returns a token."""
    client.send("DELETE", f"{ACCOUNTS}/{name}")
    assert client.send("POST", ACCOUNTS, {"metadata": {"name": name}}).code == 201
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    binding = {"metadata": {"name": name}, "roleRef": ref, "subjects": [subject]}
    client.send("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(client.send("POST", f"{ACCOUNTS}/{name}/token", request).json()["status"]["token"])


def tried_in_vain(client: Client, processes: list[Process]) -> bool:
    """Give the processes something to do; True if all have said that the server refuses them.

    The server believes a token for some seconds after its account is gone, and no one asks it without need.
    """
    name = f"between-{len(client.get(JOBS)['items'])}"
    assert client.send("POST", JOBS, job(name, 1)).code == 201
    time.sleep(1)
    return all(REFUSED in each.log.read_text() for each in processes)


def test_processes_go_on_once_their_tokens_and_certificates_that_expired_are_renewed(
    server: RealEndpoint, tmp_path: Path
) -> None:
    client, files = server.client(), tmp_path / "serviceaccount"
    files.mkdir()
    (files / "ca.crt").write_bytes(server.authority.read_bytes())
    (files / "namespace").write_text("default")
    tokens = {"scheduler": files / "token", "controllers": tmp_path / "controllers.token"}
    for name, path in tokens.items():
        path.write_text(make_account(client, name))

    def issue(life: datetime.timedelta) -> None:
        given = {"common_name": "nodes", "organization_name": "system:masters"}
        made = server.kubernetes.authority.issue_cert(
            "nodes.test", not_after=datetime.datetime.now(datetime.UTC) + life, **given
        )
        made.cert_chain_pems[0].write_to_path(str(tmp_path / "nodes.crt"))
        made.private_key_pem.write_to_path(str(tmp_path / "nodes.key"))

    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    version = "client.authentication.k8s.io/v1"
    plugin = {"apiVersion": version, "command": sys.executable, "args": [str(program), str(tokens["controllers"])]}
    pair = {"client-certificate": str(tmp_path / "nodes.crt"), "client-key": str(tmp_path / "nodes.key")}
    users: dict[str, dict[str, Any]]
    users = {"scheduler": {"tokenFile": str(tokens["scheduler"])}, "controllers": {"exec": plugin}, "nodes": pair}
    options = {"scheduler": (PAGES, *ALONE), "controllers": ALONE, "nodes": ("--count=0",)}
    issue(datetime.timedelta(seconds=25))
    processes: dict[str, Process] = {}
    try:
        if may_mount():
            del users["scheduler"]
            log = tmp_path / "scheduler.log"
            processes["scheduler"] = PodProcess("scheduler", server, files, log, *options["scheduler"])
        for name, user in users.items():
            config = kubeconfig(tmp_path / f"{name}.kubeconfig", server, **user)
            processes[name] = Process(name, config, tmp_path / f"{name}.log", *options[name])
        assert client.send("POST", JOBS, job("before")).code == 201
        until(lambda: bound(client).total() == 4, "the first job to be bound", LOADED)
        fresh = {name: make_account(client, name) for name in tokens}
        until(lambda: tried_in_vain(client, list(processes.values())), "all to be refused", LOADED)
        for name, path in tokens.items():
            path.write_text(fresh[name])
        issue(datetime.timedelta(hours=1))
        assert client.send("POST", JOBS, job("after")).code == 201
        until(lambda: phases(client).keys() == {"Completed"}, "all jobs to complete", LOADED)
        assert [name for name, each in processes.items() if each.process.poll() is not None] == []
        assert [name for name, each in processes.items() if "Traceback" in each.log.read_text()] == []
    finally:
        for each in processes.values():
            each.end()


def test_a_server_that_returns_with_another_authority_is_used_once_the_kubeconfigs_file_has_it(
    server: RealEndpoint, tmp_path: Path
) -> None:
    from real_server import issue  # noqa: PLC0415 - `real_endpoint` has found it

    client, trusted = server.client(), tmp_path / "trusted.crt"
    trusted.write_bytes(server.authority.read_bytes())
    config = kubeconfig(tmp_path / "config", server, trusted, token=server.token)
    scheduler = Process("scheduler", config, tmp_path / "log", PAGES, *ALONE)
    try:
        make_gang(client, "before", 2)
        until(lambda: bound(client).total() == 2, "the first gang to be bound")
        server.kubernetes.process.kill()
        other = trustme.CA()
        other.cert_pem.write_to_path(str(tmp_path / "other.crt"))
        issue(other, server.authority.parent)
        server.kubernetes.process.start()
        server.kubernetes.wait(tmp_path / "other.crt")
        advice = "is not issued by an authority that the kubeconfig trusts"
        until(lambda: advice in scheduler.log.read_text(), "the scheduler to say what is wrong", LOADED)
        client = Client(server.url, server.token, tmp_path / "other.crt")
        make_gang(client, "after", 2)
        assert bound(client).total() == 2
        trusted.write_bytes((tmp_path / "other.crt").read_bytes())
        until(lambda: bound(client).total() == 4, "the second gang to be bound", LOADED)
        assert set(server.binds().values()) == {1}
        assert scheduler.process.poll() is None
        assert "Traceback" not in scheduler.log.read_text()
    finally:
        scheduler.end()


def test_a_definition_that_is_deleted_takes_no_running_pod_and_is_followed_again_when_it_returns(
    server: RealEndpoint, tmp_path: Path
) -> None:
    client, name = server.client(), "podgroups.scheduling.volcano.sh"
    processes = [
        Process("scheduler", server.kubeconfig, tmp_path / "scheduler.log", PAGES, *QUICK),
        Process("controllers", server.kubeconfig, tmp_path / "controllers.log", *QUICK),
    ]
    try:
        assert client.send("POST", JOBS, job("before")).code == 201
        until(lambda: bound(client).total() == 4, "the first job to be bound", LOADED)
        before = {each["metadata"]["uid"] for each in client.get(PODS)["items"]}
        assert client.send("DELETE", f"{DEFINITIONS}/{name}").code == 200
        until(lambda: client.send("GET", f"{DEFINITIONS}/{name}").code == 404, "the definition to be gone")
        until(lambda: name in processes[0].log.read_text(), "the scheduler to say what is missing", LOADED)
        install_definitions(client, name)
        until(lambda: client.get(GROUPS)["items"], "the job to have a group again", LOADED)
        assert client.send("POST", JOBS, job("after")).code == 201
        until(lambda: bound(client).total() == 8, "the second job to be bound", LOADED)
        left = {each["metadata"]["uid"] for each in client.get(PODS)["items"] if goes_on(each)}
        assert before <= left
        assert [each.log.name for each in processes if each.process.poll() is not None] == []
        assert [each.log.name for each in processes if "Traceback" in each.log.read_text()] == []
    finally:
        for each in processes:
            each.end()


def goes_on(pod: dict[str, Any]) -> bool:
    """True for a pod that is not on its way out."""
    return "deletionTimestamp" not in pod["metadata"]


def test_jobs_complete_although_the_server_is_killed_and_answers_with_errors(
    server: RealEndpoint, tmp_path: Path
) -> None:
    client, processes = server.client(), []
    try:
        with running_proxy(server) as proxy:
            config = proxy.kubeconfig(tmp_path / "config")
            for number in (1, 2):
                processes.append(Process("scheduler", config, tmp_path / f"scheduler{number}", PAGES, *PATIENT))
                processes.append(Process("controllers", config, tmp_path / f"controllers{number}", *PATIENT))
            processes.append(Process("nodes", config, tmp_path / "nodes", "--count", "3", "--node-cpu", "8"))
            until(lambda: len(client.get(NODES)["items"]) == 5, "the nodes")
            for node in client.get(NODES)["items"]:
                client.send("PATCH", f"{NODES}/{node['metadata']['name']}", {"spec": {"taints": None}}, **MERGE)
            proxy.rate = 0.2
            for number in range(8):
                assert client.send("POST", JOBS, job(f"before-{number}")).code == 201
            until(lambda: "Completed" in phases(client), "a job to complete", LOADED)
            server.kubernetes.process.kill()
            time.sleep(1)
            server.kubernetes.process.start()
            server.kubernetes.wait()
            for number in range(8):
                assert client.send("POST", JOBS, job(f"after-{number}")).code == 201
            until(lambda: phases(client) == {"Completed": 16}, "all jobs to complete", LOADED)
            assert proxy.seen == {"refused", "late", "lost", "unanswered", "outdated"}
        assert {each["status"]["succeeded"] for each in client.get(JOBS)["items"]} == {4}
        assert {each["status"].get("retryCount", 0) for each in client.get(JOBS)["items"]} == {0}
        assert [each.log.name for each in processes if each.process.poll() is not None] == []
        assert [each.log.name for each in processes if "Traceback" in each.log.read_text()] == []
    finally:
        for each in processes:
            each.end()
