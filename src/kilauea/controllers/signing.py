"""Certificate signing requests: the cluster's authority signs approved ones, for Kubernetes' own signers.

The rules are those of Kubernetes: a signer accepts certain usages and subjects. A request that violates them fails with
the reason. Requests for other signers are ignored.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kilauea.api.kinds import SIGNING_REQUESTS
from kilauea.api.ports import Interest, Key, Obj, Operation, Outcome, View
from kilauea.api.times import SECOND, format_time
from kilauea.controllers.objects import NOTHING, condition_of, is_going, own_key, spec_of, status_of, status_patch

if TYPE_CHECKING:
    from cryptography import x509

Sign = Callable[[bytes, Sequence[str], int, int], bytes]
"""Sign a request (PEM) for usages, from a time (seconds since 1970), for some seconds; returns the certificate."""

CLIENT, KUBELET_CLIENT, KUBELET_SERVING = (
    f"kubernetes.io/{each}" for each in ("kube-apiserver-client", "kube-apiserver-client-kubelet", "kubelet-serving")
)
_NEEDED = {CLIENT: "client auth", KUBELET_CLIENT: "client auth", KUBELET_SERVING: "server auth"}
"""The required usage for each signer."""
_ALLOWED = {"digital signature", "key encipherment"}
LONGEST_SECONDS = 365 * 24 * 3600


class SigningController:
    """Signs approved requests.

    Args:
        sign: the authority.
    """

    name = "certificatesigningrequest-signing-controller"
    interests = (Interest(SIGNING_REQUESTS, own_key),)

    def __init__(self, sign: Sign) -> None:
        self._sign = sign

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Sign a request, or report why it cannot be signed."""
        request = view.get(SIGNING_REQUESTS, key)
        if request is None or is_going(request) or not _waits(request):
            return NOTHING
        spec = spec_of(request)
        text = base64.b64decode(spec["request"])
        problem = refusal(spec["signerName"], spec.get("usages") or (), text)
        if problem:
            return Outcome(_failed(request, problem, now))
        seconds = min(spec.get("expirationSeconds") or LONGEST_SECONDS, LONGEST_SECONDS)
        certificate = self._sign(text, spec["usages"], now // SECOND, seconds)
        return Outcome(
            status_patch(SIGNING_REQUESTS, request, {"certificate": base64.b64encode(certificate).decode()}, safe=True)
        )


def _waits(request: Obj) -> bool:
    """Return True if a request is approved and has no certificate yet."""
    if spec_of(request).get("signerName") not in _NEEDED or status_of(request).get("certificate"):
        return False
    ended = condition_of(request, "Denied") or condition_of(request, "Failed")
    return condition_of(request, "Approved") is not None and ended is None


def _failed(request: Obj, problem: str, now: int) -> list[Operation]:
    stamp = format_time(now)
    condition = {
        "type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": problem,
        "lastUpdateTime": stamp, "lastTransitionTime": stamp,
    }  # fmt: skip
    conditions = [*(status_of(request).get("conditions") or ()), condition]
    return [*status_patch(SIGNING_REQUESTS, request, {"conditions": conditions}, safe=True)]


def refusal(signer: str, usages: Sequence[str], text: bytes) -> str:
    """Return the reason why a signer does not sign a request (PEM); empty if it does."""
    needed = _NEEDED[signer]
    if needed not in usages or {*usages} - {needed, *_ALLOWED}:
        return f"usages did not match: [{' '.join(usages)}]: {signer} signs [{needed}] with {sorted(_ALLOWED)}"
    from cryptography import x509  # noqa: PLC0415 - needed in few clusters, and slow to import

    try:
        request = x509.load_pem_x509_csr(text)
    except ValueError as error:
        return f"unable to parse csr: {error}"
    if signer == CLIENT:
        return ""
    return _node_refusal(request)


def _node_refusal(request: x509.CertificateSigningRequest) -> str:
    """The reason why the subject is not that of a kubelet: its node, in the group of nodes."""
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    groups = [each.value for each in request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    names = [str(each.value) for each in request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if groups != ["system:nodes"]:
        return "subject organization is not system:nodes"
    if len(names) != 1 or not names[0].startswith("system:node:"):
        return "subject common name does not begin with system:node:"
    return ""
