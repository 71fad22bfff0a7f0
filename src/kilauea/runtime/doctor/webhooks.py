"""The check of the webhooks: the API server can reach them, and trusts their certificate."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cryptography import x509

from kilauea.api.kinds import ENDPOINT_SLICES, MUTATING_WEBHOOKS, SERVICES, VALIDATING_WEBHOOKS
from kilauea.api.ports import Key, Obj
from kilauea.api.times import SECOND
from kilauea.pki import outlasts, signed_by
from kilauea.runtime.doctor.facts import Facts, name_of
from kilauea.runtime.doctor.findings import ERROR, WARNING, Check, Finding, check_of, unread
from kilauea.runtime.doctor.installation import WEBHOOKS, components

PREFIX = "volcano-admission-service"
"""Beginning of the names of Volcano's webhook configurations."""
SECRET = "volcano-admission-secret"
"""Secret with the certificate of the webhooks, in the namespace of their service."""
CERTIFICATE, AUTHORITY = "tls.crt", "ca.crt"
SOON_DAYS = 7
RESTART = "restart the webhooks, which write it, and check their log: `kubectl -n {0} rollout restart deployment`"
NO_WEBHOOKS = "none: objects are validated and defaulted only by `kilauea up`, which needs no webhooks"


def configurations(facts: Facts) -> list[Obj]:
    """Return the webhook configurations of Volcano."""
    found = [*facts.all(MUTATING_WEBHOOKS), *facts.all(VALIDATING_WEBHOOKS)]
    return [each for each in found if each["metadata"]["name"].startswith(PREFIX)]


def secrets_to_read(facts: Facts) -> list[Key]:
    """Return the Secrets with the certificates of the webhooks."""
    namespaces = {service.namespace for each in configurations(facts) for service in _services(each)}
    return [_secret(facts, namespace) for namespace in sorted(namespaces)]


def _secret(facts: Facts, namespace: str) -> Key:
    """Return the Secret of the webhooks in a namespace, under the name that their Deployment has."""
    for each in components(facts):
        if each.part == WEBHOOKS and each.key.namespace == namespace:
            return Key(namespace, each.values("tls-secret-name", [SECRET])[-1])
    return Key(namespace, SECRET)


def _services(configuration: Obj) -> Iterator[Key]:
    for webhook in configuration.get("webhooks") or ():
        service = webhook["clientConfig"].get("service")
        if service:
            yield Key(service["namespace"], service["name"])


def check_webhooks(facts: Facts) -> Check:
    """Check the webhook configurations."""
    refused = [facts.refused[kind] for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS) if kind in facts.refused]
    if refused:
        fix = "grant your user list on mutatingwebhookconfigurations and validatingwebhookconfigurations"
        return check_of("webhooks", "", [unread("webhook configurations", refused[0], fix)])
    found = configurations(facts)
    findings = [
        finding
        for each in found
        for webhook in each.get("webhooks") or ()
        for finding in _findings(facts, each, webhook)
    ]
    words = f"{len(found)} configurations" if found else NO_WEBHOOKS
    return check_of("webhooks", words, _once(findings))


def _once(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield findings, those about one object and field once."""
    said = set()
    for each in findings:
        if (each.object, each.field) not in said:
            said.add((each.object, each.field))
            yield each


def _findings(facts: Facts, configuration: Obj, webhook: Mapping[str, Any]) -> Iterator[Finding]:
    client = webhook["clientConfig"]
    severity = ERROR if webhook.get("failurePolicy", "Fail") == "Fail" else WARNING
    service = client.get("service")
    if service:
        yield from _service(facts, Key(service["namespace"], service["name"]), configuration, severity)
    yield from _bundle(facts, configuration, webhook, severity)


def _service(facts: Facts, key: Key, configuration: Obj, severity: str) -> Iterator[Finding]:
    if SERVICES in facts.refused:
        return
    where, consequence = f"Service {key}", _consequence(severity)
    if not any(_key(each) == key for each in facts.all(SERVICES)):
        message = f"the service of the webhooks does not exist, so {consequence}"
        kind = "mutatingwebhookconfiguration,validatingwebhookconfiguration"
        fix = f"install the webhooks, or delete their configurations: `kubectl delete {kind} NAME` for each {PREFIX}-*"
        yield Finding(severity, where, "", "", message, f"{fix} (the first is {name_of(configuration)})")
    elif ENDPOINT_SLICES not in facts.refused and not _has_endpoints(facts, key):
        message = f"no pod of the webhooks is ready, so {consequence}"
        fix = f"check its pods: `kubectl -n {key.namespace} get pods` and `kubectl -n {key.namespace} describe "
        yield Finding(severity, where, "spec.selector", "", message, f"{fix}service {key.name}`")


def _consequence(severity: str) -> str:
    return "objects are refused" if severity == ERROR else "pods are admitted unchecked"


def _key(obj: Obj) -> Key:
    return Key(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def _has_endpoints(facts: Facts, service: Key) -> bool:
    for each in facts.all(ENDPOINT_SLICES):
        metadata = each["metadata"]
        if metadata["namespace"] != service.namespace:
            continue
        if (metadata.get("labels") or {}).get("kubernetes.io/service-name") == service.name:
            endpoints = each.get("endpoints") or ()
            if any((endpoint.get("conditions") or {}).get("ready") is not False for endpoint in endpoints):
                return True
    return False


# --- the certificate


def _bundle(facts: Facts, configuration: Obj, webhook: Mapping[str, Any], severity: str) -> Iterator[Finding]:
    """Yield the problems of the authorities that a configuration trusts."""
    where, field = name_of(configuration), "webhooks[].clientConfig.caBundle"
    text = webhook["clientConfig"].get("caBundle") or ""
    service = webhook["clientConfig"].get("service") or {}
    fix = RESTART.format(service.get("namespace") or "NAMESPACE")
    consequence = _consequence(severity)
    if not text:
        message = f"it does not trust any authority for its webhooks, so {consequence}"
        yield Finding(severity, where, field, "", message, fix)
        return
    try:
        authorities = x509.load_pem_x509_certificates(base64.b64decode(text))
    except ValueError:
        message = f"its bundle is not a list of certificates, so {consequence}"
        yield Finding(severity, where, field, "", message, fix)
        return
    now = datetime.datetime.fromtimestamp(facts.now / SECOND, datetime.UTC)
    newest = max(each.not_valid_after_utc for each in authorities)
    if newest <= now:
        message = f"its authorities have expired, so {consequence}"
        yield Finding(severity, where, field, f"expired {newest:%Y-%m-%d}", message, fix)
    elif (newest - now).days < SOON_DAYS:
        message = f"its authorities expire soon; then {consequence}"
        yield Finding(WARNING, where, field, f"expires {newest:%Y-%m-%d}", message, fix)
    if service:
        yield from _certificate(facts, _secret(facts, service["namespace"]), authorities, where, severity, now)


def _certificate(
    facts: Facts,
    key: Key,
    authorities: Sequence[x509.Certificate],
    where: str,
    severity: str,
    now: datetime.datetime,
) -> Iterator[Finding]:
    """Yield the problems of the certificate in the Secret of the webhooks."""
    secret = facts.secrets.get(key)
    text = ((secret or {}).get("data") or {}).get(CERTIFICATE)
    if not text:
        return
    try:
        certificate = x509.load_pem_x509_certificate(base64.b64decode(text))
    except ValueError:
        message = "the certificate of the webhooks is not PEM"
        fix = f"let the webhooks issue a new one: `kubectl -n {key.namespace} delete secret {key.name}`"
        yield Finding(severity, f"Secret {key}", f"data[{CERTIFICATE}]", "", message, fix)
        return
    renew = RESTART.format(key.namespace)
    if not outlasts(certificate, now, 0):
        message = f"the certificate of the webhooks has expired, so {_consequence(severity)}"
        value = f"expired {certificate.not_valid_after_utc:%Y-%m-%d}"
        yield Finding(severity, f"Secret {key}", f"data[{CERTIFICATE}]", value, message, renew)
    if not any(signed_by(certificate, authority) for authority in authorities):
        message = f"it does not trust the authority of the webhooks' certificate, so {_consequence(severity)}"
        issuer = certificate.issuer.rfc4514_string()
        yield Finding(severity, where, "webhooks[].clientConfig.caBundle", f"issuer {issuer}", message, renew)
