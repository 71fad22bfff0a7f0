"""The GPUs of this machine and their allocation to containers.

The devices of a pod are written to a file in its folder, so that it keeps them when the kubelet is restarted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from kilauea.api import devices
from kilauea.api.devices import DeviceTextError
from kilauea.api.ports import Obj
from kilauea.nodes.annotations import annotations_of
from kilauea.nodes.devices import asked
from kilauea.nodes.machine import GPU

_FILE = "devices.json"


class NoDevice(Exception):
    """There are not enough devices; the message contains the number of free ones."""


class Gpus:
    """Assigns devices to containers.

    Args:
        ids: ids of the devices of this machine, by node.
        folder: contains a folder for each pod, named by its uid.
    """

    def __init__(self, ids: Mapping[str, Sequence[str]], folder: Path) -> None:
        self._ids = {node: tuple(of_node) for node, of_node in ids.items()}
        self._folder = folder
        self._given: dict[str, dict[str, list[str]]] = {}

    def restore(self, uids: Sequence[str]) -> None:
        """Read the devices that were assigned to pods before a restart."""
        for uid in uids:
            try:
                text = (self._folder / uid / _FILE).read_bytes()
                self._given[uid] = msgspec.json.decode(text, type=dict[str, list[str]])
            except (OSError, msgspec.MsgspecError):
                continue

    def assign(self, pod: Obj, container: Obj) -> list[str]:
        """Return the devices of a container: the same ones as before, or free ones.

        Raises:
            NoDevice: not enough are free.
        """
        (count,) = asked(container, (GPU,))
        uid, name = pod["metadata"]["uid"], container["name"]
        before = self._given.get(uid, {}).get(name)
        if before is not None or not count:
            return before or []
        ids = self._ids.get(pod["spec"].get("nodeName") or "", ())
        taken = {id for of_pod in self._given.values() for of_one in of_pod.values() for id in of_one}
        free = [id for id in ids if id not in taken]
        if len(free) < count:
            raise NoDevice(
                f"requested number of devices unavailable for {GPU}. Requested: {count}, Available: {len(free)}"
            )
        self._given.setdefault(uid, {})[name] = free[:count]
        path = self._folder / uid / _FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(self._given[uid]))
        return free[:count]

    def release(self, uid: str) -> None:
        """Release the devices of a pod."""
        self._given.pop(uid, None)

    def variables(self, pod: Obj, container: Obj) -> dict[str, str]:
        """Return the environment variables with the assigned devices of a container.

        On a machine with devices, a container that requests none sees none.
        """
        shared = shared_cards(pod, container)
        if shared:
            text = ",".join(shared)
            return {"NVIDIA_VISIBLE_DEVICES": text, "CUDA_VISIBLE_DEVICES": text}
        given = self._given.get(pod["metadata"]["uid"], {}).get(container["name"], [])
        if given:
            text = ",".join(given)
            return {"NVIDIA_VISIBLE_DEVICES": text, "CUDA_VISIBLE_DEVICES": text}
        return {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": ""} if any(self._ids.values()) else {}


def shared_cards(pod: Obj, container: Obj) -> list[str]:
    """Return the cards that the scheduler's annotation assigns to a container (plugin deviceshare)."""
    text = annotations_of(pod).get(devices.VGPU_RECORD)
    if not text:
        return []
    try:
        record = devices.read_record(text)
    except DeviceTextError:
        return []
    names = [each["name"] for each in pod["spec"]["containers"]]
    number = names.index(container["name"]) if container["name"] in names else len(record)
    return [part.card for part in record[number]] if number < len(record) else []
