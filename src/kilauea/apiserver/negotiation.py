"""Content negotiation: the object itself, a table, or only its metadata; as JSON or YAML.

Clients that accept only protobuf get built-in kinds in it.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kilauea.api.remembered import remembered
from kilauea.apiserver import status
from kilauea.apiserver.protobuf import PROTOBUF
from kilauea.apiserver.request import JSON, YAML

TABLE = "Table"
PARTIAL = "PartialObjectMetadata"
PARTIAL_LIST = f"{PARTIAL}List"
_FORMS = (TABLE, PARTIAL, PARTIAL_LIST)
MEDIA = (JSON, YAML)


class View(NamedTuple):
    """A form of response.

    Attributes:
        media: the media type.
        form: empty, `Table` or `PartialObjectMetadata`.
        version: the version of a form that is not empty.
        of_list: True if the client requested the list form of `PartialObjectMetadata`.
    """

    media: str = JSON
    form: str = ""
    version: str = "v1"
    of_list: bool = False

    @property
    def api_version(self) -> str:
        """The apiVersion of a form that is not empty."""
        return f"meta.k8s.io/{self.version}"


@remembered(256)
def negotiate(accept: str) -> View:
    """Return the first available form of an Accept header; JSON without a header.

    Protobuf is for clients that accept nothing else, and for metadata: Go clients compare lists of it with watched
    objects, and only in JSON the items of a list have a kind.

    Raises:
        ApiFault: none is available (406).
    """
    if not accept:
        return View()
    views = [view for view in map(_view, _in_order(accept)) if view is not None]
    if not views:
        known = any(_media(clause) in (*MEDIA, PROTOBUF) for clause in accept.split(","))
        raise (status.no_such_form if known else status.not_acceptable)((*MEDIA, PROTOBUF))
    return next((view for view in views if view.media != PROTOBUF or view.form == PARTIAL), views[0])


def _in_order(accept: str) -> list[str]:
    """Return the clauses of an Accept header, those of the highest quality first."""
    clauses = accept.split(",")
    return sorted(clauses, key=lambda each: -_quality(each)) if ";q=" in accept.replace(" ", "") else clauses


def _quality(clause: str) -> float:
    given = dict(part.strip().partition("=")[::2] for part in clause.split(";")[1:])
    try:
        return float(given.get("q", "1"))
    except ValueError:
        return 1.0


def _view(clause: str) -> View | None:
    """Return the form of one clause of an Accept header; None if not available."""
    given = dict(part.strip().partition("=")[::2] for part in clause.split(";")[1:])
    media = _media(clause)
    if media not in (*MEDIA, PROTOBUF):
        return None
    form = given.get("as", "")
    if not form:
        return View(media)
    if (
        form not in _FORMS
        or (form == TABLE and media == PROTOBUF)
        or given.get("g") != "meta.k8s.io"
        or given.get("v") not in ("v1", "v1beta1")
    ):
        return None
    return View(media, PARTIAL if form.startswith(PARTIAL) else form, given["v"], form == PARTIAL_LIST)


def _media(clause: str) -> str:
    """Return the media type of one clause of an Accept header."""
    media = clause.partition(";")[0].strip().lower()
    return {"*/*": JSON, "text/yaml": YAML}.get(media, media)


def check_readable(accept: str) -> None:
    """Check that a client accepts a format of documents.

    Raises:
        ApiFault: it accepts none (406).
    """
    if accept and not any(_media(clause) in (*MEDIA, PROTOBUF) for clause in accept.split(",")):
        raise status.not_acceptable((*MEDIA, PROTOBUF))


def negotiate_whole(accept: str) -> View:
    """Return the form of a review, which has no table or metadata form.

    Raises:
        ApiFault: nothing else is accepted (406).
    """
    plain = [each for each in accept.split(",") if (view := _view(each)) is not None and not view.form]
    if not plain:
        raise status.no_such_form((*MEDIA, PROTOBUF))
    return negotiate(",".join(plain))


def check_form(view: View, group: str, kind: str, *, of_list: bool, is_custom: bool = False) -> None:
    """Check that a form matches the response: a list or an object.

    Args:
        view: the form.
        group: the group of the kind.
        kind: the kind of the object or of the list.
        of_list: True for a list.
        is_custom: True for a custom kind.

    Raises:
        ApiFault: it does not match (406).
    """
    if view.form != PARTIAL or view.of_list == of_list:
        return
    package = "core" if group in ("", "events.k8s.io") else group.partition(".")[0]
    name = f"{package}.{kind}"
    if is_custom:
        name = "unstructured.UnstructuredList" if of_list else "unstructured.Unstructured"
    asked, what = (PARTIAL, "a list") if of_list else (PARTIAL_LIST, "not a list")
    raise status.ApiFault(406, "NotAcceptable", f"you requested {asked}, but the requested object is {what} (*{name})")


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None


class Header(msgspec.Struct):
    """The fields of every object that selectors read."""

    metadata: _Metadata


class _Partial(msgspec.Struct):
    """The encoded metadata."""

    metadata: msgspec.Raw


header_of = msgspec.json.Decoder(Header).decode
"""Decode the fields that selectors read."""
_partial_of = msgspec.json.Decoder(_Partial).decode


def partial_object(value: bytes, api_version: str) -> bytes:
    """Reduce stored bytes to a `PartialObjectMetadata`."""
    head = f'{{"kind":"{PARTIAL}","apiVersion":"{api_version}","metadata":'.encode()
    return head + bytes(_partial_of(value).metadata) + b"}"
