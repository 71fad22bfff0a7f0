"""Impersonation: headers with which a request acts as another user, and the required permissions."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from kilauea.api.names import label_problems, subdomain_problems
from kilauea.apiserver import status
from kilauea.apiserver.rbac.authorizer import Action, Authorizer
from kilauea.apiserver.request import GROUP_AUTHENTICATED, User

_USER, _GROUP, _UID, _EXTRA = "impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-"
_ACCOUNT = "system:serviceaccount:"
_AUTHENTICATION = "authentication.k8s.io"


def account_groups(namespace: str) -> tuple[str, str]:
    """Return the groups of every service account of a namespace."""
    return "system:serviceaccounts", f"system:serviceaccounts:{namespace}"


def acting_user(user: User, headers: Mapping[str, str], authorizer: Authorizer) -> User:
    """Return the user of a request: the caller, unless its headers name another.

    Args:
        user: the caller.
        headers: the headers by lower-case name; multiple values are separated by commas.
        authorizer: decides if the caller may impersonate.

    Raises:
        ApiFault: the caller may not (403), or the headers do not name a user (400).
    """
    if not [key for key in headers if key.startswith("impersonate-")]:
        return user
    name = headers.get(_USER, "")
    groups = [each.strip() for each in headers.get(_GROUP, "").split(",") if each.strip()]
    extra = {unquote(key.removeprefix(_EXTRA)): value for key, value in headers.items() if key.startswith(_EXTRA)}
    uid = headers.get(_UID, "")
    if not name:
        if groups or extra or uid:
            raise status.bad_request("requested to impersonate groups, a uid or extra values without a user name")
        return user
    for action in _needed(name, uid, groups, extra):
        authorizer.check(user, action)
    account = _account(name)
    if account is not None and not groups:
        groups += account_groups(account[0])
    if name != "system:anonymous" and GROUP_AUTHENTICATED not in groups:
        groups.append(GROUP_AUTHENTICATED)
    return User(name, uid, tuple(groups), {key: (value,) for key, value in extra.items()})


def _needed(name: str, uid: str, groups: list[str], extra: Mapping[str, str]) -> list[Action]:
    """Return the actions that the caller must be permitted."""
    found = [Action("impersonate", "", "users", name=name)]
    if (account := _account(name)) is not None:
        found = [Action("impersonate", "", "serviceaccounts", "", *account)]
    found += [Action("impersonate", "", "groups", name=each) for each in groups]
    found += [Action("impersonate", _AUTHENTICATION, "uids", name=uid)] if uid else []
    return found + [
        Action("impersonate", _AUTHENTICATION, "userextras", key, "", value) for key, value in extra.items()
    ]


def _account(name: str) -> tuple[str, str] | None:
    """Return namespace and name of a service account; None for other users, even with the same prefix."""
    namespace, _, account = name.removeprefix(_ACCOUNT).partition(":")
    if not name.startswith(_ACCOUNT) or label_problems(namespace) or subdomain_problems(account):
        return None
    return namespace, account
