"""The options of lists and watches, the rules for combining them, and the tokens of paged lists."""

from __future__ import annotations

import asyncio
import base64
import binascii
import dataclasses
from dataclasses import dataclass

import msgspec

from kilauea.api.numbers import LARGEST, whole_number
from kilauea.apiserver import status
from kilauea.apiserver.fields import forbidden_field, not_supported
from kilauea.apiserver.rest.call import Call
from kilauea.apiserver.status import Cause
from kilauea.apiserver.syntax_errors import json_syntax_error

EXACT, NOT_OLDER = "Exact", "NotOlderThan"


class _Token(msgspec.Struct):
    """A continue token in the format of the real server."""

    v: str = ""
    rv: int = 0
    start: str = ""


AHEAD_SECONDS = 3.0
"""Seconds for which a list waits for a future revision."""


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The options of a list or watch.

    Attributes:
        revision: None if not given; 0 for any.
        match: `Exact`, `NotOlderThan` or empty.
        limit: 0 for all.
        after_key: the last key of the previous page; empty for the first page.
        at_revision: the revision of the previous pages; 0 for the first page, -1 to continue at the newest revision.
        timeout: seconds after which a watch ends, at once if negative; 0 if not given.
    """

    revision: int | None = None
    match: str = ""
    limit: int = 0
    after_key: str = ""
    at_revision: int = 0
    timeout: int = 0
    bookmarks: bool = False
    initial_events: bool | None = None


def read_options(call: Call) -> ListOptions:
    """Return the options in the query of a call.

    Raises:
        ApiFault: they are malformed or cannot be combined.
    """
    first = call.request.first
    watch = call.info.verb == "watch"
    token, limit = first("continue"), _number(call, "limit")
    options = ListOptions(
        revision=_revision(first("resourceVersion"), watch),
        match=first("resourceVersionMatch"),
        limit=max(limit, 0),
        timeout=_number(call, "timeoutSeconds"),
        bookmarks=call.request.flag("allowWatchBookmarks") is True,
        initial_events=call.request.flag("sendInitialEvents"),
    )
    causes = _watch_rules(options, token) if watch else _list_rules(options, token)
    if causes:
        raise status.invalid("ListOptions", "meta.k8s.io", "", causes)
    if watch:
        return options
    return _continued(options, token, call) if token else _paged(options)


def _paged(options: ListOptions) -> ListOptions:
    """Return the options of a first page: a list at any revision is not paged, a list at a revision is exact."""
    if options.revision == 0:
        return dataclasses.replace(options, limit=0)
    if options.revision and options.limit and not options.match:
        return dataclasses.replace(options, match=EXACT)
    return options


def _number(call: Call, name: str) -> int:
    """Return an integer in the query; 0 if it is missing."""
    text = call.request.first(name)
    try:
        return int(text) if text else 0
    except ValueError:
        raise status.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _revision(text: str, watch: bool) -> int | None:
    """Return a resourceVersion; None if it is missing."""
    if not text:
        return None
    try:
        return revision_of(text)
    except status.ApiFault as fault:  # the real server parses it elsewhere for a list
        raise fault if watch else status.bad_request(f"invalid resource version: {fault}") from None


def revision_of(text: str) -> int:
    """Return a resourceVersion.

    Raises:
        ApiFault: it is invalid; an internal error (500), as in the real server.
    """
    revision = whole_number(text)
    if revision is None or revision == LARGEST:
        why = "invalid syntax" if revision is None else "value out of range"
        message = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": {why}'
        raise status.ApiFault(500, "", message)
    return revision


async def wait_for_revision(call: Call, asked: int) -> None:
    """Wait briefly for a revision that does not exist yet.

    Raises:
        ApiFault: it was not reached in time (504).
    """
    store = call.backend.store
    for _ in range(30):
        if store.revision >= asked:
            return
        await asyncio.sleep(AHEAD_SECONDS / 30)
    raise status.revision_ahead(asked, store.revision)


def _list_rules(options: ListOptions, token: str) -> list[Cause]:
    """Return the errors in the combination of options of a list."""
    causes = []
    match = options.match
    if options.initial_events is not None:
        causes.append(forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if match:
        if options.revision is None:
            causes.append(
                forbidden_field(
                    "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
                )
            )
        if token:
            causes.append(
                forbidden_field("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
            )
        if match not in (EXACT, NOT_OLDER):
            causes.append(not_supported("resourceVersionMatch", match, [EXACT, NOT_OLDER, ""]))
        if match == EXACT and options.revision == 0:
            causes.append(
                forbidden_field(
                    "resourceVersionMatch", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
                )
            )
    return causes


def _watch_rules(options: ListOptions, token: str) -> list[Cause]:
    """Return the errors in the combination of options of a watch."""
    causes = []
    match = options.match
    if options.initial_events is not None and match != NOT_OLDER:
        detail = f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER}"
        causes.append(forbidden_field("resourceVersionMatch", detail))
    if match and options.initial_events is None:
        detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        causes.append(forbidden_field("resourceVersionMatch", detail))
    if match and match != NOT_OLDER:
        causes.append(not_supported("resourceVersionMatch", match, [NOT_OLDER]))
    if token:
        causes.append(
            forbidden_field("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
        )
    return causes


def encode_token(revision: int, key: str, prefix: str) -> str:
    """Return a continue token that continues after a key, at a revision (-1 for the newest)."""
    start = key.removeprefix(prefix) + "\0"
    text = msgspec.json.encode(_Token("meta.k8s.io/v1", revision, start))
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def _continued(options: ListOptions, token: str, call: Call) -> ListOptions:
    """Return the options of a further page."""
    if options.revision:
        raise status.bad_request("specifying resource version is not allowed when using continue")
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise _bad_token("illegal base64 data at input byte 0") from error
    try:
        read = msgspec.json.decode(text, type=_Token)
    except msgspec.DecodeError as error:
        raise _bad_token(json_syntax_error(text, str(error))) from error
    if read.v != "meta.k8s.io/v1":
        raise _bad_token(f"server does not recognize this encoded version {read.v}")
    if read.rv == 0:
        raise _bad_token("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
    if not read.start:
        raise _bad_token("encoded start key empty (version meta.k8s.io/v1)")
    after = call.resource.prefix(call.namespace) + read.start.removesuffix("\0")
    return dataclasses.replace(options, after_key=after, at_revision=read.rv)


def _bad_token(why: str) -> status.ApiFault:
    return status.bad_request(f"invalid continue token: continue key is not valid: {why}")
