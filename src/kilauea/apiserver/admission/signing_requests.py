"""Certificate signing requests: their author, times of their conditions, and permissions to approve and sign."""

from __future__ import annotations

import base64
from typing import Any

from cryptography import x509
from cryptography.x509.oid import NameOID

from kilauea.apiserver.admission import AdmissionStep, forbidden
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.rbac.authorizer import Action
from kilauea.apiserver.request import GROUP_MASTERS

GROUP = "certificates.k8s.io"
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"


class SigningRequestAuthors(AdmissionStep):
    """Records the author of a request and the times of its conditions, and checks permissions."""

    name = "CertificateSigningRequestAuthor"
    kinds = frozenset({("certificates.k8s.io", "certificatesigningrequests")})

    def mutate(self, attributes: Attributes) -> None:
        """Set the author of a new request, and the times of new conditions."""
        obj = attributes.obj
        if obj is None:
            return
        if attributes.operation == "CREATE" and not attributes.subresource:
            _note_author(obj.setdefault("spec", {}), attributes)
        elif attributes.subresource in ("approval", "status"):
            _note_times(obj, attributes.old or {}, attributes.backend.timestamp())

    def validate(self, attributes: Attributes) -> None:
        """Reject approval and signing without the verbs `approve` and `sign` on a signer, and requests for masters."""
        obj, old = attributes.obj or {}, attributes.old or {}
        signer = (obj.get("spec") or {}).get("signerName", "")
        if attributes.operation == "CREATE" and not attributes.subresource:
            if signer == CLIENT_SIGNER and _is_for_masters(obj.get("spec") or {}):
                message = f"use of {CLIENT_SIGNER} signer with {GROUP_MASTERS} group is not allowed"
                raise forbidden(attributes, message)
        elif attributes.subresource == "approval" and not _may(attributes, "approve", signer):
            raise forbidden(attributes, f'user not permitted to approve requests with signerName "{signer}"')
        elif attributes.subresource == "status" and _is_signed(obj, old) and not _may(attributes, "sign", signer):
            raise forbidden(attributes, f'user not permitted to sign requests with signerName "{signer}"')


def _is_signed(obj: dict[str, Any], old: dict[str, Any]) -> bool:
    """Return True if a write changes the certificate or fails the request."""
    new, before = obj.get("status") or {}, old.get("status") or {}
    failed = [
        [each for each in state.get("conditions") or [] if each.get("type") == "Failed"] for state in (new, before)
    ]
    return new.get("certificate") != before.get("certificate") or failed[0] != failed[1]


def signer_names(signer: str) -> tuple[str, str]:
    """Return the names of a signer in roles: its own, and that of all signers of its domain."""
    return signer, f"{signer.partition('/')[0]}/*"


def _may(attributes: Attributes, verb: str, signer: str) -> bool:
    authorizer = attributes.backend.authorizer
    actions = [Action(verb, GROUP, "signers", "", "", name) for name in signer_names(signer)]
    return any(authorizer.reason(attributes.user, action) is not None for action in actions)


def _is_for_masters(spec: dict[str, Any]) -> bool:
    """Return True if a request is for the group `system:masters`."""
    try:
        request = x509.load_pem_x509_csr(base64.b64decode(spec.get("request", "")))
    except ValueError:
        return False
    groups = request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return any(each.value == GROUP_MASTERS for each in groups)


def _note_author(spec: dict[str, Any], attributes: Attributes) -> None:
    user = attributes.user
    for field in ("username", "uid", "groups", "extra"):
        spec.pop(field, None)
    extra = {name: list(values) for name, values in user.extra.items()}
    author = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
    spec.update({field: value for field, value in author.items() if value})


def _note_times(obj: dict[str, Any], old: dict[str, Any], now: str) -> None:
    before = {
        (each.get("type"), each.get("status")): each.get("lastTransitionTime")
        for each in (old.get("status") or {}).get("conditions") or []
    }
    for condition in (obj.get("status") or {}).get("conditions") or []:
        condition["lastUpdateTime"] = condition.get("lastUpdateTime") or now
        known = before.get((condition.get("type"), condition.get("status")))
        condition["lastTransitionTime"] = condition.get("lastTransitionTime") or known or now
