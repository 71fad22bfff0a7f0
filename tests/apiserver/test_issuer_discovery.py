"""The documents by which others check tokens of service accounts, after OpenID Connect."""

from __future__ import annotations

import base64
import json

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from kilauea.apiserver.account_tokens import AUDIENCE, AccountTokens
from kilauea.apiserver.request import GROUP_AUTHENTICATED, User
from support.api_core import Api

CONFIGURATION, KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"
ACCOUNT = User("system:serviceaccount:default:a", groups=("system:serviceaccounts", GROUP_AUTHENTICATED))


def number(text: str) -> int:
    return int.from_bytes(raw(text))


def raw(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def with_key(api: Api) -> Api:
    key = ec.generate_private_key(ec.SECP256R1())
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    api.backend.accounts = AccountTokens(encoded, api.backend.store, lambda: api.now)
    return api


def test_a_token_is_good_by_the_keys_that_the_configuration_leads_to(api: Api) -> None:
    configuration = with_key(api).good("GET", CONFIGURATION, user=ACCOUNT, host="api.example.com:6443")
    assert configuration["issuer"] == AUDIENCE
    assert configuration["jwks_uri"] == f"https://api.example.com:6443{KEYS}"
    answer = api.ask("GET", KEYS, user=ACCOUNT)
    assert answer.code == 200
    (key,) = json.loads(answer.body)["keys"]
    assert key["alg"] in configuration["id_token_signing_alg_values_supported"]

    path = "/api/v1/namespaces/default/serviceaccounts"
    api.good("POST", path, {"metadata": {"name": "a"}})
    token = api.good("POST", f"{path}/a/token", {"spec": {"audiences": ["x"]}})["status"]["token"]
    head, claims, signature = token.split(".")
    assert json.loads(raw(head)) == {"alg": "ES256", "kid": key["kid"]}
    assert json.loads(raw(claims))["iss"] == configuration["issuer"]
    public = ec.EllipticCurvePublicNumbers(number(key["x"]), number(key["y"]), ec.SECP256R1()).public_key()
    halves = raw(signature)
    pair = utils.encode_dss_signature(int.from_bytes(halves[:32]), int.from_bytes(halves[32:]))
    public.verify(pair, f"{head}.{claims}".encode(), ec.ECDSA(hashes.SHA256()))


def test_only_service_accounts_may_read_them(api: Api) -> None:
    with_key(api)
    assert api.ask("GET", CONFIGURATION, user=User("jane", groups=(GROUP_AUTHENTICATED,))).code == 403
    assert api.ask("GET", KEYS, user=ACCOUNT).code == 200
    assert api.ask("POST", KEYS, {}).code == 405


def test_without_a_key_there_are_no_such_documents(api: Api) -> None:
    assert api.ask("GET", CONFIGURATION).code == 404
