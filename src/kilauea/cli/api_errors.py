"""Messages for requests that the API server refuses, with what the user can do about it."""

from __future__ import annotations

from kilauea.api.ports import ApiError

NO_ANSWER, UNAUTHORIZED = 0, 401


def refusal_text(error: ApiError) -> str:
    """The server's message; if it does not accept the user, also how to change the credentials."""
    if error.code == UNAUTHORIZED:
        return (
            f"{error.message}: the server does not accept the credentials of the kubeconfig; "
            "renew them, or name another file with --kubeconfig"
        )
    return error.message


def unread_cluster(error: ApiError) -> str:
    """The message for a cluster that cannot be read: it does not answer, or it refuses the request."""
    asked = "; ".join(getattr(error, "__notes__", ()))
    verb = "does not answer" if error.code == NO_ANSWER else "refuses the request"
    return f"the cluster {verb}{f' ({asked})' if asked else ''}: {refusal_text(error)}"
