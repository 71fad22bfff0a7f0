"""Exec, attach and port-forward, which need a kubelet: pods here are simulated, and the answer says so."""

from __future__ import annotations

from kilauea.apiserver import status
from kilauea.apiserver.request import ApiResponse
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.rest.dynamic import ask_dynamically
from kilauea.apiserver.rest.get import read_stored

_NAMES = {"exec": "exec and cp are", "attach": "attach is", "portforward": "port-forward is"}


async def refuse_stream(call: Call) -> ApiResponse:
    """Answer a request for a connection to a container.

    Raises:
        ApiFault: always; 404 if there is no such pod.
    """
    read_stored(call)
    await ask_dynamically(call, call.attributes("CONNECT", _options(call), None))
    assert call.subresource is not None
    raise status.bad_request(
        f"pod {call.namespace}/{call.info.name} is simulated: it has a status and logs, but no process, files or "
        f"network, so {_NAMES[call.subresource.name]} not available; kubectl logs shows what its command would print"
    )


def _options(call: Call) -> Object:
    """The options of a connection as webhooks see them."""
    assert call.subresource is not None
    found: Object = {"kind": call.subresource.kind, "apiVersion": "v1"}
    for key, value in call.request.query:
        if key == "command":
            found.setdefault(key, []).append(value)
        elif key != "ports":
            found[key] = value == "true" if value in ("true", "false") else value
    return found
