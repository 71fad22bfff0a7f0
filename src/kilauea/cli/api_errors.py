"""Messages for requests that the API server rejects, with a way to fix them."""

from __future__ import annotations

import re

from kilauea.api.ports import ApiError

NO_ANSWER, UNAUTHORIZED, NOT_FOUND = 0, 401, 404
NO_QUEUE = re.compile(r'queue\.scheduling\.volcano\.sh "([^"]+)" not found')


def refusal_text(error: ApiError) -> str:
    """The server's message, and the fix if there is no response or the user is not accepted."""
    if error.code == NO_ANSWER:
        return f"{error.message}; start the cluster (`kilauea up`), or name another file with --kubeconfig"
    if error.code == UNAUTHORIZED:
        return (
            f"{error.message}: the server does not accept the credentials of the kubeconfig; "
            "renew them, or name another file with --kubeconfig"
        )
    return error.message


def refused_job(error: ApiError) -> str:
    """The message for a rejected job; if its queue or namespace does not exist, also how to create it."""
    if found := NO_QUEUE.search(error.message):
        return (
            f"{error.message.rstrip('; ')}; `kilauea queues` lists the queues, "
            f"`vcctl queue create -n {found[1]}` creates this one"
        )
    if error.code == NOT_FOUND and error.details.get("kind") == "namespaces":
        return (
            f"{error.message}; `kubectl get namespaces` lists them, "
            f"`kubectl create namespace {error.details.get('name')}` creates this one"
        )
    return refusal_text(error)


def unread_cluster(error: ApiError) -> str:
    """The message for a cluster that cannot be read: it does not answer, or it rejects the request."""
    asked = "; ".join(getattr(error, "__notes__", ()))
    verb = "does not answer" if error.code == NO_ANSWER else "refuses the request"
    return f"the cluster {verb}{f' ({asked})' if asked else ''}: {refusal_text(error)}"
