"""Authentication: by a client certificate, or by a bearer token of the administrator or a service account."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any

from kilauea.apiserver import status
from kilauea.apiserver.account_tokens import AccountTokens
from kilauea.apiserver.request import GROUP_AUTHENTICATED, User


class Authenticator:
    """Authenticates callers by certificates and tokens."""

    def __init__(self, tokens: Mapping[str, User], accounts: AccountTokens | None = None) -> None:
        self._accounts = accounts
        self._tokens = [(token.encode(), _authenticated(user)) for token, user in tokens.items()]

    def user_of(self, certificate: Mapping[str, Any] | None, authorization: str) -> User | None:
        """Return the caller; None if there are no credentials.

        Args:
            certificate: the client certificate, verified by TLS, in the format of `ssl.SSLSocket.getpeercert`.
            authorization: the header, or an empty string.

        Raises:
            ApiFault: the token is unknown (401).
        """
        if certificate:
            user = _user_of_certificate(certificate)
            if user is not None:
                return user
        if not authorization:
            return None
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.isascii():
            raise status.unauthorized()
        found = None
        for known, user in self._tokens:
            if hmac.compare_digest(known, token.strip().encode()):
                found = user
        if found is None and self._accounts is not None:
            found = self._accounts.user_of(token.strip())
        if found is None:
            raise status.unauthorized()
        return found


def _user_of_certificate(certificate: Mapping[str, Any]) -> User | None:
    """Return the user of a certificate: the common name is the user name, the organizations are groups."""
    pairs = [pair for name in certificate.get("subject", ()) for pair in name]
    name = next((value for key, value in pairs if key == "commonName"), "")
    groups = tuple(value for key, value in pairs if key == "organizationName")
    return _authenticated(User(name, groups=groups)) if name else None


def _authenticated(user: User) -> User:
    groups = tuple(dict.fromkeys([*user.groups, GROUP_AUTHENTICATED]))
    return User(user.name, user.uid, groups, user.extra)
