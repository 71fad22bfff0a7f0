"""Discovery of the cluster as in kubectl: an explicit file, KUBECONFIG, the pod, the home directory."""

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
    """Return the access to the selected server.

    Args:
        kubeconfig: an explicit file, which takes precedence.
        environment: the variables KUBECONFIG (files separated by colons), HOME, and those of pods.
        context: the context of the file; empty for the current one.
        pod_folder: the folder of the service account in pods.

    Raises:
        AccessError: the configuration is missing or incomplete.
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
    """Return the folder of the user's cluster for `kilauea up`, unless another is given."""
    base = environment.get("XDG_DATA_HOME") or Path(environment.get("HOME", "~")) / ".local" / "share"
    return Path(base).expanduser() / "kilauea" / "cluster"


def _beginning(environment: Mapping[str, str]) -> str:
    """Return advice for users without a configured cluster, who may have skipped the line that `kilauea up` printed."""
    kubeconfig = default_cluster(environment) / "kubeconfig"
    if kubeconfig.exists():
        return f"or use the cluster of `kilauea up`: export KUBECONFIG={kubeconfig}"
    return "or start a cluster with `kilauea up`"
