"""Creation of objects in a system namespace, such as leases, before that namespace exists."""

from __future__ import annotations

from typing import Any

from kilauea.api.kinds import NAMESPACES
from kilauea.api.ports import Api, ApiError, Obj, Resource


async def create_in_namespace(api: Api, resource: Resource, namespace: str, body: Obj) -> dict[str, Any]:
    """Create an object, and its namespace if missing; return the object.

    The namespace is created only if it is missing, so a process whose namespace exists does not need permission to
    create one.

    Raises:
        ApiError: the server rejects one of them.
    """
    try:
        return await api.create(resource, namespace, body)
    except ApiError as error:
        if error.code != 404:
            raise
    try:
        await api.create(NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
    return await api.create(resource, namespace, body)
