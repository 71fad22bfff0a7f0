"""Requests of pods for cards, according to the configuration of the devices: defaults, units, and templates of NPUs."""

from __future__ import annotations

from kilauea.api.device_config import Chip, DeviceConfig
from kilauea.engine.model.devices import ASCEND, VGPU, CardRequest, DeviceWish

PARTIAL, TOO_LARGE = 4, 5
"""Reasons why no node can serve a wish: parts of several NPUs, or more memory than a chip has."""


class Adapter:
    """Adapts wishes; those without a configuration remain unchanged."""

    def __init__(self, config: DeviceConfig) -> None:
        self._config = config
        self._chips = {ASCEND + chip.resource.split("/", 1)[-1]: chip for chip in config.chips}
        self._plain = not (config.memory or config.cores or config.factor > 1 or config.number > 1)
        self._known: dict[DeviceWish, DeviceWish] = {}

    def adapt(self, wish: DeviceWish) -> DeviceWish:
        """Return the wish with explicit amounts."""
        if self._plain and self._chips.keys().isdisjoint([request.kind for request in wish.requests]):
            return wish
        known = self._known.get(wish)
        if known is None:
            requests = tuple(self._request(request, soft=wish.soft) for request in wish.requests)
            known = self._known[wish] = wish._replace(requests=requests)
        return known

    def _request(self, request: CardRequest, *, soft: bool) -> CardRequest:
        config = self._config
        if request.kind == VGPU:
            if request.unstated and config.memory:
                request = request._replace(memory=config.memory, percent=0)
            cores, number = request.cores or config.cores, config.number if request.uncounted else request.number
            memory = request.memory * config.factor
            return request._replace(number=number, memory=memory, cores=cores, alone=cores == 100)
        chip = self._chips.get(request.kind)
        if chip is None:
            return request
        kind = ASCEND + chip.word
        if soft or not request.memory:
            return request._replace(kind=kind)
        return request._replace(kind=kind, memory=template_memory(chip, request.memory) or request.memory)

    def refusal(self, wish: DeviceWish) -> int:
        """Return the reason why no node can serve the unadapted wish; 0 if one may."""
        for request in wish.requests:
            chip = self._chips.get(request.kind)
            if chip is None or wish.soft or not request.memory:
                continue
            memory = template_memory(chip, request.memory)
            if request.number > 1 and memory != (chip.allocatable or chip.capacity):
                return PARTIAL
            if not memory:
                return TOO_LARGE
        return 0

    def template(self, kind: str, memory: int) -> str:
        """The name of the template with this much memory; empty for a whole chip."""
        chip = next((chip for chip in self._config.chips if ASCEND + chip.word == kind), None)
        found = (each.name for each in chip.templates if each.memory == memory) if chip is not None else ()
        return next(iter(found), "")


def template_memory(chip: Chip, memory: int) -> int:
    """MiB of the smallest template that is large enough, else of the whole chip; 0 if that is too small."""
    fitting = next((each.memory for each in chip.templates if each.memory >= memory), 0)
    return fitting or ((chip.allocatable or memory) if memory <= chip.capacity else 0)
