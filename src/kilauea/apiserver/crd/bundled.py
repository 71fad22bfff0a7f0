"""The definitions that every server has from its beginning: those of the Volcano kinds."""

from __future__ import annotations

import msgspec

from kilauea.api.crds import definitions
from kilauea.apiserver.bootstrap import message_of
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.request import GROUP_MASTERS, ApiRequest, ApiResponse, User
from kilauea.apiserver.schema import openapi_definitions

COLLECTION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MANAGER = "kilauea"
SELF = User("system:apiserver", groups=(GROUP_MASTERS,))


async def install_bundled(api: ApiServer) -> None:
    """Create the definitions, or bring those of an older version up to date.

    Raises:
        RuntimeError: the server refuses its own definitions.
    """
    query = [("fieldManager", MANAGER), ("force", "true")]
    headers = {"content-type": "application/apply-patch+yaml"}
    for each in definitions(openapi_definitions()):
        path = f"{COLLECTION}/{each['metadata']['name']}"
        answer = await api.handle(ApiRequest("PATCH", path, query, headers, msgspec.json.encode(each), SELF))
        if not isinstance(answer, ApiResponse) or answer.status not in (200, 201):
            raise RuntimeError(f"{path} cannot be written: {message_of(answer)}")
