"""Tokens of service accounts: signed with a key of the server, valid for a limited time and while the account exists.

They are JSON web tokens with the claims of Kubernetes, on which clients may rely. A token may be bound to a pod or
secret, and becomes invalid with its deletion.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from kilauea.api.remembered import remembered
from kilauea.api.times import SECOND
from kilauea.apiserver.rbac.impersonation import account_groups
from kilauea.apiserver.request import GROUP_AUTHENTICATED, User
from kilauea.apiserver.storage import Store

AUDIENCE = "https://kubernetes.default.svc"
"""The issuer and the default audience, as in every cluster."""
_BOUND = {"Pod": "pods", "Secret": "secrets"}
_WIDTH = 32
"""Bytes of each half of a signature."""


class AccountTokens:
    """Issues and verifies tokens."""

    def __init__(self, key: bytes, store: Store, now: Callable[[], int]) -> None:
        """Create an issuer of tokens.

        Args:
            key: a private key of the curve P-256 as PEM.
            store: the store of the accounts.
            now: returns microseconds since 1970.

        Raises:
            ValueError: the key is invalid.
        """
        loaded = serialization.load_pem_private_key(key, None)
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise ValueError("is not an elliptic curve key")
        self._key = loaded
        self._store = store
        self._now = now
        public = loaded.public_key()
        info = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        numbers = public.public_numbers()
        self.key_set: list[dict[str, str]] = [
            {
                "use": "sig",
                "kty": "EC",
                "kid": _encoded(hashlib.sha256(info).digest()),
                "crv": "P-256",
                "alg": "ES256",
                "x": _encoded(numbers.x.to_bytes(_WIDTH)),
                "y": _encoded(numbers.y.to_bytes(_WIDTH)),
            }
        ]
        """The public key as a JSON web key, with which others can verify tokens."""
        self._claims = remembered(1024, 4096)(self._verified)

    def issue(
        self,
        account: Mapping[str, Any],
        audiences: Sequence[str],
        seconds: int,
        identity: str,
        bound: Mapping[str, Any] | None = None,
    ) -> str:
        """Issue a token.

        Args:
            account: the metadata of the service account.
            audiences: the intended audiences.
            seconds: the validity in seconds.
            identity: a UID for the token itself.
            bound: kind, name and UID of the object that it is bound to; for a pod on a node, `node` has that node's
            name and UID.
        """
        now = self._now() // SECOND
        namespace, name = account["namespace"], account["name"]
        about: dict[str, Any] = {"namespace": namespace, "serviceaccount": {"name": name, "uid": account["uid"]}}
        if bound is not None:
            about[bound["kind"].lower()] = {"name": bound["name"], "uid": bound["uid"]}
            if "node" in bound:
                about["node"] = bound["node"]
        claims = {
            "aud": list(audiences), "exp": now + seconds, "iat": now, "iss": AUDIENCE, "jti": identity,
            "kubernetes.io": about, "nbf": now, "sub": f"system:serviceaccount:{namespace}:{name}",
        }  # fmt: skip
        head = {"alg": "ES256", "kid": self.key_set[0]["kid"]}
        text = f"{_encoded(msgspec.json.encode(head))}.{_encoded(msgspec.json.encode(claims))}"
        halves = utils.decode_dss_signature(self._key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{text}.{_encoded(b''.join(half.to_bytes(_WIDTH) for half in halves))}"

    def user_of(self, token: str, audience: str = AUDIENCE) -> User | None:
        """Return the user of a token; None if it was not issued here, has expired, or is for another audience."""
        claims = self._claims(token)
        if claims is None or not claims["nbf"] <= self._now() / SECOND < claims["exp"] or audience not in claims["aud"]:
            return None
        about = claims["kubernetes.io"]
        namespace, account = about["namespace"], about["serviceaccount"]
        objects = {"serviceaccounts": account}
        objects |= {plural: about[kind.lower()] for kind, plural in _BOUND.items() if kind.lower() in about}
        if "node" in about and "pod" not in about and not self._is_there("nodes", "", about["node"]):
            return None
        if not all(self._is_there(plural, namespace, each) for plural, each in objects.items()):
            return None
        groups = (*account_groups(namespace), GROUP_AUTHENTICATED)
        extra = {"authentication.kubernetes.io/credential-id": (f"JTI={claims['jti']}",)}
        for kind in ("pod", "node"):
            for field, value in about.get(kind, {}).items():
                extra[f"authentication.kubernetes.io/{kind}-{field}"] = (value,)
        return User(claims["sub"], account["uid"], groups, extra)

    def _is_there(self, plural: str, namespace: str, wanted: Mapping[str, str]) -> bool:
        stored = self._store.get(
            f"/core/{plural}/{namespace}/{wanted['name']}" if namespace else f"/core/{plural}/{wanted['name']}"
        )
        return stored is not None and _identity_of(stored.value).metadata.uid == wanted["uid"]

    def _verified(self, token: str) -> dict[str, Any] | None:
        """Return the claims of a token with a valid signature."""
        text, _, signature = token.rpartition(".")
        try:
            raw = _decoded(signature)
            pair = utils.encode_dss_signature(int.from_bytes(raw[:_WIDTH]), int.from_bytes(raw[_WIDTH:]))
            self._key.public_key().verify(pair, text.encode(), ec.ECDSA(hashes.SHA256()))
            claims: dict[str, Any] = msgspec.json.decode(_decoded(text.partition(".")[2]))
        except (ValueError, InvalidSignature, msgspec.MsgspecError):
            return None
        return claims


class _Metadata(msgspec.Struct):
    uid: str


class _Identity(msgspec.Struct):
    """The part of an object that identifies it; the rest, which can be large, is not read for each request."""

    metadata: _Metadata


_identity_of = msgspec.json.Decoder(_Identity).decode


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
