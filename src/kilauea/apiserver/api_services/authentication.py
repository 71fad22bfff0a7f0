"""The ConfigMap with the authorities that other API servers trust: of clients and of the front proxy."""

from __future__ import annotations

import msgspec

from kilauea.apiserver.bootstrap import SELF, check_own, own_server
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.http.credentials import FRONT_PROXY
from kilauea.apiserver.request import ApiRequest, ApiResponse

NAME = "extension-apiserver-authentication"
_PATH = "/api/v1/namespaces/kube-system/configmaps"
_AGENT = {"user-agent": "kube-apiserver/kilauea"}
_MERGE = {**_AGENT, "content-type": "application/merge-patch+json"}


async def publish_authentication(api: ApiServer, clients: bytes, front_proxy: bytes) -> None:
    """Write the ConfigMap.

    Args:
        api: the server.
        clients: the authority of clients' certificates, as PEM.
        front_proxy: the authority of the front proxy's certificate, as PEM.

    Raises:
        RuntimeError: it cannot be stored.
    """
    data = {
        "client-ca-file": clients.decode(),
        "requestheader-allowed-names": f'["{FRONT_PROXY}"]',
        "requestheader-client-ca-file": front_proxy.decode(),
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]',
        "requestheader-username-headers": '["X-Remote-User"]',
    }
    own = own_server(api)
    body = msgspec.json.encode({"metadata": {"name": NAME}, "data": data})
    answer = await own.handle(ApiRequest("POST", _PATH, headers=_AGENT, body=body, user=SELF))
    if isinstance(answer, ApiResponse) and answer.status == 409:
        body = msgspec.json.encode({"data": data})
        answer = await own.handle(ApiRequest("PATCH", f"{_PATH}/{NAME}", headers=_MERGE, body=body, user=SELF))
    check_own(answer, f"{_PATH}/{NAME}", 200, 201)
