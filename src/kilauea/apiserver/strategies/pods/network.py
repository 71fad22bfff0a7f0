"""Checks of a pod's DNS settings and host names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kilauea.api.names import label_problems, subdomain_problems
from kilauea.apiserver.fields import check_name, forbidden_field, invalid_value, required
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.addresses import address_problems
from kilauea.apiserver.strategies.base import Object

_MOST_SERVERS, _MOST_SEARCHES, _LONGEST_SEARCHES = 3, 32, 2048
_LONGEST_NAME, _LONGEST_HOST = 253, 64
_SEARCHED = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*"
_SEARCHED_NAME = re.compile(_SEARCHED)
_SEARCHED_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
    f"start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SEARCHED}')"
)


def check_dns(path: str, config: Object | None, policy: str) -> Iterator[Cause]:
    """Check the DNS config of a pod, which must have name servers if the policy is `None`."""
    if policy == "None" and config is None:
        yield required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
    if config is None:
        return
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if policy == "None" and not servers:
        yield required(f"{path}.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None")
        return
    if len(servers) > _MOST_SERVERS:
        yield invalid_value(f"{path}.nameservers", servers, f"must not have more than {_MOST_SERVERS} nameservers")
    for number, server in enumerate(servers):
        yield from check_name(f"{path}.nameservers[{number}]", server, address_problems(server))
    if len(searches) > _MOST_SEARCHES:
        yield invalid_value(f"{path}.searches", searches, f"must not have more than {_MOST_SEARCHES} search paths")
    if len(" ".join(searches)) > _LONGEST_SEARCHES:
        message = f"must not have more than {_LONGEST_SEARCHES} characters (including spaces) in the search list"
        yield invalid_value(f"{path}.searches", searches, message)
    for number, search in enumerate(searches):
        name = search if search == "." else search.removesuffix(".")
        if name != ".":
            yield from check_name(f"{path}.searches[{number}]", name, _search_problems(name))
    for number, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            yield required(f"{path}.options[{number}]", "must not be empty")


def _search_problems(name: str) -> list[str]:
    found = [f"must be no more than {_LONGEST_NAME} characters"] if len(name) > _LONGEST_NAME else []
    return found if _SEARCHED_NAME.fullmatch(name) else [*found, _SEARCHED_WORDS]


def check_host_name(path: str, spec: Object) -> Iterator[Cause]:
    """Check `hostnameOverride`, which excludes other settings of the host name."""
    name, where = spec["hostnameOverride"], f"{path}.hostnameOverride"
    for field in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(field):
            yield forbidden_field(where, f"may not be specified when {field} is true")
    if len(name) > _LONGEST_HOST:
        yield Cause(where, "FieldValueTooLong", f"Too long: may not be more than {_LONGEST_HOST} bytes")
    yield from check_name(where, name, subdomain_problems(name))


def check_names(path: str, spec: Object) -> Iterator[Cause]:
    """Check the hostname and subdomain of a pod."""
    for field in ("hostname", "subdomain"):
        name = spec.get(field)
        if name:
            yield from check_name(f"{path}.{field}", name, label_problems(name))


def check_aliases(path: str, aliases: list[Object]) -> Iterator[Cause]:
    """Check the host aliases of a pod."""
    for number, alias in enumerate(aliases):
        ip = alias.get("ip", "")
        yield from check_name(f"{path}[{number}].ip", ip, address_problems(ip))
        for place, name in enumerate(alias.get("hostnames") or ()):
            yield from check_name(f"{path}[{number}].hostnames[{place}]", name, subdomain_problems(name))
