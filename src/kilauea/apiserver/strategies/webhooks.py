"""The rules of webhook configurations."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from kilauea.api.names import service_name_problems, subdomain_problems
from kilauea.apiserver.deferred import causes_of
from kilauea.apiserver.fields import (
    check_label_selector,
    check_name,
    check_word,
    duplicate,
    invalid_value,
    not_supported,
    required,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.admission_rules import MATCH_POLICIES, check_rule
from kilauea.apiserver.strategies.base import Object, Strategy
from kilauea.apiserver.strategies.expressions import conditions_problems, weight_of

Raw = Mapping[str, Any]
VERSIONS = ("v1", "v1beta1")
LONGEST_TIMEOUT = 30
_FORM = "; desired format: https://host[/path]"


class WebhookConfigurations(Strategy):
    """Webhook configurations: they have a generation and no status."""

    has_status = False

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in the webhooks of a configuration."""
        return causes_of("webhooks", check_webhooks, {"webhooks": obj.get("webhooks")}, weight=weight_of(obj))


def check_webhooks(obj: Object) -> list[Cause]:
    """Return the errors in the webhooks of a configuration."""
    causes: list[Cause] = []
    names: set[str] = set()
    for number, webhook in enumerate(obj.get("webhooks") or ()):
        path = f"webhooks[{number}]"
        causes += _webhook(webhook, path)
        name = webhook.get("name") or ""
        if name in names:
            causes.append(duplicate(f"{path}.name", name))
        names.add(name)
    return causes


def _webhook(webhook: Raw, path: str) -> Iterator[Cause]:
    name = webhook.get("name") or ""
    if not name:
        yield required(f"{path}.name")
    else:
        yield from check_name(f"{path}.name", name, subdomain_problems(name))
        if name.count(".") < 2:
            message = "should be a domain with at least three segments separated by dots"
            yield invalid_value(f"{path}.name", name, message)
    for number, rule in enumerate(webhook.get("rules") or ()):
        yield from check_rule(rule, f"{path}.rules[{number}]")
    yield from _options(webhook, path)
    for field in ("namespaceSelector", "objectSelector"):
        yield from check_label_selector(f"{path}.{field}", webhook.get(field) or {})
    yield from check_word(f"{path}.reinvocationPolicy", webhook.get("reinvocationPolicy"), ("IfNeeded", "Never"))
    yield from _client(webhook.get("clientConfig") or {}, f"{path}.clientConfig")
    yield from conditions_problems(webhook.get("matchConditions") or (), f"{path}.matchConditions")
    yield from _versions(webhook.get("admissionReviewVersions") or [], f"{path}.admissionReviewVersions")


def _versions(versions: Sequence[str], path: str) -> Iterator[Cause]:
    if not versions:
        yield required(path, f"must specify one of {', '.join(VERSIONS)}")
        return
    for number, version in enumerate(versions):
        if version in versions[:number]:
            yield invalid_value(f"{path}[{number}]", version, "duplicate version")
        else:
            yield from check_name(f"{path}[{number}]", version, service_name_problems(version))
    if not set(versions) & set(VERSIONS):
        yield invalid_value(path, versions, f"must include at least one of {', '.join(VERSIONS)}")


def _options(webhook: Raw, path: str) -> Iterator[Cause]:
    for field, allowed in (
        ("failurePolicy", ("Fail", "Ignore")),
        ("matchPolicy", MATCH_POLICIES),
        ("sideEffects", ("None", "NoneOnDryRun")),
    ):
        value = webhook.get(field)
        if value is None and field == "sideEffects":
            yield required(f"{path}.{field}", f"must specify one of {', '.join(allowed)}")
        elif value is not None and value not in allowed:
            yield not_supported(f"{path}.{field}", value, allowed)
    seconds = webhook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= LONGEST_TIMEOUT:
        message = "the timeout value must be between 1 and 30 seconds"
        yield invalid_value(f"{path}.timeoutSeconds", seconds, message)


def _client(config: Raw, path: str) -> Iterator[Cause]:
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
    """The errors in a service that webhooks are called at."""
    yield from (required(f"{path}.{field}") for field in ("name", "namespace") if not service.get(field))
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
        parts = urlsplit(url)
        if url.startswith(":"):
            raise ValueError(f'parse "{url}": missing protocol scheme')
    except ValueError as error:
        yield required(path, f"url must be a valid URL: {error}{_FORM}")
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
