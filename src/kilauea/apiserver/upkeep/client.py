"""Requests of the server to itself."""

from __future__ import annotations

from typing import Any

import msgspec

from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.request import GROUP_MASTERS, ApiResponse, User, make_request
from kilauea.apiserver.resources.types import ResourceType


class NotStored(Exception):
    """The server could not write, for want of space for example; the message says why."""


class SelfClient:
    """Asks the API for the sake of one part of the upkeep, under that part's name."""

    def __init__(self, api: ApiServer, name: str) -> None:
        self.api = api
        self._user = User(f"system:serviceaccount:kube-system:{name}", groups=(GROUP_MASTERS,))
        self._headers = {"user-agent": f"{name}/kilauea", "content-type": "application/json"}

    async def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """The code and the decoded answer of a request.

        Raises:
            NotStored: the server is at fault, so that it is to be asked again later.
        """
        data = msgspec.json.encode(body) if body is not None else b""
        answer = await self.api.handle(make_request(method, path, self._headers, data, self._user))
        if not isinstance(answer, ApiResponse):
            raise TypeError(f"{method} {path} is answered with a stream")
        content = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
        found = msgspec.json.decode(content)
        if answer.status >= 500:
            raise NotStored(found["message"])
        return answer.status, found


def path_of(resource: ResourceType, namespace: str, name: str = "") -> str:
    """The path of an object, or of all of a namespace."""
    base = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    within = f"/namespaces/{namespace}" if resource.namespaced else ""
    return f"{base}{within}/{resource.plural}" + (f"/{name}" if name else "")
