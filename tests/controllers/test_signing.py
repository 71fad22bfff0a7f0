"""Approved requests for certificates are signed; those that break the rules of their signer fail."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable, Sequence

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kilauea.api.kinds import SIGNING_REQUESTS
from kilauea.controllers.signing import CLIENT, KUBELET_CLIENT, SigningController
from kilauea.pki import Authority, signed_by
from support.controlled import Cluster

START = datetime.datetime(2023, 11, 1, tzinfo=datetime.UTC)
AUTHORITY = Authority.create("test", START)
USAGES = ("digital signature", "client auth")


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    return cluster_of(SigningController(AUTHORITY.sign))


def ask(
    cluster: Cluster, name: str, organization: str, *, signer: str = CLIENT, usages: Sequence[str] = USAGES
) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization), x509.NameAttribute(NameOID.COMMON_NAME, name)]
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(key, hashes.SHA256())
    text = base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()
    spec = {"signerName": signer, "usages": list(usages), "request": text, "expirationSeconds": 3600}
    cluster.create(SIGNING_REQUESTS, {"metadata": {"name": "r"}, "spec": spec})
    cluster.settle()
    return key


def approve(cluster: Cluster, verdict: str = "Approved") -> None:
    condition = {"type": verdict, "status": "True", "reason": "Test", "message": "by a test"}
    cluster.patch(SIGNING_REQUESTS, "r", {"status": {"conditions": [condition]}}, subresource="approval")
    cluster.settle()


def certificate(cluster: Cluster) -> str:
    return str(cluster.get(SIGNING_REQUESTS, "r")["status"].get("certificate", ""))


def test_an_approved_request_gets_a_certificate_of_the_authority_for_its_time(cluster: Cluster) -> None:
    key = ask(cluster, "jane", "team")
    assert certificate(cluster) == ""
    approve(cluster)
    issued = x509.load_pem_x509_certificate(base64.b64decode(certificate(cluster)))
    assert signed_by(issued, AUTHORITY.certificate)
    assert issued.subject.rfc4514_string() == "CN=jane,O=team"
    assert issued.public_key() == key.public_key()
    assert issued.not_valid_after_utc - issued.not_valid_before_utc == datetime.timedelta(hours=1, minutes=5)


def test_a_denied_request_is_not_signed(cluster: Cluster) -> None:
    ask(cluster, "jane", "team")
    approve(cluster, "Denied")
    assert certificate(cluster) == ""


def test_requests_of_other_signers_are_left_to_them(cluster: Cluster) -> None:
    ask(cluster, "jane", "team", signer="example.com/own")
    approve(cluster)
    assert certificate(cluster) == ""
    assert len(cluster.get(SIGNING_REQUESTS, "r")["status"]["conditions"]) == 1


@pytest.mark.parametrize(
    ("name", "organization", "signer", "usages", "message"),
    [
        ("jane", "team", CLIENT, ("client auth", "server auth"), "usages did not match"),
        ("jane", "team", CLIENT, ("digital signature",), "usages did not match"),
        ("system:node:a", "team", KUBELET_CLIENT, USAGES, "subject organization is not system:nodes"),
        ("jane", "system:nodes", KUBELET_CLIENT, USAGES, "subject common name does not begin with system:node:"),
    ],
)
def test_a_request_that_breaks_the_rules_of_its_signer_fails(
    cluster: Cluster, name: str, organization: str, signer: str, usages: Sequence[str], message: str
) -> None:
    ask(cluster, name, organization, signer=signer, usages=usages)
    approve(cluster)
    conditions = {each["type"]: each for each in cluster.get(SIGNING_REQUESTS, "r")["status"]["conditions"]}
    assert message in conditions["Failed"]["message"]
    assert certificate(cluster) == ""
