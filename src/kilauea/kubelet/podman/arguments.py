"""The command line with which podman runs a container."""

from __future__ import annotations

import csv
import io
import json
import resource
from collections.abc import Iterator, Sequence
from pathlib import Path

from kilauea.kubelet.container_runtime import Container, ContainerError, Mount

FOLDER, ID, POD, NAME, ATTEMPT = (f"kilauea.dev/{each}" for each in ("folder", "id", "pod", "container", "attempt"))
"""Labels that identify containers after a restart."""
_MOST_FILES, _MOST_PROCESSES = 1024 * 1024, Path("/proc/sys/kernel/pid_max")


def run_arguments(
    container: Container, folder: str, name: str, log_size: int, command: Sequence[str] = ("run", "--detach")
) -> list[str]:
    """Return the arguments of `podman run` for a container.

    Containers share the network of this machine, where each pod has a separate loopback address.

    Args:
        container: the container.
        folder: folder of the cluster, which identifies its containers.
        name: name of the container in podman.
        log_size: bytes of its log at which it starts again.
        command: `create` to only create it.

    Raises:
        ContainerError: it has no command.
    """
    if not container.argv:
        raise ContainerError("CreateContainerError", "no command specified")
    return [
        *command,
        *("--name", name, "--pull=never", "--network=host", "--no-hosts", "--systemd=false"),
        *("--log-driver=k8s-file", f"--log-opt=path={container.log}", f"--log-opt=max-size={log_size}"),
        *(f"--label={label}" for label in _labels(container, folder)),
        *_limits(container),
        f"--oom-score-adj={container.oom_score}",
        *_identity(container),
        *(f"--env={key}={value}" for key, value in container.environment.items()),
        *(f"--mount={_mount(each)}" for each in container.mounts if each.source or each.image or not each.optional),
        f"--entrypoint={json.dumps([container.argv[0]])}",
        *(("--rootfs", f"{container.root}:O") if container.root is not None else (container.image,)),
        *container.argv[1:],
    ]


def _labels(container: Container, folder: str) -> Iterator[str]:
    yield f"{FOLDER}={folder}"
    yield f"{ID}={container.id}"
    yield f"{POD}={container.pod}"
    yield f"{NAME}={container.name}"
    yield f"{ATTEMPT}={container.attempt}"


def _limits(container: Container) -> Iterator[str]:
    # Podman would raise these limits above its own, which not every machine permits.
    processes = int(_MOST_PROCESSES.read_text())
    for name, kind, bound in (
        ("nofile", resource.RLIMIT_NOFILE, _MOST_FILES),
        ("nproc", resource.RLIMIT_NPROC, processes),
    ):
        _, most = resource.getrlimit(kind)
        value = bound if most == resource.RLIM_INFINITY else min(most, bound)
        yield f"--ulimit={name}={value}:{value}"
    limits = container.limits
    if limits.cpu:
        yield f"--cpus={limits.cpu / 1000:g}"
    if limits.memory:
        yield from (f"--memory={limits.memory}", f"--memory-swap={limits.memory}")
    if limits.processes:
        yield f"--pids-limit={limits.processes}"


def _identity(container: Container) -> Iterator[str]:
    if container.hostname:
        yield f"--hostname={container.hostname}"
    if container.working_dir:
        yield f"--workdir={container.working_dir}"
    if container.user is not None or container.group is not None:
        group = "" if container.group is None else f":{container.group}"
        user = container.image_user or "0" if container.user is None else container.user
        yield f"--user={user}{group}"
    yield from (f"--group-add={group}" for group in container.groups)
    if container.no_new_privileges:
        yield "--security-opt=no-new-privileges"
    if container.read_only:
        yield from ("--read-only", "--read-only-tmpfs=false")
    if container.stdin:
        yield "--interactive"
    if container.tty:
        yield "--tty"


def _mount(mount: Mount) -> str:
    """A mount in podman's format: a line of CSV."""
    fields = ["type=bind", f"source={mount.source}"] if mount.source else ["type=tmpfs", "tmpfs-mode=1777"]
    if mount.image:
        fields = ["type=image", f"source={mount.image}"]
    fields.append(f"destination={mount.target}")
    if not mount.source and mount.size is not None:
        fields.append(f"tmpfs-size={mount.size}")
    if mount.read_only and not mount.image:  # podman mounts images read-only by itself
        fields.append("ro=true")
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(fields)
    return text.getvalue()
