"""Which host ports are in conflict."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kilauea.nodes.host_ports import HostPort, collide

PORTS = st.lists(
    st.builds(
        HostPort,
        st.integers(1, 2),
        st.sampled_from(["TCP", "UDP"]),
        st.sampled_from(["", "0.0.0.0", "10.0.0.1", "10.0.0.2"]),
    ),
    max_size=4,
)


@given(PORTS, PORTS)
def test_ports_collide_at_the_same_address_or_where_one_of_them_is_at_all_addresses(
    wanted: list[HostPort], used: list[HostPort]
) -> None:
    anywhere = {"", "0.0.0.0"}
    expected = any(
        one[:2] == other[:2] and (one.address == other.address or {one.address, other.address} & anywhere)
        for one in wanted
        for other in used
    )
    assert collide(wanted, used) == expected
