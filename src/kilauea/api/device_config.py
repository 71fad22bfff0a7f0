"""The configuration of shared devices: the ConfigMap that device plugins and the scheduler read (`device-config.yaml`).

It defines the instances into which the cards of a model can be split (MIG), the defaults of containers that only
request a number of cards, and the templates of Ascend chips. Invalid parts are reported and replaced by defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kilauea.api.devices import VGPU_CORES, VGPU_MEMORY, VGPU_NUMBER, VGPU_PERCENTAGE
from kilauea.api.yamltext import TextError, read_documents

FILE = "device-config.yaml"
"""The key in the ConfigMap."""
LONGEST = 1024 * 1024
MOST_INSTANCES = 128
"""Maximum total number of instances of all geometries of a model."""
_MOST = 1 << 40
_SHOWN = 5


class Profile(NamedTuple):
    """A size of MIG instances, and their number in a geometry."""

    name: str
    memory: int
    """MiB."""
    number: int


class Instance(NamedTuple):
    """A MIG instance of a card."""

    group: int
    position: int
    memory: int
    """MiB."""


class Geometry(NamedTuple):
    """The ways to split the cards of some models; a card is split in one way at a time."""

    models: tuple[str, ...]
    groups: tuple[tuple[Profile, ...], ...]

    @property
    def instances(self) -> tuple[Instance, ...]:
        """Return all instances of all groups, by group and in the order of their profiles."""
        out = []
        for group, profiles in enumerate(self.groups):
            sizes = [profile.memory for profile in profiles for _ in range(profile.number)]
            out += [Instance(group, position, memory) for position, memory in enumerate(sizes)]
        return tuple(out)


class Template(NamedTuple):
    """A size of virtual NPUs."""

    name: str
    memory: int
    """MiB."""


class Chip(NamedTuple):
    """A kind of NPU that HAMi's device plugin shares."""

    word: str
    """Name in annotations, such as Ascend310P."""
    resource: str
    memory_resource: str
    allocatable: int
    """Total MiB for virtual NPUs."""
    capacity: int
    """MiB of the chip."""
    templates: tuple[Template, ...]
    """Templates by memory."""


class VgpuNames(NamedTuple):
    """The resources by which pods request vGPUs."""

    number: str = VGPU_NUMBER
    memory: str = VGPU_MEMORY
    cores: str = VGPU_CORES
    percentage: str = VGPU_PERCENTAGE


class NpuNames(NamedTuple):
    """The resources by which pods request NPUs of a kind."""

    number: str
    memory: str


class CardNames(NamedTuple):
    """The resources by which pods request parts of cards."""

    vgpus: tuple[VgpuNames, ...] = (VgpuNames(),)
    npus: tuple[NpuNames, ...] = ()
    """In addition to the default ones, which begin with `huawei.com/Ascend`."""


class DeviceConfig(NamedTuple):
    """The configuration."""

    memory: int = 0
    """MiB for a container that does not request memory; 0 for all of a card."""
    cores: int = 0
    """Hundredths of a card for a container that does not request cores."""
    factor: int = 1
    """MiB of one unit of the memory resource."""
    geometries: tuple[Geometry, ...] = ()
    chips: tuple[Chip, ...] = ()
    soft: bool = False
    """NPUs are shared by software, without templates, unless a node specifies otherwise."""
    faults: tuple[str, ...] = ()
    number: int = 1
    """Cards for a container that requests memory but not a number."""
    names: VgpuNames = VgpuNames()

    @property
    def npu_names(self) -> list[NpuNames]:
        """Return the resources by which pods request its chips."""
        return [NpuNames(chip.resource, chip.memory_resource) for chip in self.chips]

    def geometry_of(self, model: str) -> int:
        """Return the index of the geometry for a card model, or -1."""
        return next((i for i, each in enumerate(self.geometries) if any(name in model for name in each.models)), -1)


def _split(sizes: str) -> tuple[tuple[Profile, ...], ...]:
    """Parse groups such as `1g.5gb 5120 7, 2g.10gb 10240 3 + 1g.5gb 5120 1`."""
    groups = []
    for group in sizes.split(","):
        parts = [part.split() for part in group.split("+")]
        groups.append(tuple(Profile(name, int(memory), int(count)) for name, memory, count in parts))
    return tuple(groups)


KNOWN_GEOMETRIES = (
    Geometry(("A30",), _split("1g.6gb 6144 4, 2g.12gb 12288 2, 4g.24gb 24576 1")),
    Geometry(
        ("A100-SXM4-40GB", "A100-40GB-PCIe", "A100-PCIE-40GB", "A100-PCIe-40GB", "A100 40GB"),
        _split("1g.5gb 5120 7, 2g.10gb 10240 3 + 1g.5gb 5120 1, 3g.20gb 20480 2, 7g.40gb 40960 1"),
    ),
    Geometry(
        (
            *("A100-SXM4-80GB", "A100-80GB-PCIe", "A100-PCIE-80GB", "A100-PCIe-80GB", "A100 80GB"),
            *("H100-SXM5-80GB", "H100-80GB", "H100 80GB", "H100-PCIe", "H100 PCIe"),
        ),
        _split("1g.10gb 10240 7, 2g.20gb 20480 3 + 1g.10gb 10240 1, 3g.40gb 40960 2, 7g.80gb 81920 1"),
    ),
)
"""Geometries of NVIDIA cards, if the ConfigMap has none."""

KNOWN_CHIPS = (
    Chip(
        "Ascend310P",
        "huawei.com/Ascend310P",
        "huawei.com/Ascend310P-memory",
        21527,
        24576,
        (Template("vir01", 3072), Template("vir02", 6144), Template("vir04", 12288)),
    ),
)

DEFAULT = DeviceConfig(geometries=KNOWN_GEOMETRIES, chips=KNOWN_CHIPS)
"""The configuration without a ConfigMap."""


def device_config(text: str) -> DeviceConfig:
    """Parse a configuration; invalid parts are in its faults, and replaced by defaults."""
    if len(text) > LONGEST:
        return DEFAULT._replace(faults=(f"it has {len(text)} characters, more than {LONGEST}",))
    document = next(iter(read_documents(text.encode(errors="replace"))), None)
    if isinstance(document, TextError):
        return DEFAULT._replace(faults=(f"line {document.line}: {document.message}",))
    if document is None or document.value is None:
        return DEFAULT
    if not isinstance(document.value, Mapping):
        return DEFAULT._replace(faults=("it is not a map of nvidia and vnpus",))
    return _Reader().read(document.value)


class _Reader:
    """Reads a configuration and collects its faults."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def read(self, data: Mapping[str, Any]) -> DeviceConfig:
        nvidia, vnpus = self._map(data.get("nvidia"), "nvidia"), data.get("vnpus")
        soft = isinstance(vnpus, Mapping) and vnpus.get("hamiVnpuCore") is True
        listed = vnpus.get("configs") if isinstance(vnpus, Mapping) else vnpus
        geometries = self._several(nvidia.get("knownMigGeometries"), "nvidia.knownMigGeometries", self._geometry)
        chips = self._several(listed, "vnpus", self._chip)
        found = DeviceConfig(
            self._number(nvidia, "defaultMemory", 0, "nvidia"),
            min(self._number(nvidia, "defaultCores", 0, "nvidia"), 100),
            max(self._number(nvidia, "gpuMemoryFactor", 1, "nvidia"), 1),
            geometries if "knownMigGeometries" in nvidia else KNOWN_GEOMETRIES,
            chips if listed is not None else KNOWN_CHIPS,
            soft,
        )
        number = max(self._number(nvidia, "defaultGPUNum", 1, "nvidia"), 1)
        names = self._names(nvidia)
        more = len(self.faults) - _SHOWN
        shown = self.faults[:_SHOWN] + ([f"and {more} more"] if more > 0 else [])
        return found._replace(faults=tuple(shown), number=number, names=names)

    def _names(self, nvidia: Mapping[str, Any]) -> VgpuNames:
        """Return the names of resources, with defaults."""
        keys = ("resourceCountName", "resourceMemoryName", "resourceCoreName", "resourceMemoryPercentageName")
        return VgpuNames(
            *(self._name(nvidia.get(key), f"nvidia.{key}", usual) for key, usual in zip(keys, VgpuNames(), strict=True))
        )

    def _name(self, value: Any, where: str, usual: str) -> str:
        if value in (None, ""):
            return usual
        if isinstance(value, str) and "/" in value:
            return value
        self.faults.append(f"{where} is {str(value)[:80]!r}, not the name of a resource such as {usual}")
        return usual

    def _several(self, value: Any, where: str, read: Any) -> tuple[Any, ...]:
        if value is None:
            return ()
        if not isinstance(value, list):
            self.faults.append(f"{where} is not a list")
            return ()
        out = []
        for index, each in enumerate(value):
            found = read(self._map(each, f"{where}[{index}]"), f"{where}[{index}]")
            if found is not None:
                out.append(found)
        return tuple(out)

    def _geometry(self, data: Mapping[str, Any], where: str) -> Geometry | None:
        models = data.get("models")
        if not isinstance(models, list) or not all(isinstance(model, str) and model for model in models):
            self.faults.append(f"{where}.models is not a list of names")
            return None
        groups = self._several(data.get("allowedGeometries"), f"{where}.allowedGeometries", self._group)
        found = Geometry(tuple(models), groups)
        if not 0 < sum(profile.number for group in groups for profile in group) <= MOST_INSTANCES:
            self.faults.append(f"{where} has no instances, or more than {MOST_INSTANCES}")
            return None
        return found

    def _group(self, data: Mapping[str, Any], where: str) -> tuple[Profile, ...]:
        return self._several(data.get("geometries"), f"{where}.geometries", self._profile)

    def _profile(self, data: Mapping[str, Any], where: str) -> Profile:
        count = self._number(data, "count", 0, where)
        return Profile(str(data.get("name", "")), self._number(data, "memory", 0, where), count)

    def _chip(self, data: Mapping[str, Any], where: str) -> Chip | None:
        word, resource = data.get("commonWord"), data.get("resourceName")
        if not isinstance(word, str) or not word or not isinstance(resource, str) or not resource:
            self.faults.append(f"{where} has no commonWord or no resourceName")
            return None
        memory = data.get("resourceMemoryName")
        templates = self._several(data.get("templates"), f"{where}.templates", self._template)
        return Chip(
            word,
            resource,
            memory if isinstance(memory, str) and memory else f"{resource}-memory",
            self._number(data, "memoryAllocatable", 0, where),
            self._number(data, "memoryCapacity", 0, where),
            tuple(sorted(templates, key=lambda each: (each.memory, each.name))),
        )

    def _template(self, data: Mapping[str, Any], where: str) -> Template:
        return Template(str(data.get("name", "")), self._number(data, "memory", 0, where))

    def _map(self, value: Any, where: str) -> Mapping[str, Any]:
        if value is None or isinstance(value, Mapping):
            return value or {}
        self.faults.append(f"{where} is not a map")
        return {}

    def _number(self, data: Mapping[str, Any], key: str, default: int, where: str) -> int:
        value = data.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
            self.faults.append(f"{where}.{key} is {str(value)[:40]!r}, not a number from 0 to {_MOST}")
            return default
        return value
