"""The rules for certificate signing requests: only their conditions and certificate can change."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence

from cryptography import x509

from kilauea.api.names import label_problems, subdomain_problems
from kilauea.apiserver.fields import duplicate, forbidden_field, invalid_value, not_supported, required, too_long
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, Strategy, keep, spec_of

USAGES = (
    *("any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment"),
    *("decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel"),
    *("ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime"),
    *("server auth", "signing", "timestamping"),
)
LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
SHORTEST_SECONDS = 600
LONGEST_DOMAIN = 253
_NO_REQUEST = "PEM block type must be CERTIFICATE REQUEST"
_FINAL = ("Approved", "Denied", "Failed")
_DECISIONS = ("Approved", "Denied")


class SigningRequests(Strategy):
    """Certificate signing requests, whose author is recorded in admission."""

    has_generation = False
    selectable = ("spec.signerName",)
    name_problems = staticmethod(lambda name: ())
    unowned: Mapping[str, tuple[str, ...]] = {
        "": ("spec", "status"),
        "status": ("spec", "status.conditions"),
        "approval": ("spec", "status.certificate"),
    }

    def prepare_update(self, obj: Object, old: Object) -> None:
        keep(obj, old, "spec")
        keep(obj, old, "status")

    def prepare_part(self, obj: Object, old: Object, subresource: str) -> None:
        """Restore all but the conditions in an approval."""
        conditions = (obj.get("status") or {}).get("conditions")
        obj["status"] = dict(old.get("status") or {})
        if conditions is not None:
            obj["status"]["conditions"] = conditions
        keep(obj, old, "spec")

    def validate(self, obj: Object) -> list[Cause]:
        spec = spec_of(obj)
        problem = request_problem(spec.get("request", ""))
        causes = [invalid_value("spec.request", spec.get("request"), problem)] if problem else []
        causes += _check_usages(spec.get("usages") or [])
        causes += _check_signer("spec.signerName", spec.get("signerName", ""))
        seconds = spec.get("expirationSeconds")
        if seconds is not None and seconds < SHORTEST_SECONDS:
            message = "may not specify a duration less than 600 seconds (10 minutes)"
            causes.append(invalid_value("spec.expirationSeconds", seconds, message))
        return causes + _check_conditions((obj.get("status") or {}).get("conditions") or [])

    def validate_change(self, obj: Object, old: Object) -> list[Cause]:
        """Check nothing, as the specification never changes and was checked when stored."""
        return []

    def validate_part(self, obj: Object, old: Object, subresource: str) -> list[Cause]:
        return _check_conditions((obj.get("status") or {}).get("conditions") or []) + _check_removed(obj, old)

    def validate_status(self, obj: Object, old: Object) -> list[Cause]:
        state, before = obj.get("status") or {}, old.get("status") or {}
        causes = _check_conditions(state.get("conditions") or [])
        new, had = state.get("certificate") or "", before.get("certificate") or ""
        problem = certificate_problem(new) if new and new != had else ""
        if problem:
            causes.append(invalid_value("status.certificate", "<certificate data>", problem))
        causes += _check_removed(obj, old)
        for kind in _DECISIONS:
            count = len(_conditions(obj, kind)) - len(_conditions(old, kind))
            if count > 0:
                message = f'updates may not add a condition of type "{kind}"'
                causes.append(forbidden_field("status.conditions", message))
            elif not count and _conditions(obj, kind) != _conditions(old, kind):
                message = f'updates may not modify a condition of type "{kind}"'
                causes.append(forbidden_field("status.conditions", message))
        if had and new != had:
            causes.append(forbidden_field("status.certificate", "updates may not modify existing certificate content"))
        return causes


def _conditions(obj: Object, kind: str) -> list[Object]:
    return [each for each in (obj.get("status") or {}).get("conditions") or [] if each.get("type") == kind]


def _check_removed(obj: Object, old: Object) -> list[Cause]:
    lost = [kind for kind in _FINAL if len(_conditions(obj, kind)) < len(_conditions(old, kind))]
    return [
        forbidden_field("status.conditions", f'updates may not remove a condition of type "{each}"') for each in lost
    ]


def _check_conditions(conditions: list[Object]) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for number, condition in enumerate(conditions):
        path, kind, value = f"status.conditions[{number}]", condition.get("type", ""), condition.get("status", "")
        allowed = ("True",) if kind in _FINAL else ("False", "True", "Unknown")
        if not kind:
            causes.append(required(f"{path}.type"))
        if not value:
            causes.append(required(f"{path}.status"))
        elif value not in allowed:
            causes.append(not_supported(f"{path}.status", value, allowed))
        if kind in _DECISIONS and seen & ({*_DECISIONS} - {kind}):
            message = "Approved and Denied conditions are mutually exclusive"
            causes.append(invalid_value("status.conditions", kind, message))
        if kind in seen:
            causes.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
    return causes


def _check_usages(usages: list[str]) -> list[Cause]:
    causes = [] if usages else [required("spec.usages")]
    unknown = [(number, each) for number, each in enumerate(usages) if each not in USAGES]
    causes += [not_supported(f"spec.usages[{number}]", each, USAGES) for number, each in unknown]
    again = [(number, each) for number, each in enumerate(usages) if each in usages[:number]]
    return causes + [duplicate(f"spec.usages[{number}]", each) for number, each in again]


def _check_signer(path: str, name: str) -> list[Cause]:
    """Check that the name of a signer is a domain and a path."""
    if not name:
        return [required(path)]
    if name == LEGACY_SIGNER:
        return [invalid_value(path, name, "the legacy signerName is not allowed via this API version")]
    domain, slash, rest = name.partition("/")
    if not slash or "/" in rest:
        message = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid_value(path, name, message)]
    causes = [too_long(path, LONGEST_DOMAIN)] if len(domain) > LONGEST_DOMAIN else []
    causes += _check_parts(path, domain, label_problems)
    if "." not in domain:
        causes.append(invalid_value(path, domain, "should be a domain with at least two segments separated by dots"))
    return causes + _check_parts(path, rest, subdomain_problems)


def _check_parts(path: str, text: str, problems: Callable[[str], Sequence[str]]) -> list[Cause]:
    """Return the errors in the first part of a text that has some; parts are separated by dots."""
    for part in text.split("."):
        if found := problems(part):
            return [invalid_value(path, text, f'validating label "{part}": {each}') for each in found]
    return []


def request_problem(text: str) -> str:
    """Return the error in a request in base64; empty if it can be parsed and is signed with its own key."""
    try:
        content = base64.b64decode(text)
    except (binascii.Error, ValueError):
        content = b""
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in content and b"-----BEGIN NEW CERTIFICATE REQUEST-" not in content:
        return _NO_REQUEST
    try:
        request = x509.load_pem_x509_csr(content)
        return "" if request.is_signature_valid else "the signature is invalid"
    except Exception as error:  # the library raises many types of errors
        return _NO_REQUEST if "PEM" in str(error) else str(error) or "malformed request"


def certificate_problem(text: str) -> str:
    """Return the error in certificates in base64; empty if they can be parsed."""
    try:
        content = base64.b64decode(text)
    except (binascii.Error, ValueError):
        content = b""
    if b"-----BEGIN CERTIFICATE-----" not in content:
        return "must contain at least one CERTIFICATE PEM block"
    try:
        x509.load_pem_x509_certificates(content)
    except ValueError as error:
        return str(error)
    return ""
