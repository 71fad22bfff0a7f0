"""Requests for certificates: who asks, and when conditions changed."""

from __future__ import annotations

from typing import Any

from kilauea.apiserver.admission import AdmissionStep, Attributes


class SigningRequestAuthors(AdmissionStep):
    """Notes the author of a request, and the times of its conditions."""

    name = "CertificateSigningRequestAuthor"
    kinds = frozenset({("certificates.k8s.io", "certificatesigningrequests")})

    def mutate(self, attributes: Attributes) -> None:
        """Write who asks into a new request; write times into new conditions."""
        obj = attributes.obj
        if obj is None:
            return
        if attributes.operation == "CREATE" and not attributes.subresource:
            _note_author(obj.setdefault("spec", {}), attributes)
        elif attributes.subresource in ("approval", "status"):
            _note_times(obj, attributes.old or {}, attributes.backend.timestamp())


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
