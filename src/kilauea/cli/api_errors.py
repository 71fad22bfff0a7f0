"""What the API server says when it refuses a request, with what the user can do about it."""

from __future__ import annotations

from kilauea.api.ports import ApiError

NO_ANSWER, UNAUTHORIZED = 0, 401


def refusal_text(error: ApiError) -> str:
    """The message of the server; where it does not know the user, also where the credentials come from."""
    if error.code == UNAUTHORIZED:
        return (
            f"{error.message}: the server does not accept the credentials of the kubeconfig; "
            "renew them, or name another file with --kubeconfig"
        )
    return error.message


def unread_cluster(error: ApiError) -> str:
    """Why a cluster could not be read: it does not answer, or it refuses to."""
    asked = "; ".join(getattr(error, "__notes__", ()))
    verb = "does not answer" if error.code == NO_ANSWER else "refuses the request"
    return f"the cluster {verb}{f' ({asked})' if asked else ''}: {refusal_text(error)}"
