"""Plugin ssh gives the pods of a job keys with which they log in to each other."""

from __future__ import annotations

import os
import shutil
import subprocess
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_public_key

from kilauea.api.kinds import SECRETS
from kilauea.api.ports import Create, Key, Patch
from kilauea.controllers.vcjobs.plugins import PluginFault
from support.vcjob_parts import job, kept, of_the_job, pod_of, task, there

CONFIG = """\
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
Host m-a-0
  HostName m-a-0.m
  Port 22
Host m-a-1
  HostName m-a-1.m
  Port 22
"""


def with_ssh(*arguments: str, replicas: int = 2, **spec: Any) -> dict[str, Any]:
    return job(task("a", replicas, spec), plugins={"ssh": list(arguments)})


def secret_of(*arguments: str) -> dict[str, str]:
    """The texts of the Secret that is made."""
    (create,) = kept(with_ssh(*arguments))
    assert isinstance(create, Create)
    assert create.resource == SECRETS
    assert create.body["metadata"]["name"] == "m-ssh"
    return {name: b64decode(value).decode() for name, value in create.body["data"].items()}


def encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


def test_a_key_is_made_that_opens_its_own_lock() -> None:
    made = secret_of()
    assert list(made) == ["id_rsa", "id_rsa.pub", "authorized_keys", "config"]
    assert made["id_rsa"].startswith("-----BEGIN RSA PRIVATE KEY-----\n")
    private = load_pem_private_key(made["id_rsa"].encode(), None)
    assert isinstance(private, RSAPrivateKey)
    assert private.key_size == 2048
    assert private.public_key() == load_ssh_public_key(made["id_rsa.pub"].encode())
    assert made["authorized_keys"] == made["id_rsa.pub"]
    assert made["id_rsa.pub"].startswith("ssh-rsa ")
    assert made["id_rsa.pub"].endswith("\n")


def test_two_jobs_do_not_have_the_same_key() -> None:
    assert secret_of()["id_rsa"] != secret_of()["id_rsa"]


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="OpenSSH is not installed")
def test_openssh_reads_the_key(tmp_path: Path) -> None:
    made, file = secret_of(), tmp_path / "id_rsa"
    file.write_text(made["id_rsa"])
    os.chmod(file, 0o600)
    told = subprocess.run(["ssh-keygen", "-y", "-f", file], capture_output=True, text=True, check=True, timeout=30)
    assert told.stdout.split() == made["id_rsa.pub"].split()


def test_the_configuration_lists_all_hosts() -> None:
    assert secret_of()["config"] == CONFIG
    assert "  Port 2022\n" in secret_of("--ssh-port=2022")["config"]


def test_the_users_own_keys_are_taken() -> None:
    made = secret_of("--ssh-private-key=secret", "--ssh-public-key=open")
    assert [*made.values()][:3] == ["secret", "open", "open"]


@pytest.mark.parametrize(
    ("arguments", "path", "mode"),
    [([], "/root/.ssh", 0o600), (["--ssh-key-file-path=/home/me/.ssh"], "/home/me/.ssh", 0o644)],
)
def test_keys_are_mounted_in_all_containers(arguments: list[str], path: str, mode: int) -> None:
    spec: dict[str, Any] = {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]}
    made = pod_of(with_ssh(*arguments, **spec))["spec"]
    (volume,) = made["volumes"]
    assert volume["name"] == volume["secret"]["secretName"] == "m-ssh"
    assert volume["secret"]["defaultMode"] == mode
    assert [(each["key"], each["path"]) for each in volume["secret"]["items"]] == [
        (name, f".ssh/{name}") for name in ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
    ]
    for container in (*made["containers"], *made["initContainers"]):
        assert container["volumeMounts"] == [{"name": "m-ssh", "mountPath": path, "subPath": ".ssh"}]


def test_a_key_is_made_only_once() -> None:
    data = {"id_rsa": "x", "id_rsa.pub": "y", "authorized_keys": "y", "config": encoded(CONFIG)}
    assert kept(with_ssh(), there(SECRETS, "m-ssh", data=data)) == []


def test_a_secret_of_others_is_not_written_to() -> None:
    keys = {"id_rsa": "x", "id_rsa.pub": "y", "authorized_keys": "y"}
    assert kept(with_ssh(), there(SECRETS, "m-ssh", data=keys | {"config": encoded("Host *")})) == []
    with pytest.raises(PluginFault, match="Secret m-ssh was not created for this job and lacks config"):
        kept(with_ssh(), there(SECRETS, "m-ssh", data=keys))


def test_after_scaling_the_keys_stay_and_the_configuration_has_the_new_hosts() -> None:
    data = {"id_rsa": "x", "config": encoded(CONFIG)}
    (patch,) = kept(with_ssh(replicas=1), there(SECRETS, "m-ssh", data=data, metadata=of_the_job()))
    assert isinstance(patch, Patch)
    assert patch.key == Key("ns", "m-ssh")
    assert patch.patch == {"data": {"config": encoded(CONFIG.partition("Host m-a-1")[0])}}
