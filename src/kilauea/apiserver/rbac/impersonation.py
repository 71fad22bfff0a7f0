"""Impersonation: the headers by which a request acts as another user, and the permission it needs."""

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
    """The groups that every service account of a namespace is in."""
    return "system:serviceaccounts", f"system:serviceaccounts:{namespace}"


def acting_user(user: User, headers: Mapping[str, str], authorizer: Authorizer) -> User:
    """Return the user that a request acts as: the caller, unless its headers name another.

    Args:
        user: the caller.
        headers: by names in lower case; several values of one are separated by commas.
        authorizer: knows whether the caller may.

    Raises:
        ApiFault: the caller may not (403), or the headers name no user (400).
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
    """The actions that the caller must be allowed."""
    found = [Action("impersonate", "", "users", name=name)]
    if (account := _account(name)) is not None:
        found = [Action("impersonate", "", "serviceaccounts", "", *account)]
    found += [Action("impersonate", "", "groups", name=each) for each in groups]
    found += [Action("impersonate", _AUTHENTICATION, "uids", name=uid)] if uid else []
    return found + [
        Action("impersonate", _AUTHENTICATION, "userextras", key, "", value) for key, value in extra.items()
    ]


def _account(name: str) -> tuple[str, str] | None:
    """Namespace and name of a service account; None for a user who is none, however the name begins."""
    namespace, _, account = name.removeprefix(_ACCOUNT).partition(":")
    if not name.startswith(_ACCOUNT) or label_problems(namespace) or subdomain_problems(account):
        return None
    return namespace, account
