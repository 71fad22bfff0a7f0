"""The end of servers that tests run in their process."""

from __future__ import annotations

import asyncio


async def stop_accepting(listening: asyncio.Server) -> None:
    """Accept no more connections, and close when those that were accepted belong to the server.

    asyncio loses one that is accepted and does not: its socket stays open until garbage is collected, with a warning.
    """
    loop = asyncio.get_running_loop()
    for each in listening.sockets:
        loop.remove_reader(each.fileno())
    await asyncio.sleep(0)
    listening.close()


async def cancel_rest() -> None:
    """Cancel what else the loop does, such as the beginning of TLS with a client that has gone."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
