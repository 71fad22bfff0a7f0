"""Command objects, which a controller executes once on a job or queue, and functions that wait for their effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kilauea.api.kinds import COMMANDS
from kilauea.api.ports import Key, Obj, Resource
from kilauea.cli.vcctl.command import CommandError
from kilauea.cli.vcctl.watching import states_of, within

if TYPE_CHECKING:
    from kilauea.api.ports import Api

NO_ANNOTATIONS: Mapping[str, str] = MappingProxyType({})


def command_for(resource: Resource, obj: Obj, action: str, annotations: Mapping[str, str]) -> dict[str, Any]:
    """A Command object that its target owns."""
    metadata = obj["metadata"]
    target = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": COMMANDS.api_version,
        "kind": COMMANDS.kind,
        "metadata": {
            "generateName": f"{metadata['name']}-{action.lower()}-",
            "namespace": metadata.get("namespace") or "default",
            "ownerReferences": [target],
            **({"annotations": dict(annotations)} if annotations else {}),
        },
        "target": target,
        "action": action,
    }


async def order(
    api: Api, resource: Resource, key: Key, action: str, annotations: Mapping[str, str] = NO_ANNOTATIONS
) -> Obj:
    """Create a Command for an object, and return the object as it was before."""
    obj = await api.get(resource, key)
    command = command_for(resource, obj, action, annotations)
    await api.create(COMMANDS, command["metadata"]["namespace"], command)
    return obj


async def until(
    api: Api,
    resource: Resource,
    key: Key,
    done: Callable[[Obj | None], bool],
    timeout: int,
    state: Callable[[Obj], str],
) -> Obj | None:
    """The object once it has the wanted state; None if the wanted state is that it is deleted.

    Raises:
        CommandError: it takes too long, or the object is deleted unexpectedly.
    """
    last = ""

    async def reached() -> Obj | None:
        nonlocal last
        async with aclosing(states_of(api, resource, key)) as states:
            async for obj in states:
                if done(obj):
                    return obj
                if obj is None:
                    raise CommandError(f"{resource.kind.lower()} {key.name} is gone")
                last = state(obj)
        raise AssertionError("an endless watch has ended")

    words = f"{resource.kind.lower()} {key.name} is"
    return await within(timeout, reached(), lambda: f"{words} {f'still {last}' if last else 'not there yet'}")


async def delete(api: Api, resource: Resource, key: Key, wait: bool, timeout: int) -> None:
    """Delete an object; on request, wait until it is gone."""
    uid = (await api.get(resource, key))["metadata"]["uid"] if wait else ""
    await api.delete(resource, key)
    if wait:
        await until(
            api,
            resource,
            key,
            lambda obj: obj is None or obj["metadata"]["uid"] != uid,
            timeout,
            lambda obj: "there",
        )
