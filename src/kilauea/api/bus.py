"""The kind of `bus.volcano.sh`: Command, an instruction to a job or a queue that is executed once."""

from __future__ import annotations

from kilauea.api.meta import Object, OwnerReference


class Command(Object):
    """A command such as AbortJob or CloseQueue. Its fields are at the top level, without a `spec`."""

    action: str | None = None
    target: OwnerReference | None = None
    reason: str | None = None
    message: str | None = None
