"""All checks of a cluster, in the order in which they are shown."""

from __future__ import annotations

from kilauea.client.transport import Transport
from kilauea.runtime.doctor.configuration import check_configuration, maps_to_read
from kilauea.runtime.doctor.definitions import check_definitions
from kilauea.runtime.doctor.facts import Facts, Reader
from kilauea.runtime.doctor.findings import Check
from kilauea.runtime.doctor.names import check_names
from kilauea.runtime.doctor.rights import USER, accounts_to_ask, check_accounts, check_user, rights_in
from kilauea.runtime.doctor.running import check_components, check_installations, check_leaders
from kilauea.runtime.doctor.server import check_server, check_version
from kilauea.runtime.doctor.webhooks import check_webhooks, secrets_to_read
from kilauea.simulator.extensions import BUILT_IN, Extensions


async def examine(transport: Transport, server: str, now: int, extensions: Extensions = BUILT_IN) -> list[Check]:
    """Return the checks of a cluster; only the first if it does not answer.

    Args:
        transport: the way to its server.
        server: the server's URL, for messages.
        now: microseconds since 1970, if the server does not tell the time.
        extensions: plugins and actions of the user.
    """
    reader = Reader(transport, server, now)
    await reader.read_cluster()
    facts = reader.facts
    if facts.fault is not None:
        return [check_server(facts)]
    for key in maps_to_read(facts):
        await reader.read_map(key)
    for key in secrets_to_read(facts):
        await reader.read_secret(key)
    for user, rights in {"": rights_in(USER), **accounts_to_ask(facts)}.items():
        await reader.read_rights(user, rights)
    return checks_of(facts, extensions)


def checks_of(facts: Facts, extensions: Extensions = BUILT_IN) -> list[Check]:
    """Return the checks of a cluster that was read."""
    return [
        check_server(facts),
        check_version(facts),
        check_definitions(facts),
        check_user(facts),
        check_components(facts),
        check_installations(facts),
        check_accounts(facts),
        check_leaders(facts),
        check_webhooks(facts),
        check_configuration(facts, extensions),
        check_names(facts),
    ]
