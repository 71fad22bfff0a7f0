"""The rules of webhook configurations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kilauea.api.names import subdomain_problems
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
from kilauea.apiserver.strategies.webhook_clients import VERSIONS, check_client, check_versions

Raw = Mapping[str, Any]
LONGEST_TIMEOUT = 30


class WebhookConfigurations(Strategy):
    """Webhook configurations, which have a generation and no status."""

    unconditional_update = False
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
        if name and name in names:
            causes.append(duplicate(f"{path}.name", name))
        names.add(name)
    return causes


def _webhook(webhook: Raw, path: str) -> Iterator[Cause]:
    name = webhook.get("name") or ""
    if not name:
        yield required(f"{path}.name")
    else:
        problems = subdomain_problems(name)
        yield from check_name(f"{path}.name", name, problems)
        if name.count(".") < 2 and not problems:
            message = "should be a domain with at least three segments separated by dots"
            yield invalid_value(f"{path}.name", name, message)
    for number, rule in enumerate(webhook.get("rules") or ()):
        yield from check_rule(rule, f"{path}.rules[{number}]")
    yield from _options(webhook, path)
    for field in ("namespaceSelector", "objectSelector"):
        yield from check_label_selector(f"{path}.{field}", webhook.get(field) or {})
    yield from check_word(f"{path}.reinvocationPolicy", webhook.get("reinvocationPolicy"), ("IfNeeded", "Never"))
    yield from check_client(webhook.get("clientConfig") or {}, f"{path}.clientConfig")
    yield from conditions_problems(webhook.get("matchConditions") or (), f"{path}.matchConditions")
    versions, where = webhook.get("admissionReviewVersions") or [], f"{path}.admissionReviewVersions"
    yield from check_versions(versions, where, f"must specify one of {', '.join(VERSIONS)}")


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
