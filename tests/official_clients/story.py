"""A short story at an API server, told by one version of an official Python client; prints what it saw as JSON.

    PYTHONPATH=FOLDER python story.py kubernetes|kubernetes_asyncio KUBECONFIG NAMESPACE

A process of its own imports the version in FOLDER; both libraries have the same calls, of which one must be awaited.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
GROUP = "story.example.com"
SECONDS = 60


async def done(result: Any) -> Any:
    """The result of a call of either library."""
    return await result if inspect.isawaitable(result) else result


def config_map(name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


class Story:
    """The calls of one library in one namespace."""

    def __init__(self, library: str, api: Any, namespace: str) -> None:
        self.client = importlib.import_module(f"{library}.client")
        self.watch = importlib.import_module(f"{library}.watch")
        self.api, self.namespace = api, namespace
        self.core = self.client.CoreV1Api(api)

    async def tell(self) -> dict[str, Any]:
        """Observations, chapter by chapter."""
        body = {"metadata": {"name": self.namespace}}
        await done(self.core.create_namespace(body))
        chapters = (self.pages, self.watched, self.patches, self.errors, self.custom, self.deletions)
        return {each.__name__: await each() for each in chapters}

    async def pages(self) -> list[list[str]]:
        """The names on each page of a list."""
        for name in ("a", "b", "c"):
            await done(self.core.create_namespaced_config_map(self.namespace, config_map(name, one="1")))
        found: list[list[str]] = []
        token = ""
        while not found or token:
            more = {"_continue": token} if token else {}
            page = await done(self.core.list_namespaced_config_map(self.namespace, limit=2, **more))
            found.append([each.metadata.name for each in page.items])
            token = page.metadata._continue or ""
        return found

    async def watched(self) -> list[list[str]]:
        """Type and name of events, from a watch that the library asks for with `watch=True`."""
        calls = self.core
        start = (await done(calls.list_namespaced_config_map(self.namespace))).metadata.resource_version
        await done(calls.create_namespaced_config_map(self.namespace, config_map("w")))
        await done(calls.patch_namespaced_config_map("w", self.namespace, {"data": {"two": "2"}}))
        await done(calls.delete_namespaced_config_map("w", self.namespace))
        stream = self.watch.Watch().stream(
            calls.list_namespaced_config_map, self.namespace, resource_version=start, timeout_seconds=SECONDS
        )
        found: list[list[str]] = []
        if hasattr(stream, "__aiter__"):
            async for event in stream:
                if len(found := [*found, [event["type"], event["object"].metadata.name]]) == 3:
                    break
        else:
            for event in stream:
                if len(found := [*found, [event["type"], event["object"].metadata.name]]) == 3:
                    break
        return found

    async def patches(self) -> dict[str, Any]:
        """The data of an object after a patch of each kind."""
        change = {"data": {"one": None, "two": "2"}}
        steps = [{"op": "add", "path": "/data/three", "value": "3"}]
        applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"two": "4"}}
        strategic = await done(self.core.patch_namespaced_config_map("a", self.namespace, {"data": {"zero": "0"}}))
        merged = await self._as(MERGE, lambda: self.core.patch_namespaced_config_map("a", self.namespace, change))
        stepped = await done(self.core.patch_namespaced_config_map("a", self.namespace, steps))
        forced = await self._as(
            APPLY,
            lambda: self.core.patch_namespaced_config_map(
                "a", self.namespace, applied, field_manager="story", force=True
            ),
        )
        return {
            "strategic": strategic.data,
            "merge": merged.data,
            "json": stepped.data,
            "apply by force": forced.data,
        }

    async def _as(self, content_type: str, call: Callable[[], Any]) -> Any:
        """The result of a call whose body has a content type, set as users of old versions set it."""
        self.api.set_default_header("Content-Type", content_type)
        try:
            return await done(call())
        finally:
            del self.api.default_headers["Content-Type"]

    async def errors(self) -> dict[str, Any]:
        """Code and reason of refusals, and the first field that one names."""
        core, there = self.core, self.namespace
        invalid = await self._refused(lambda: core.create_namespaced_config_map(there, config_map("Bad_Name")))
        found = {
            "missing": await self._refused(lambda: core.read_namespaced_config_map("none", there)),
            "exists": await self._refused(lambda: core.create_namespaced_config_map(there, config_map("a"))),
            "invalid": invalid,
        }
        return {
            name: [each["code"], each["reason"], ((each["details"].get("causes") or [{}])[0]).get("field", "")]
            for name, each in found.items()
        }

    async def _refused(self, call: Callable[[], Any | Awaitable[Any]]) -> Any:
        try:
            await done(call())
        except self.client.ApiException as error:
            return json.loads(error.body)
        raise AssertionError("the call was not refused")

    async def custom(self) -> dict[str, Any]:
        """Objects of a definition that the story makes."""
        plural = f"gadgets{self.namespace}".replace("-", "")
        await self._define(plural)
        objects = self.client.CustomObjectsApi(self.api)
        place = (GROUP, "v1", self.namespace, plural)
        body = {"apiVersion": f"{GROUP}/v1", "kind": plural.title(), "metadata": {"name": "g"}, "spec": {"size": 1}}
        made = await done(objects.create_namespaced_custom_object(*place, body))
        changed = await self._as(
            MERGE, lambda: objects.patch_namespaced_custom_object(*place, "g", {"spec": {"size": 2}})
        )
        listed = await done(objects.list_namespaced_custom_object(*place))
        await done(objects.delete_namespaced_custom_object(*place, "g"))
        left = await done(objects.list_namespaced_custom_object(*place))
        definitions = self.client.ApiextensionsV1Api(self.api)
        await done(definitions.delete_custom_resource_definition(f"{plural}.{GROUP}"))
        names = [each["metadata"]["name"] for each in listed["items"]]
        return {"sizes": [made["spec"]["size"], changed["spec"]["size"]], "names": names, "left": left["items"]}

    async def _define(self, plural: str) -> None:
        """A definition that is served when this returns."""
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        spec = {"group": GROUP, "scope": "Namespaced", "versions": [version]}
        names = {"plural": plural, "kind": plural.title()}
        body = {"metadata": {"name": f"{plural}.{GROUP}"}, "spec": {**spec, "names": names}}
        definitions = self.client.ApiextensionsV1Api(self.api)
        await done(definitions.create_custom_resource_definition(body))
        for _ in range(SECONDS * 10):
            state = (await done(definitions.read_custom_resource_definition(f"{plural}.{GROUP}"))).status
            if any(each.type == "Established" and each.status == "True" for each in state.conditions or ()):
                return
            await asyncio.sleep(0.1)
        raise AssertionError("the definition is not established")

    async def deletions(self) -> list[str]:
        """Names that are left after one object, and then all but one, are deleted."""
        await done(self.core.delete_namespaced_config_map("a", self.namespace, propagation_policy="Foreground"))
        await done(self.core.delete_collection_namespaced_config_map(self.namespace, field_selector="metadata.name!=c"))
        left = await done(self.core.list_namespaced_config_map(self.namespace))
        return [each.metadata.name for each in left.items]


async def main(library: str, kubeconfig: str, namespace: str) -> None:
    """Tell the story, and print it with the version of the library."""
    config: Any = importlib.import_module(f"{library}.config")
    await done(config.load_kube_config(config_file=kubeconfig))
    api = importlib.import_module(f"{library}.client").ApiClient()
    try:
        seen = await Story(library, api, namespace).tell()
    finally:
        await done(api.close())
    print(json.dumps({"version": importlib.import_module(library).__version__, **seen}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
