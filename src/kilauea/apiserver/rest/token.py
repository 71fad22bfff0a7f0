"""Token: a service account asks for a token. This server knows certificates and one token only, and gives none out."""

from __future__ import annotations

from kilauea.apiserver import status
from kilauea.apiserver.request import ApiResponse
from kilauea.apiserver.rest.call import Call
from kilauea.apiserver.rest.get import read_stored


async def create_token(call: Call) -> ApiResponse:
    """Answer a create of a service account's `token`."""
    read_stored(call)
    raise status.forbidden(
        "serviceaccounts/token", "", call.info.name, "this server gives no tokens to service accounts"
    )
