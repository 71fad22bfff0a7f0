"""The rules of webhook configurations."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from kilauea.api.names import subdomain_problems
from kilauea.apiserver.deferred import causes_of
from kilauea.apiserver.fields import invalid_value, not_supported, required
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, Strategy
from kilauea.apiserver.strategies.expressions import conditions_problems, weight_of

Raw = Mapping[str, Any]
OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
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
            causes.append(Cause(f"{path}.name", "FieldValueDuplicate", f'Duplicate value: "{name}"'))
        names.add(name)
    return causes


def _webhook(webhook: Raw, path: str) -> Iterator[Cause]:
    name = webhook.get("name") or ""
    if not name:
        yield required(f"{path}.name")
    else:
        yield from (invalid_value(f"{path}.name", name, each) for each in subdomain_problems(name))
        if name.count(".") < 2:
            message = "should be a domain with at least three segments separated by dots"
            yield invalid_value(f"{path}.name", name, message)
    versions = webhook.get("admissionReviewVersions") or []
    if not versions:
        yield required(f"{path}.admissionReviewVersions", f"must specify one of {', '.join(VERSIONS)}")
    elif not set(versions) & set(VERSIONS):
        message = f"must include at least one of {', '.join(VERSIONS)}"
        yield invalid_value(f"{path}.admissionReviewVersions", versions, message)
    for number, rule in enumerate(webhook.get("rules") or ()):
        yield from check_operations(rule, f"{path}.rules[{number}]")
    yield from _options(webhook, path)
    yield from _client(webhook.get("clientConfig") or {}, f"{path}.clientConfig")
    yield from conditions_problems(webhook.get("matchConditions") or (), f"{path}.matchConditions")


def _options(webhook: Raw, path: str) -> Iterator[Cause]:
    for field, allowed in (
        ("failurePolicy", ("Fail", "Ignore")),
        ("matchPolicy", ("Equivalent", "Exact")),
        ("sideEffects", ("None", "NoneOnDryRun")),
        ("reinvocationPolicy", ("IfNeeded", "Never")),
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


def check_operations(rule: Raw, path: str) -> Iterator[Cause]:
    """The errors in a rule about the writes that a webhook or policy is asked about."""
    operations = rule.get("operations") or []
    if not operations:
        yield required(f"{path}.operations")
    if len(operations) > 1 and "*" in operations:
        message = "if '*' is present, must not specify other operations"
        yield invalid_value(f"{path}.operations", operations, message)
    for number, operation in enumerate(operations):
        if operation not in OPERATIONS:
            yield not_supported(f"{path}.operations[{number}]", operation, OPERATIONS)
    for field in ("apiGroups", "apiVersions", "resources"):
        if not rule.get(field):
            yield required(f"{path}.{field}")
    if (rule.get("scope") or "*") not in ("*", "Cluster", "Namespaced"):
        yield not_supported(f"{path}.scope", rule["scope"], ("*", "Cluster", "Namespaced"))


def _client(config: Raw, path: str) -> Iterator[Cause]:
    url, service = config.get("url"), config.get("service")
    if (url is None) is (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _url(url, f"{path}.url")
    else:
        for field in ("name", "namespace"):
            if not (service or {}).get(field):
                yield required(f"{path}.service.{field}")
    try:
        base64.b64decode(config.get("caBundle") or "", validate=True)
    except binascii.Error as error:
        yield invalid_value(f"{path}.caBundle", config["caBundle"], str(error))


def _url(url: str, path: str) -> Iterator[Cause]:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        yield required(path, f"url must be a valid URL: {error}{_FORM}")
        return
    if parts.scheme != "https":
        yield invalid_value(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    if not parts.hostname:
        yield invalid_value(path, parts.netloc, f"host must be specified{_FORM}")
    if parts.username:
        yield invalid_value(path, parts.username, f"user information is not permitted in the URL{_FORM}")
    if parts.fragment:
        yield invalid_value(path, parts.fragment, f"fragments are not permitted in the URL{_FORM}")
    if parts.query:
        yield invalid_value(path, parts.query, f"query parameters are not permitted in the URL{_FORM}")
