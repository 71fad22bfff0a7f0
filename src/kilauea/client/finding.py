"""Find the cluster to use as kubectl does: an explicit file, KUBECONFIG, the pod, the home folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from kilauea.client.access import Access, AccessError
from kilauea.client.incluster import FOLDER, in_cluster, is_in_cluster
from kilauea.client.kubeconfig import load_kubeconfig


def find_access(
    kubeconfig: Path | None, environment: Mapping[str, str], context: str = "", pod_folder: Path = FOLDER
) -> Access:
    """The way to the server that is meant.

    Args:
        kubeconfig: a file that was named, which alone counts then.
        environment: with KUBECONFIG (files with colons between them), HOME, and what pods have.
        context: which of the file's contexts; empty for the current one.
        pod_folder: where pods find their service account.

    Raises:
        AccessError: nothing tells of a server, or not all of it.
    """
    if kubeconfig is not None:
        return load_kubeconfig([kubeconfig], environment, context)
    if named := [Path(name) for name in environment.get("KUBECONFIG", "").split(os.pathsep) if name]:
        return load_kubeconfig(named, environment, context)
    if is_in_cluster(environment, pod_folder):
        return in_cluster(environment, pod_folder)
    file = Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"
    try:
        return load_kubeconfig([file], environment, context)
    except AccessError as error:
        if file.exists():
            raise
        raise AccessError(f"{error}, {_beginning(environment)}") from None


def default_cluster(environment: Mapping[str, str]) -> Path:
    """The folder in which `kilauea up` keeps the cluster of a user, unless another is named."""
    base = environment.get("XDG_DATA_HOME") or Path(environment.get("HOME", "~")) / ".local" / "share"
    return Path(base).expanduser() / "kilauea" / "cluster"


def _beginning(environment: Mapping[str, str]) -> str:
    """Advice for someone who named no cluster: mostly the line that `kilauea up` printed was left out."""
    kubeconfig = default_cluster(environment) / "kubeconfig"
    if kubeconfig.exists():
        return f"or use the cluster of `kilauea up`: export KUBECONFIG={kubeconfig}"
    return "or start a cluster with `kilauea up`"
