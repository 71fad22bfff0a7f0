"""Everything that the server serves apart from objects: discovery, OpenAPI, health, version, metrics."""

from __future__ import annotations

import asyncio
import platform
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from prometheus_client import REGISTRY, CollectorRegistry, Metric, generate_latest
from prometheus_client.registry import Collector

from kilauea.apiserver import status
from kilauea.apiserver.account_tokens import AUDIENCE, AccountTokens
from kilauea.apiserver.aggregator.discovery import with_aggregated, with_group, with_group_list
from kilauea.apiserver.aggregator.services import Aggregator
from kilauea.apiserver.backend import Backend
from kilauea.apiserver.documents import discovery
from kilauea.apiserver.documents.health import PATHS, SLIS, Health
from kilauea.apiserver.documents.openapi import OpenApi
from kilauea.apiserver.negotiation import check_readable
from kilauea.apiserver.request import ApiRequest, ApiResponse
from kilauea.apiserver.schema import kubernetes_version

_METRICS = "text/plain; version=0.0.4; charset=utf-8"


_ANY_METHOD = re.compile(r"/|/apis(/[^/]+)?|/metrics|/openapi/.*|/(healthz|livez|readyz)(/.*)?")
"""Paths for which the real server ignores the method."""


ISSUER, KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"


class _Collected(Collector):
    """Metrics that were read before."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterable[Metric]:
        """Return them."""
        return self._metrics


class Documents:
    """Responses at non-resource paths; discovery is cached until the kinds change."""

    def __init__(
        self, backend: Backend, address: str = "127.0.0.1", metrics: Sequence[CollectorRegistry] = (REGISTRY,)
    ) -> None:
        self.metrics = list(metrics)
        """Registries in `/metrics`, in order."""
        self._backend = backend
        self._address = address
        self._openapi = OpenApi(backend.registry)
        self._kept: dict[tuple[str, str], bytes] = {}
        self._generation = (-1, -1)
        self._health = Health()
        self._measuring: asyncio.Task[bytes] | None = None
        self.aggregator: Aggregator | None = None
        """The aggregated servers; None if no requests are proxied."""

    async def answer(self, request: ApiRequest) -> ApiResponse | None:
        """Return the document at a path; None if it does not exist."""
        path = request.path.rstrip("/") or "/"
        if path.startswith("/openapi/"):
            made = await self._openapi.answer(path, request, self.aggregator)
        elif path == "/metrics":
            made = ApiResponse(200, await self._measured(), _METRICS)
        else:
            made = self._discovery(path, request) or self._other(path, request)
        if made is not None and request.method != "GET" and not _ANY_METHOD.fullmatch(path):
            raise status.wrong_method()
        return made

    async def _measured(self) -> bytes:
        """Return the metrics; requests that arrive while they are written get the same ones."""
        if self._measuring is None:
            self._measuring = asyncio.create_task(self._measure(), name="metrics")
        return await asyncio.shield(self._measuring)

    async def _measure(self) -> bytes:
        """Read the metrics, and write them outside the event loop: thousands of kinds take seconds."""
        try:
            collected = [_Collected(each.collect()) for each in self.metrics]
            return await asyncio.to_thread(lambda: b"".join(map(generate_latest, collected)))
        finally:
            self._measuring = None

    def _other(self, path: str, request: ApiRequest) -> ApiResponse | None:
        if path == "/version":
            return ApiResponse(200, msgspec.json.format(msgspec.json.encode(version_info()), indent=2))
        if path in (ISSUER, KEYS) and self._backend.accounts is not None:
            return self._issuer(path, self._backend.accounts, request)
        if path == "/":
            return ApiResponse(200, msgspec.json.encode({"paths": self._paths()}))
        return self._health.answer(path, request)

    def _issuer(self, path: str, accounts: AccountTokens, request: ApiRequest) -> ApiResponse:
        """Return the OpenID Connect documents with which others verify tokens of service accounts."""
        if path == KEYS:
            return ApiResponse(200, msgspec.json.encode({"keys": accounts.key_set}), "application/jwk-set+json")
        found = {
            "issuer": AUDIENCE,
            "jwks_uri": f"https://{request.headers.get('host') or self._address}{KEYS}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [each["alg"] for each in accounts.key_set],
        }
        return ApiResponse(200, msgspec.json.encode(found))

    def _discovery(self, path: str, request: ApiRequest) -> ApiResponse | None:
        """Return the discovery documents at `/api`, `/apis` and below."""
        if not path.startswith("/api"):
            return None
        version = discovery.aggregated_version(request.headers.get("accept", "")) if path in ("/api", "/apis") else ""
        aggregator = self.aggregator
        generation = (self._backend.registry.generation, aggregator.generation if aggregator is not None else 0)
        if self._generation != generation:
            self._kept.clear()
            self._generation = generation
        body = self._kept.get((path, version))
        if body is None:
            document = self._discovered(path, version)
            if aggregator is not None and aggregator.services:
                document = _with_others(document, path, version, aggregator)
            if document is None:
                return None
            body = self._kept[path, version] = msgspec.json.encode(document)
        check_readable(request.headers.get("accept", ""))
        media = discovery.AGGREGATED.format(version=version) if version else "application/json"
        return ApiResponse(200, body, media, [("Vary", "Accept")])

    def _discovered(self, path: str, version: str) -> dict[str, Any] | None:
        registry = self._backend.registry
        parts = path.split("/")[1:]
        if len(parts) == 1 and version:
            return discovery.aggregated(registry, version, core=path == "/api")
        match parts:
            case ["api"]:
                return discovery.core_versions(self._address)
            case ["apis"]:
                return discovery.group_list(registry)
            case ["api", core_version]:
                return discovery.resource_list(registry, "", core_version)
            case ["apis", group]:
                return discovery.group(registry, group)
            case ["apis", group, group_version] if group:
                return discovery.resource_list(registry, group, group_version)
        return None

    def _paths(self) -> list[str]:
        """Return the paths of the root document."""
        found = {ISSUER, KEYS} if self._backend.accounts is not None else set()
        found |= {"/api", "/api/v1", "/apis", "/metrics", SLIS, "/openapi/v2", "/openapi/v3", "/version", *PATHS}
        for each in self._backend.registry:
            if each.group:
                found |= {f"/apis/{each.group}", f"/apis/{each.group}/{each.version}"}
        for group, version in self.aggregator.services if self.aggregator is not None else ():
            found |= {f"/apis/{group}", f"/apis/{group}/{version}"}
        return sorted(found)


def _with_others(
    document: dict[str, Any] | None, path: str, version: str, aggregator: Aggregator
) -> dict[str, Any] | None:
    """Return a discovery document extended with the kinds of other servers."""
    if path == "/apis" and document is not None:
        return with_aggregated(document, aggregator) if version else with_group_list(document, aggregator)
    parts = path.split("/")
    return with_group(document, parts[2], aggregator) if parts[1] == "apis" and len(parts) == 3 else document


def version_info() -> dict[str, str]:
    """Return the `version.Info` of the emulated Kubernetes version."""
    found = kubernetes_version()
    major, minor = re.findall(r"\d+", found)[:2]
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": found,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{machine}",
    }
