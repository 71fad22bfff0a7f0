"""The next step after a failed request: for logs of processes that retry, and for `kilauea doctor`."""

from __future__ import annotations

from kilauea.api.ports import ApiError, Resource
from kilauea.client.access import AccessError

NO_ANSWER, BAD_REQUEST, UNAUTHORIZED, FORBIDDEN, NOT_FOUND = 0, 400, 401, 403, 404
PLAIN_TO_TLS = "HTTP request to an HTTPS server"
"""The response of Go servers with TLS to a request without it."""
NO_API_SERVER = "set clusters[].cluster.server of the kubeconfig to the address of an API server of Kubernetes"
CUSTOM = ".volcano.sh"
"""The suffix of the groups of Volcano's kinds."""
NAMES = ("IP address mismatch", "Hostname mismatch", "is not valid for")


def advice(error: ApiError, resource: Resource | None = None) -> str:
    """Return the remedy for an error; empty if a retry may help.

    Args:
        error: the error response, or the error of a missing one.
        resource: the requested kind.
    """
    if isinstance(error.__cause__, AccessError):
        return ""  # its message has the remedy
    if error.code == NO_ANSWER:
        return _connection(error.message)
    if error.code == UNAUTHORIZED:
        return (
            "the server does not accept the credentials: renew users[].user of the kubeconfig, "
            "or the token of the service account"
        )
    if error.code == BAD_REQUEST and PLAIN_TO_TLS in error.message:
        return "the server speaks TLS: use https:// in clusters[].cluster.server of the kubeconfig"
    if resource is None:
        return NO_API_SERVER if error.code in (BAD_REQUEST, NOT_FOUND) else ""
    name = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    if error.code == FORBIDDEN:
        return f"grant this user get, list and watch on {name}"
    if error.code == NOT_FOUND and resource.group.endswith(CUSTOM):
        return f"the cluster does not serve {name}: install its definition, `kubectl apply -f deploy/crds/{name}.yaml`"
    return ""


def with_advice(error: ApiError, resource: Resource | None = None) -> str:
    """Return the message of an error, with its remedy."""
    more = advice(error, resource)
    return f"{error}: {more}" if more else str(error)


def _connection(message: str) -> str:
    """Return the remedy for a missing response."""
    if any(words in message for words in NAMES):
        return (
            "the certificate of the server is for other names: use one of them in clusters[].cluster.server of the "
            "kubeconfig, or name it in clusters[].cluster.tls-server-name"
        )
    if "certificate has expired" in message:
        return "renew the certificate of the API server"
    if "certificate verify failed" in message:
        return (
            "the certificate of the server is not issued by an authority that the kubeconfig trusts: set "
            "clusters[].cluster.certificate-authority-data to the cluster's authority"
        )
    if "WRONG_VERSION_NUMBER" in message or "record layer" in message:
        return "the server does not speak TLS: use http:// in clusters[].cluster.server of the kubeconfig"
    return "check that the server runs, and clusters[].cluster.server of the kubeconfig"
