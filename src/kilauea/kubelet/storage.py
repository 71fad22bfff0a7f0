"""Disk usage of pods, and the limits beyond which a pod is evicted.

The usage of a container is its writes outside of volumes, and its log. Initially empty volumes count as well, unless
they are in memory.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from kilauea.api.ports import Obj
from kilauea.api.quantity import parse_size

RESOURCE = "ephemeral-storage"
measurer = ThreadPoolExecutor(1, "storage")
"""Measures outside the event loop: a folder may have millions of files."""


def is_limited(pod: Obj) -> bool:
    """Return True if a pod has a limit for disk space."""
    return any(_limit(each) for each in _containers(pod)) or any(_size_limit(each) for each in _volumes(pod))


async def exceeded(pod: Obj, volumes: Mapping[str, Path], written: Mapping[str, Path], logs: Mapping[str, Path]) -> str:
    """Return the message about the first limit that a pod exceeds, in the words of kubelets; empty if none.

    Args:
        pod: the pod.
        volumes: folders of its volumes, by name.
        written: folders with writes of containers outside of volumes, by name; unknown ones are left out.
        logs: folders with the logs of containers, by name.
    """
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(measurer, _exceeded, pod, dict(volumes), dict(written), dict(logs))


async def used(pod: Obj, volumes: Mapping[str, Path], written: Mapping[str, Path]) -> int:
    """Return the bytes on the disk that the end of a pod frees, so without logs; arguments as for `exceeded`."""
    return await asyncio.get_running_loop().run_in_executor(measurer, _used, pod, volumes, written)


def _used(pod: Obj, volumes: Mapping[str, Path], written: Mapping[str, Path]) -> int:
    return _size(*written.values(), *(volumes.get(each["name"]) for each in _volumes_on_disk(pod)))


def _exceeded(pod: Obj, volumes: Mapping[str, Path], written: Mapping[str, Path], logs: Mapping[str, Path]) -> str:
    own = {}
    for volume in _volumes(pod):
        name, limit = volume["name"], _size_limit(volume)
        own[name] = _size(volumes.get(name))
        if limit and own[name] > parse_size(limit):
            return f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". '
    limits = {each["name"]: limit for each in _containers(pod) if (limit := _limit(each))}
    if not limits:
        return ""
    sizes = {each["name"]: _size(written.get(each["name"]), logs.get(each["name"])) for each in _containers(pod)}
    on_disk = [each["name"] for each in _volumes_on_disk(pod)]
    together = sum(parse_size(limit) for limit in limits.values())
    if sum(sizes.values()) + sum(own[name] for name in on_disk) > together:
        text = next(iter(limits.values())) if len(limits) == 1 else str(together)
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {text}. "
    for name, limit in limits.items():
        if sizes[name] > parse_size(limit):
            return f'Container {name} exceeded its local ephemeral storage limit "{limit}". '
    return ""


def _containers(pod: Obj) -> Sequence[Obj]:
    """The main containers and the sidecars."""
    sidecars = [each for each in pod["spec"].get("initContainers") or () if each.get("restartPolicy") == "Always"]
    return [*pod["spec"]["containers"], *sidecars]


def _limit(container: Obj) -> str:
    return str(((container.get("resources") or {}).get("limits") or {}).get(RESOURCE) or "")


def _volumes(pod: Obj) -> list[Obj]:
    """The initially empty volumes."""
    return [each for each in pod["spec"].get("volumes") or () if "emptyDir" in each]


def _volumes_on_disk(pod: Obj) -> list[Obj]:
    """The initially empty volumes that are not in memory."""
    return [each for each in _volumes(pod) if (each.get("emptyDir") or {}).get("medium") != "Memory"]


def _size_limit(volume: Obj) -> str:
    limit = str((volume.get("emptyDir") or {}).get("sizeLimit") or "")
    return limit if limit and parse_size(limit) else ""


def _size(*folders: Path | None) -> int:
    """Bytes on the disk below folders; a file with several names counts once."""
    sizes = {}
    for folder in folders:
        for root, _, names in os.walk(folder) if folder is not None else ():
            for name in names:
                with suppress(OSError):
                    seen = os.lstat(os.path.join(root, name))
                    sizes[seen.st_dev, seen.st_ino] = seen.st_blocks * 512
    return sum(sizes.values())
