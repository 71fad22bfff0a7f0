"""ComponentStatuses: the parts of the control plane that this process runs, computed and never stored.

The real server probes the port of each part. Here a part runs in the process of the server or is unknown to it, so all
reported parts are healthy.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kilauea.apiserver.request import ApiResponse, TextStream
from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.rest.answers import object_response
from kilauea.apiserver.rest.call import Call
from kilauea.apiserver.rest.computed_schemas import COMPONENT_STATUS
from kilauea.apiserver.rest.listing import Found, list_response
from kilauea.apiserver.selection import selection_of
from kilauea.apiserver.status import ApiFault
from kilauea.apiserver.storage import Stored
from kilauea.apiserver.strategies.base import Strategy
from kilauea.apiserver.tables.columns import Column, simple


class _Components(Strategy):
    """The rules of a read-only kind."""

    deprecated = "v1 ComponentStatus is deprecated in v1.19+"


def _cells(obj: dict[str, Any], now: int) -> list[Any]:
    """Status, message and error."""
    (condition,) = obj["conditions"]
    return ["Healthy" if condition["status"] == "True" else "Unhealthy", condition["message"], ""]


COMPONENTS = ResourceType(
    "", "v1", "componentstatuses", "ComponentStatus", False, ("cs",), singular="componentstatus",
    verbs=("get", "list"), strategy=_Components(), told_schema=COMPONENT_STATUS,
    table=simple(
        [Column(name, description=f"{name} of the component conditions") for name in ("Status", "Message", "Error")],
        _cells,
    ),
)  # fmt: skip


class _Told(Found):
    """A list without a revision, because its objects are not stored."""

    def metadata(self) -> dict[str, Any]:
        """Return an empty `metav1.ListMeta`."""
        return {}


async def components(call: Call) -> ApiResponse | TextStream:
    """Answer a get or list of the status of components."""
    if call.info.name:
        if call.info.name not in call.backend.components:
            raise ApiFault(500, "", f"Component not found: {call.info.name}")
        return object_response(call, _status(call, call.info.name).value)
    selection = selection_of(call.resource, call.request.first("labelSelector"), call.request.first("fieldSelector"))
    found = (_status(call, name) for name in call.backend.components)
    return await list_response(call, _Told([each for each in found if selection.matches(each.key, each.value)], 0))


def _status(call: Call, name: str) -> Stored:
    """Return the status of a component as if it were stored."""
    healthy = {"type": "Healthy", "status": "True", "message": "ok"}
    obj = {"kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": name}, "conditions": [healthy]}
    return Stored(call.resource.key("", name), msgspec.json.encode(obj), 0, 0)
