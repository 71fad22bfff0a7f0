"""The format of a response: the object itself, a table for people, or only its metadata; as JSON or YAML.

Clients that accept nothing but protobuf get built-in kinds in it.
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
    """A form of answer.

    Attributes:
        media: the media type.
        form: empty, `Table` or `PartialObjectMetadata`.
        version: of a form that is not empty.
        of_list: True if the client has named the form of a list of `PartialObjectMetadata`.
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
    """The first form of an Accept header that can be had; JSON if there is no header.

    Protobuf is for clients that accept nothing else, and for metadata alone: Go clients compare lists of it with what
    they have watched, and in JSON the items of a list have a kind that these have not.

    Raises:
        ApiFault: none of them can (406).
    """
    if not accept:
        return View()
    views = [view for view in map(_view, _in_order(accept)) if view is not None]
    if not views:
        known = any(_media(clause) in (*MEDIA, PROTOBUF) for clause in accept.split(","))
        raise (status.no_such_form if known else status.not_acceptable)((*MEDIA, PROTOBUF))
    return next((view for view in views if view.media != PROTOBUF or view.form == PARTIAL), views[0])


def _in_order(accept: str) -> list[str]:
    """The clauses of an Accept header, those of the highest quality first."""
    clauses = accept.split(",")
    return sorted(clauses, key=lambda each: -_quality(each)) if ";q=" in accept.replace(" ", "") else clauses


def _quality(clause: str) -> float:
    given = dict(part.strip().partition("=")[::2] for part in clause.split(";")[1:])
    try:
        return float(given.get("q", "1"))
    except ValueError:
        return 1.0


def _view(clause: str) -> View | None:
    """The form that one clause of an Accept header asks for; None if it cannot be had."""
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
    """The media type of one clause of an Accept header."""
    media = clause.partition(";")[0].strip().lower()
    return {"*/*": JSON, "text/yaml": YAML}.get(media, media)


def check_readable(accept: str) -> None:
    """Check that a client reads a form that documents have.

    Raises:
        ApiFault: it reads none (406).
    """
    if accept and not any(_media(clause) in (*MEDIA, PROTOBUF) for clause in accept.split(",")):
        raise status.not_acceptable((*MEDIA, PROTOBUF))


def negotiate_whole(accept: str) -> View:
    """The form of a review, which has no table and no metadata.

    Raises:
        ApiFault: nothing else is accepted (406).
    """
    plain = [each for each in accept.split(",") if (view := _view(each)) is not None and not view.form]
    if not plain:
        raise status.no_such_form((*MEDIA, PROTOBUF))
    return negotiate(",".join(plain))


def check_form(view: View, group: str, kind: str, *, of_list: bool, is_custom: bool = False) -> None:
    """Check that a form is one of a list, or of an object, as what is there.

    Args:
        view: the form.
        group: of the kind.
        kind: of the object, or of the list.
        of_list: True if there is a list.
        is_custom: True if the kind comes from a definition.

    Raises:
        ApiFault: it is the other one (406).
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
    """The fields that selectors read of every object."""

    metadata: _Metadata


class _Partial(msgspec.Struct):
    """Metadata as it stands in the bytes."""

    metadata: msgspec.Raw


header_of = msgspec.json.Decoder(Header).decode
"""The part of an object's bytes that selectors read."""
_partial_of = msgspec.json.Decoder(_Partial).decode


def partial_object(value: bytes, api_version: str) -> bytes:
    """Stored bytes cut down to a `PartialObjectMetadata`."""
    head = f'{{"kind":"{PARTIAL}","apiVersion":"{api_version}","metadata":'.encode()
    return head + bytes(_partial_of(value).metadata) + b"}"
