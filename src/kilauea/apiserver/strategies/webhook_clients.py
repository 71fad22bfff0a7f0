"""Checks of the client configurations of webhooks, for admission and conversion."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from kilauea.api.names import service_name_problems, subdomain_problems
from kilauea.apiserver.fields import check_name, invalid_value, required
from kilauea.apiserver.go_json import go_json
from kilauea.apiserver.status import Cause

Raw = Mapping[str, Any]
VERSIONS = ("v1", "v1beta1")
_FORM = "; desired format: https://host[/path]"

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:(.*)", re.DOTALL)
_NOT_IN_HOST = re.compile(r"[ {}|\\^`]")
_PORT = re.compile(r":([^:\]]*)$")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2}).{0,2}")


def check_versions(versions: Sequence[str], path: str, missing: str = "") -> Iterator[Cause]:
    """Yield the errors in the review versions of a webhook; `missing` is the message if it has none."""
    if not versions:
        yield required(path, missing)
        return
    for number, version in enumerate(versions):
        if version in versions[:number]:
            yield invalid_value(f"{path}[{number}]", version, "duplicate version")
        else:
            yield from check_name(f"{path}[{number}]", version, service_name_problems(version))
    if not set(versions) & set(VERSIONS):
        yield invalid_value(path, versions, f"must include at least one of {', '.join(VERSIONS)}")


def check_client(config: Raw, path: str) -> Iterator[Cause]:
    """Yield the errors in the address of a webhook."""
    url, service = config.get("url"), config.get("service")
    if (url is None) is (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _url(url, f"{path}.url")
    else:
        yield from check_service(service or {}, f"{path}.service")
    try:
        base64.b64decode(config.get("caBundle") or "", validate=True)
    except binascii.Error as error:
        yield invalid_value(f"{path}.caBundle", config["caBundle"], str(error))


def check_service(service: Raw, path: str) -> Iterator[Cause]:
    """Yield the errors in the service of a webhook."""
    for field, told in (("namespace", "name"), ("name", "namespace")):
        if not service.get(field):
            yield required(f"{path}.{told}")  # the real server swaps the two
    port, place = service.get("port"), service.get("path")
    if port is not None and not 1 <= port <= 65535:
        yield invalid_value(f"{path}.port", port, "port is not valid: must be between 1 and 65535, inclusive")
    if place == "//":
        yield invalid_value(f"{path}.path", place, "segment[0] may not be empty")
    elif place and place != "/":
        if not place.startswith("/"):
            yield invalid_value(f"{path}.path", place, "must start with a '/'")
        for number, segment in enumerate(place[1:].removesuffix("/").split("/")):
            if not segment:
                yield invalid_value(f"{path}.path", place, f"segment[{number}] may not be empty")
            for each in subdomain_problems(segment) if segment else ():
                yield invalid_value(f"{path}.path", place, f"segment[{number}]: {each}")


def _url(url: str, path: str) -> Iterator[Cause]:
    try:
        if problem := url_problem(url):
            raise ValueError(problem)
        parts = urlsplit(url)
    except ValueError as error:
        yield required(path, f"url must be a valid URL: parse {go_json(url)}: {error}{_FORM}")
        return
    if parts.scheme != "https":
        yield invalid_value(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    if not parts.hostname:
        yield invalid_value(path, "", f"host must be specified{_FORM}")
    if "@" in parts.netloc:
        yield invalid_value(path, parts.netloc.rpartition("@")[0], "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid_value(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid_value(path, parts.query, "query parameters are not permitted in the URL")


def url_problem(url: str) -> str:
    """Return the reason why Go does not parse a URL; empty if it does."""
    if _CONTROL.search(url):
        return "net/url: invalid control character in URL"
    scheme = _SCHEME.match(url)
    if scheme is None:
        if url.startswith(":"):
            return "missing protocol scheme"
        return "first path segment in URL cannot contain colon" if ":" in url.partition("/")[0] else ""
    if not scheme[1].startswith("//"):
        return ""
    authority, slash, place = re.split(r"[?#]", scheme[1][2:], maxsplit=1)[0].partition("/")
    host = authority.rpartition("@")[2]
    if (wrong := _NOT_IN_HOST.search(host)) is not None:
        return f"invalid character {go_json(wrong[0])} in host name"
    if (port := _PORT.search(host)) is not None and not port[1].isdecimal() and port[1]:
        return f"invalid port {go_json(':' + port[1])} after host"
    if (escape := _BAD_ESCAPE.search(slash + place)) is not None:
        return f"invalid URL escape {go_json(escape[0])}"
    return ""
