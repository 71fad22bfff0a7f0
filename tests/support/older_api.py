"""Clusters that serve dynamic resource allocation in an older version only."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

import msgspec

from kilauea.client.transport import Answer, Transport


class Older:
    """A transport to a cluster that serves resource.k8s.io in an older version only."""

    def __init__(self, transport: Transport, version: str) -> None:
        self._transport, self._version = transport, version
        self._served, self._newest = f"/resource.k8s.io/{version}/", "/resource.k8s.io/v1/"

    def _target(self, target: str) -> str:
        if "/resource.k8s.io/" in target and self._served not in target:
            return "/apis/resource.k8s.io/v9/none"
        return target.replace(self._served, self._newest)

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        if method == "POST" and "/resourceclaims" in target:
            body = self._newer(body)
        return await self._transport.request(method, self._target(target), headers, body)

    def _newer(self, body: bytes) -> bytes:
        """A claim in the newest version; it must be in the version that the cluster serves."""
        claim: dict[str, Any] = msgspec.json.decode(body)
        assert claim["apiVersion"] == f"resource.k8s.io/{self._version}"
        requests = claim["spec"]["devices"]["requests"]
        if self._version == "v1beta1":
            requests = [{"name": each.pop("name"), "exactly": each} for each in requests]
        spec = {"devices": {"requests": requests}}
        return msgspec.json.encode({**claim, "apiVersion": "resource.k8s.io/v1", "spec": spec})

    async def stream(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._transport.stream(self._target(target), headers)) as pieces:
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        await self._transport.close()
