"""Conversion of custom resources between versions: by changing only the apiVersion, or by a webhook."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from kilauea.apiserver import status
from kilauea.apiserver.admission.attributes import LARGEST
from kilauea.apiserver.backend import Backend
from kilauea.apiserver.dynamic.remote import CallError, target_of
from kilauea.apiserver.large_writes import LARGE
from kilauea.apiserver.parsing import MOST_CONTAINERS, has_too_many
from kilauea.apiserver.schema import DecodeError, Schema, read_custom

Object = dict[str, Any]
SECONDS = 30.0
"""Timeout of a conversion webhook."""
_MAY_CHANGE = frozenset({"labels", "annotations"})
"""Metadata that a conversion webhook may change."""


class VersionConversion:
    """Implements `Conversion` for the objects of one definition.

    Args:
        backend: the state of the server, with the client for webhooks.
        definition: a definition with several versions.
        schemas: the schemas of its versions.
    """

    def __init__(self, backend: Backend, definition: Object, schemas: Mapping[str, Schema]) -> None:
        spec = definition["spec"]
        group, conversion = spec["group"], spec.get("conversion") or {}
        self.storage = next(f"{group}/{each['name']}" for each in spec["versions"] if each.get("storage"))
        self._webhook: Object | None = (
            conversion.get("webhook") or {} if conversion.get("strategy") == "Webhook" else None
        )
        self._backend = backend
        self._kind = spec["names"]["kind"]
        self._schemas = {f"{group}/{version}": schema for version, schema in schemas.items()}

    @property
    def is_plain(self) -> bool:
        """True if only the apiVersion changes."""
        return self._webhook is None

    def served(self, value: bytes, api_version: str) -> bytes:
        """Return stored bytes in a version, for plain conversion only; webhooks must have converted others before."""
        head = _head(self._kind, api_version)
        if value.startswith(head):
            return value
        obj = msgspec.json.decode(value)
        if not self.is_plain and obj.get("apiVersion") != api_version:
            raise status.internal(f"{self._kind}: an object was not converted to {api_version}")
        return _encode(self._plainly(obj, api_version))

    async def convert(self, objects: list[Object], api_version: str) -> list[Object]:
        """Return the objects converted to a version, in order.

        Raises:
            ApiFault: the webhook failed (500).
        """
        if self._webhook is None:
            return [self._plainly(each, api_version) for each in objects]
        other = [each for each in objects if each.get("apiVersion") != api_version]
        if not other:
            return objects
        converted = iter(await self._ask(self._webhook, other, api_version))
        return [each if each.get("apiVersion") == api_version else next(converted) for each in objects]

    def _plainly(self, obj: Object, api_version: str) -> Object:
        """Return the object with another apiVersion, without fields unknown to that version."""
        if obj.get("apiVersion") == api_version:
            return obj
        return self._pruned({**obj, "apiVersion": api_version}, api_version)

    def _pruned(self, obj: Object, api_version: str) -> Object:
        schema = self._schemas.get(api_version)
        if schema is not None:
            read_custom(schema, obj)
        return obj

    async def _ask(self, webhook: Object, objects: list[Object], api_version: str) -> list[Object]:
        given = objects[0]["apiVersion"]
        subject = f"conversion webhook for {given}, Kind={self._kind}"
        version = next(
            (each for each in webhook.get("conversionReviewVersions") or () if each in ("v1", "v1beta1")), "v1"
        )
        uid = self._backend.new_uid()
        review = {
            "kind": "ConversionReview",
            "apiVersion": f"apiextensions.k8s.io/{version}",
            "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": objects},
        }
        remote = self._backend.dynamic.remote if self._backend.dynamic is not None else None
        try:
            if remote is None:
                raise CallError("this server has no client for webhooks")
            config = webhook.get("clientConfig") or {}
            target = target_of(config, self._backend.store, self._backend.connections)
            body = await remote.post(target, msgspec.json.encode(review), SECONDS)
            read = partial(self._read, subject, body, uid, objects, api_version)
            writes = self._backend.large_writes
            return read() if writes is None or len(body) <= LARGE else await writes.run(read)
        except CallError as error:
            words = str(error).removeprefix("failed to call webhook: ")
            raise status.internal(f"{subject} failed: {words}") from error

    def _read(self, subject: str, body: bytes, uid: str, objects: list[Object], api_version: str) -> list[Object]:
        """Return the objects in a response, which can take long to check.

        Raises:
            CallError: it has another format, or reports an error.
            ApiFault: the objects are not those that were sent (500).
        """
        answers = _answers(body, uid)
        if len(answers) != len(objects):
            raise status.internal(f"{subject} returned {len(answers)} objects, expected {len(objects)}")
        return [
            self._checked(subject, index, before, after, api_version)
            for index, (before, after) in enumerate(zip(objects, answers, strict=True))
        ]

    def _checked(self, subject: str, index: int, before: Object, text: msgspec.Raw, api_version: str) -> Object:
        """Return an object that a webhook converted, with the metadata that it may not change."""
        invalid = f"{subject} returned invalid converted object at index {index}"
        try:
            after = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise status.internal(f"{invalid}: {error}") from error
        if not isinstance(after, dict):
            raise status.internal(f"{invalid}: it is not an object")
        if after.get("apiVersion") != api_version:
            got = after.get("apiVersion") or ""
            raise status.internal(f"{invalid}: invalid groupVersion (expected {api_version}, received {got})")
        if after.get("kind") != self._kind:
            raise status.internal(
                f"{invalid}: invalid kind (expected {self._kind}, received {after.get('kind') or ''})"
            )
        metadata = after.get("metadata")
        if not isinstance(metadata, dict):
            raise status.internal(f"{invalid}: invalid metadata of type {type(metadata).__name__} in input object")
        for field in ("name", "namespace", "uid"):
            if metadata.get(field) != before["metadata"].get(field):
                message = (
                    f"{subject} returned invalid metadata in object at index {index}: metadata.{field} must not change"
                )
                raise status.internal(message)
        for field in sorted(_MAY_CHANGE):
            given = metadata.get(field) or {}
            if not isinstance(given, dict) or not all(isinstance(each, str) for each in given.values()):
                raise status.internal(f"{invalid}: metadata.{field} must be a map of strings")
        kept = {key: value for key, value in before["metadata"].items() if key not in _MAY_CHANGE}
        changed = {key: metadata[key] for key in _MAY_CHANGE if metadata.get(key)}
        try:
            return self._pruned({**after, "metadata": {**kept, **changed}}, api_version)
        except DecodeError as error:
            raise status.internal(f"{invalid}: {error}") from error


class _Response(msgspec.Struct, rename="camel"):
    """The fields of a response that are read; its objects are read individually."""

    uid: str = ""
    result: dict[str, Any] | None = None
    converted_objects: list[msgspec.Raw] | None = None


class _Review(msgspec.Struct):
    response: _Response


def _answers(body: bytes, uid: str) -> list[msgspec.Raw]:
    """Return the objects in a response, as JSON.

    Raises:
        CallError: it is larger than the objects can become, has another format, or reports an error.
    """
    if len(body) > LARGEST:
        raise CallError(f"the answer is larger than {LARGEST} bytes")
    if has_too_many(body):
        raise CallError(f"the answer has more than {MOST_CONTAINERS} lists and objects")
    try:
        response = msgspec.json.decode(body, type=_Review).response
    except msgspec.ValidationError as error:
        raise CallError(f"the answer is not valid: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CallError(f"the answer cannot be read: {error}") from error
    if response.uid != uid:
        raise CallError(f'expected response.uid="{uid}", got "{response.uid}"')
    result = response.result or {}
    if result.get("status") != "Success":
        raise CallError(str(result.get("message") or "response.result.status was '', not 'Success'"))
    return response.converted_objects or []


def _head(kind: str, api_version: str) -> bytes:
    return f'{{"kind":"{kind}","apiVersion":"{api_version}",'.encode()


def _encode(obj: Object) -> bytes:
    """Encode an object with kind, apiVersion and metadata first."""
    head = {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "metadata": obj["metadata"]}
    return msgspec.json.encode({**head, **obj})
