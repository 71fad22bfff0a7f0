"""Requests of the server to itself."""

from __future__ import annotations

from typing import Any

import msgspec

from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.request import GROUP_MASTERS, ApiResponse, User, make_request
from kilauea.apiserver.resources.types import ResourceType


class SelfClient:
    """Asks the API for the sake of one part of the upkeep, under that part's name."""

    def __init__(self, api: ApiServer, name: str) -> None:
        self.api = api
        self._user = User(f"system:serviceaccount:kube-system:{name}", groups=(GROUP_MASTERS,))
        self._headers = {"user-agent": f"{name}/kilauea", "content-type": "application/json"}

    async def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """The code and the decoded answer of a request."""
        data = msgspec.json.encode(body) if body is not None else b""
        answer = await self.api.handle(make_request(method, path, self._headers, data, self._user))
        if not isinstance(answer, ApiResponse):
            raise TypeError(f"{method} {path} is answered with a stream")
        content = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
        return answer.status, msgspec.json.decode(content)


def path_of(resource: ResourceType, namespace: str, name: str = "") -> str:
    """The path of an object, or of all of a namespace."""
    base = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    within = f"/namespaces/{namespace}" if resource.namespaced else ""
    return f"{base}{within}/{resource.plural}" + (f"/{name}" if name else "")
