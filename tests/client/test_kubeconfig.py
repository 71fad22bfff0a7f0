"""Kubeconfig files in all their forms, those that kubectl writes among them, and what is said about bad ones."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilauea.client.access import Access, AccessError, Credentials
from kilauea.client.exec_plugin import ExecPlugin
from kilauea.client.finding import find_access
from kilauea.client.kubeconfig import load_kubeconfig
from kilauea.client.token_file import FRESH_SECONDS, TokenFile

PATH = {"PATH": os.environ["PATH"]}


def document(cluster: Mapping[str, Any] | None = None, user: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


def written(folder: Path, content: Any, name: str = "config") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def loaded(folder: Path, content: Any) -> Access:
    return load_kubeconfig([written(folder, content)], PATH)


def credentials(access: Access, renew: bool = False) -> Credentials:
    async def ask() -> Credentials:
        return await access.credentials(renew)

    return asyncio.run(ask())


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ({}, Credentials()),
        ({"token": "t"}, Credentials("Bearer t")),
        ({"username": "a", "password": "b"}, Credentials("Basic YTpi")),
        (
            {"client-certificate-data": base64_of("CERT"), "client-key-data": base64_of("KEY")},
            Credentials("", b"CERT", b"KEY"),
        ),
        ({"client-certificate": "cert.pem", "client-key": "key.pem"}, Credentials("", b"cert file", b"key file")),
        ({"tokenFile": "token", "token": "old"}, Credentials("Bearer from-file")),
    ],
)
def test_each_form_of_credentials_is_read(tmp_path: Path, user: dict[str, str], expected: Credentials) -> None:
    (tmp_path / "cert.pem").write_text("cert file")
    (tmp_path / "key.pem").write_text("key file")
    (tmp_path / "token").write_text("from-file\n")
    assert credentials(loaded(tmp_path, document(user=user))) == expected


def test_what_a_file_says_of_its_cluster_is_read(tmp_path: Path) -> None:
    content = document(
        {
            "certificate-authority-data": base64_of("CA"),
            "tls-server-name": "kubernetes",
            "proxy-url": "http://proxy:3128",
            "insecure-skip-tls-verify": True,
            "disable-compression": True,
        },
        {"as": "jane"},
    )
    content["contexts"][0]["context"]["namespace"] = "team"
    access = loaded(tmp_path, content)
    assert (access.server, access.authority, access.server_name) == ("https://127.0.0.1:6443", b"CA", "kubernetes")
    assert (access.proxy, access.insecure, access.compression) == ("http://proxy:3128", True, False)
    assert (access.namespace, access.impersonate) == ("team", (("impersonate-user", "jane"),))


def test_of_several_files_the_first_that_says_something_counts(tmp_path: Path) -> None:
    first = document(user={"token": "first"}) | {"current-context": ""}
    second = document({"server": "https://second"}, {"token": "second"})
    second["contexts"].append({"name": "y", "context": {"cluster": "c2", "user": "u"}})
    second["clusters"].append({"name": "c2", "cluster": {"server": "https://other"}})
    files = [
        written(tmp_path, first, "1"),
        tmp_path / "missing",
        written(tmp_path, second, "2"),
    ]
    access = load_kubeconfig(files, PATH)
    assert (access.server, credentials(access).authorization) == ("https://127.0.0.1:6443", "Bearer first")
    assert load_kubeconfig(files, PATH, "y").server == "https://other"


def test_paths_are_meant_from_the_folder_of_the_file_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "ca.pem").write_text("CA")
    content = document({"certificate-authority": "ca.pem"})
    assert load_kubeconfig([written(tmp_path / "inner", content)], PATH).authority == b"CA"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "config: is not YAML (line 2, column 1: "),
        ("a: \x07", "): correct it, or choose another file with --kubeconfig or KUBECONFIG"),
        ("- a", "its top level must be a mapping"),
        ("", "current-context: is empty"),
        ({**document(), "current-context": "z"}, 'there is no context "z": use one of x'),
        ({**document(), "clusters": []}, 'there is no cluster "c": there are no clusters'),
        ({**document(), "users": None}, 'there is no user "u": there are no users'),
        ({**document(), "clusters": ["c"]}, "clusters: holds 'c': write entries with a name and a cluster"),
        (document({"server": ""}), 'cluster c: server: invalid address "": write https://HOST:PORT'),
        (document({"server": 3}), "cluster c: server: is 3: write a text"),
        (document({"certificate-authority-data": "!"}), "certificate-authority-data: invalid base64"),
        (document({"certificate-authority": "no.pem"}), "no.pem cannot be read (No such file or directory)"),
        (document(user={"client-key-data": base64_of("x")}), "user u: client-certificate: is missing"),
        (document(user={"auth-provider": {"name": "gcp"}}), "auth-provider: is no longer part of Kubernetes"),
        (document(user={"exec": "run"}), "exec: must be a mapping"),
        (document(user={"exec": {"apiVersion": "v1"}}), "user u: exec: command: is missing"),
        (document(user={"exec": {"command": "x", "apiVersion": "v0"}}), 'apiVersion: "v0" is not supported'),
        (document(user={"as": "a", "as-groups": ["b"]}), "as-groups: is not supported"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(tmp_path: Path, content: Any, words: str) -> None:
    with pytest.raises(AccessError) as caught:
        loaded(tmp_path, content)
    assert words in str(caught.value)
    assert str(tmp_path / "config") in str(caught.value) or "exec" in words or "apiVersion" in words


def test_files_that_are_all_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="no such file: name a kubeconfig file with --kubeconfig"):
        load_kubeconfig([tmp_path / "a", tmp_path / "b"], PATH)


def test_the_file_that_is_named_goes_before_the_variable_the_pod_and_the_home_folder(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    pod = tmp_path / "pod"
    pod.mkdir()
    for name, text in {"token": "pod-token", "ca.crt": "CA", "namespace": "pod-namespace\n"}.items():
        (pod / name).write_text(text)
    named = written(tmp_path, document({"server": "https://named"}), "named")
    variable = written(tmp_path, document({"server": "https://variable"}), "variable")
    written(tmp_path, document({"server": "https://home"}), ".kube/config")
    in_pod = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443", "HOME": str(tmp_path)}
    both = in_pod | {"KUBECONFIG": f"{tmp_path}/missing:{variable}"}
    assert find_access(named, both, pod_folder=pod).server == "https://named"
    assert find_access(None, both, pod_folder=pod).server == "https://variable"
    access = find_access(None, in_pod, pod_folder=pod)
    assert (access.server, access.authority, access.namespace) == ("https://[fd00::1]:443", b"CA", "pod-namespace")
    assert credentials(access).authorization == "Bearer pod-token"
    assert find_access(None, {"HOME": str(tmp_path)}, pod_folder=pod).server == "https://home"


def test_who_named_no_cluster_is_told_of_the_one_that_up_keeps(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    with pytest.raises(AccessError) as caught:
        find_access(None, environment, pod_folder=tmp_path)
    start = f"{tmp_path}/.kube/config: no such file: name a kubeconfig file with --kubeconfig, or "
    assert str(caught.value) == f"{start}start a cluster with `kilauea up`"
    folder = tmp_path / ".local" / "share" / "kilauea" / "cluster"
    folder.mkdir(parents=True)
    written(folder, document({"server": "https://up"}), "kubeconfig")
    with pytest.raises(AccessError) as caught:
        find_access(None, environment, pod_folder=tmp_path)
    assert str(caught.value) == f"{start}use the cluster of `kilauea up`: export KUBECONFIG={folder}/kubeconfig"
    data = tmp_path / "data"
    with pytest.raises(AccessError, match="start a cluster with `kilauea up`"):
        find_access(None, environment | {"XDG_DATA_HOME": str(data)}, pod_folder=tmp_path)


def test_a_kubeconfig_of_the_home_folder_with_a_fault_is_not_said_to_be_missing(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    written(tmp_path, document({"server": "nowhere"}), ".kube/config")
    with pytest.raises(AccessError) as caught:
        find_access(None, {"HOME": str(tmp_path)}, pod_folder=tmp_path)
    assert str(caught.value).endswith("write https://HOST:PORT")


# --- token files and plugins


def test_a_token_file_is_read_again_after_a_while_and_after_a_refusal(tmp_path: Path) -> None:
    async def test() -> None:
        path, now = written(tmp_path, "one"), [0.0]
        source = TokenFile(path, elapsed=lambda: now[0])
        assert (await source(False)).authorization == "Bearer one"
        path.write_text("two")
        assert (await source(False)).authorization == "Bearer one"
        now[0] = FRESH_SECONDS + 1
        assert (await source(False)).authorization == "Bearer two"
        path.write_text("three")
        assert (await source(True)).authorization == "Bearer three"
        path.unlink()
        assert (await source(True)).authorization == "Bearer three"

    asyncio.run(test())


def test_a_token_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    async def test(path: Path) -> None:
        await TokenFile(path)(False)

    with pytest.raises(AccessError, match="no-token: the token cannot be read"):
        asyncio.run(test(tmp_path / "no-token"))
    with pytest.raises(AccessError, match="the token is empty"):
        asyncio.run(test(written(tmp_path, "\n")))


def plugin(folder: Path, body: str) -> str:
    """A program that notes what it is told, and does what the body says."""
    path = folder / "plugin"
    path.write_text(f'#!/bin/sh\necho "$KUBERNETES_EXEC_INFO" >> {folder}/told\n{body}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def answer(version: str = "v1", **status: Any) -> str:
    text = {"apiVersion": f"client.authentication.k8s.io/{version}", "kind": "ExecCredential", "status": status}
    return f"cat <<'END'\n{json.dumps(text)}\nEND"


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_plugin_is_told_of_the_cluster_and_gives_credentials(tmp_path: Path, version: str) -> None:
    plugin(tmp_path, 'test "$1 $EXTRA" = "get more" || exit 3\n' + answer(version, token="t"))
    ask = {
        "apiVersion": f"client.authentication.k8s.io/{version}",
        "command": "./plugin",
        "args": ["get"],
        "env": [{"name": "EXTRA", "value": "more"}],
        "provideClusterInfo": True,
        "interactiveMode": "Never",
    }
    cluster = {
        "certificate-authority-data": base64_of("CA"),
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}],
    }
    assert credentials(loaded(tmp_path, document(cluster, {"exec": ask}))).authorization == "Bearer t"
    told = json.loads((tmp_path / "told").read_text())
    assert (told["apiVersion"], told["kind"]) == (f"client.authentication.k8s.io/{version}", "ExecCredential")
    assert told["spec"]["interactive"] is False
    assert told["spec"]["cluster"]["server"] == "https://127.0.0.1:6443"
    assert told["spec"]["cluster"]["certificate-authority-data"] == base64_of("CA")
    assert told["spec"]["cluster"]["config"] == {"audience": "a"}


def test_a_plugin_runs_once_until_its_credentials_expire_or_are_refused(tmp_path: Path) -> None:
    command = plugin(tmp_path, answer(token="t", expirationTimestamp="1970-01-01T00:01:00Z"))
    now = [0]

    async def test() -> None:
        source = ExecPlugin("client.authentication.k8s.io/v1", [command], PATH, now=lambda: now[0])
        await asyncio.gather(*(source(False) for _ in range(5)))
        assert len((tmp_path / "told").read_text().splitlines()) == 1
        await asyncio.gather(*(source(True) for _ in range(5)))
        assert len((tmp_path / "told").read_text().splitlines()) == 2
        now[0] = 60_000_000
        await source(False)
        assert len((tmp_path / "told").read_text().splitlines()) == 3

    asyncio.run(test())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("echo no luck >&2; exit 7", "ended with code 7: no luck"),
        ("echo hello", "has not written an ExecCredential"),
        (answer("v1beta1", token="t"), "must write an ExecCredential of client.authentication.k8s.io/v1 with a token"),
        (answer(), "with a token or a certificate"),
        (answer(token="t", expirationTimestamp="soon"), '"soon" is not a time'),
    ],
)
def test_what_is_wrong_with_a_plugin_is_said(tmp_path: Path, body: str, words: str) -> None:
    ask = {"apiVersion": "client.authentication.k8s.io/v1", "command": plugin(tmp_path, body)}
    with pytest.raises(AccessError) as caught:
        credentials(loaded(tmp_path, document(user={"exec": ask})))
    assert words in str(caught.value)


def test_a_plugin_that_is_not_there_is_named_with_the_hint_how_to_install_it(tmp_path: Path) -> None:
    ask = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "kilauea-no-such-plugin",
        "installHint": "Ask your administrator.",
    }
    with pytest.raises(AccessError, match=r"cannot be run: No such file or directory\. Ask your administrator\."):
        credentials(loaded(tmp_path, document(user={"exec": ask})))


# --- the official tool


def kubectl(path: Path, *arguments: str) -> None:
    subprocess.run(["kubectl", "config", f"--kubeconfig={path}", *arguments], check=True, capture_output=True)


def test_files_that_kubectl_writes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "config"
    (tmp_path / "ca.crt").write_text("CA")
    for name in ("client.crt", "client.key"):
        (tmp_path / name).write_text(name)
    embed = "--embed-certs=true"
    authority = f"--certificate-authority={tmp_path}/ca.crt"
    kubectl(path, "set-cluster", "c", "--server=https://example:6443", authority, embed)
    kubectl(path, "set-cluster", "d", "--server=https://d", "--tls-server-name=n", "--insecure-skip-tls-verify=true")
    pair = [f"--client-certificate={tmp_path}/client.crt", f"--client-key={tmp_path}/client.key"]
    kubectl(path, "set-credentials", "embedded", *pair, embed)
    kubectl(path, "set-credentials", "files", *pair)
    kubectl(path, "set-credentials", "token", "--token=t")
    version = "--exec-api-version=client.authentication.k8s.io/v1"
    (tmp_path / "bin").mkdir()
    command = plugin(tmp_path / "bin", answer(token="from-plugin"))
    kubectl(path, "set-credentials", "plugin", f"--exec-command={command}", version, "--exec-arg=a", "--exec-env=A=b")
    for user in ("embedded", "files", "token", "plugin"):
        kubectl(path, "set-context", user, "--cluster=c", f"--user={user}", "--namespace=n")
    kubectl(path, "set-context", "other", "--cluster=d", "--user=token")
    kubectl(path, "use-context", "token")
    found = {name: load_kubeconfig([path], PATH, name) for name in ("embedded", "files", "plugin")}
    for name in ("embedded", "files"):
        assert credentials(found[name]) == Credentials("", b"client.crt", b"client.key")
    assert credentials(found["plugin"]).authorization == "Bearer from-plugin"
    current, other = load_kubeconfig([path], PATH), load_kubeconfig([path], PATH, "other")
    assert (current.server, current.authority, current.namespace) == ("https://example:6443", b"CA", "n")
    assert (other.server_name, other.insecure) == ("n", True)
