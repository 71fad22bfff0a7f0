"""Service account tokens for the volumes of pods, fetched on demand and again before they expire."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kilauea.api.kinds import SERVICE_ACCOUNTS
from kilauea.api.ports import Api, ApiError, Clock, Obj
from kilauea.api.times import SECOND
from kilauea.kubelet.volumes.sources import VolumeError

DEFAULT_SECONDS = 3600
_AGE = 24 * 3600
"""Seconds after which a token is replaced even if it is valid for longer, as in kubelets."""


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    renew: int
    """Time at which it must be replaced, in microseconds since 1970."""


class Tokens:
    """Tokens by pod, service account and audience.

    Args:
        api: issues them.
        clock: the time.
    """

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._known: dict[tuple[str, str, int], _Token] = {}

    async def of_volume(self, pod: Obj, source: Obj) -> dict[str, str]:
        """Return the tokens of a projected volume by their paths.

        Raises:
            VolumeError: a token is not issued.
        """
        found = {}
        for each in _wanted(source):
            found[each["path"]] = await self._token(pod, each)
        return found

    async def _token(self, pod: Obj, wanted: Obj) -> str:
        metadata, spec = pod["metadata"], pod["spec"]
        audience, seconds = wanted.get("audience") or "", wanted.get("expirationSeconds") or DEFAULT_SECONDS
        key = (metadata["uid"], audience, seconds)
        known = self._known.get(key)
        now = self._clock.now()
        if known is not None and now < known.renew:
            return known.text
        bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        request = {"expirationSeconds": seconds, "boundObjectRef": bound, "audiences": [audience] if audience else []}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": request}
        account = spec.get("serviceAccountName") or "default"
        try:
            answer = await self._api.create(SERVICE_ACCOUNTS, metadata["namespace"], body, "token", account)
        except ApiError as error:
            if known is not None:
                return known.text
            raise VolumeError(f"failed to fetch token: {error}") from error
        renew = now + min(seconds * 4 // 5, _AGE) * SECOND
        self._known[key] = _Token(answer["status"]["token"], renew)
        return self._known[key].text

    def renewal(self, uid: str) -> int | None:
        """Return the time at which a token of a pod must be replaced; None without tokens."""
        return min((token.renew for key, token in self._known.items() if key[0] == uid), default=None)

    def forget(self, uid: str) -> None:
        """Drop the tokens of a pod."""
        for key in [key for key in self._known if key[0] == uid]:
            del self._known[key]


def _wanted(source: Obj) -> Iterator[Obj]:
    """The parts of a projected volume that are tokens."""
    for part in source.get("sources") or ():
        if "serviceAccountToken" in part:
            yield part["serviceAccountToken"]
