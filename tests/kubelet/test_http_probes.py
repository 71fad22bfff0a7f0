"""Probes over HTTP: answers, and redirects within a host and to others."""

from __future__ import annotations

import asyncio

from kilauea.kubelet.handlers import Result, Target, handle
from kilauea.kubelet.probes import failure_text
from support.scripted_runtime import ScriptedRuntime
from support.virtual_time import LoopClock

ANSWERS = {
    "/ok": "HTTP/1.1 204 No Content\r\n\r\n",
    "/bad": "HTTP/1.1 500 Internal Server Error\r\n\r\n",
    "/cached": "HTTP/1.1 304 Not Modified\r\n\r\n",
    "/to-ok": "HTTP/1.1 302 Found\r\nLocation: ok\r\n\r\n",
    "/to-bad": "HTTP/1.1 307 Temporary Redirect\r\nlocation: /bad?a=b\r\n\r\n",
    "/away": "HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 4\r\n\r\nawayMORE",
    "/round": "HTTP/1.1 302 Found\r\nLocation: /round\r\n\r\n",
    "/odd": "SSH-2.0-x\r\n",
}


def probed(path: str) -> tuple[Result, list[str]]:
    asked: list[str] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked.append(head.split()[1])
        writer.write(ANSWERS[head.split()[1].partition("?")[0]].encode())
        writer.close()

    async def story() -> Result:
        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            target = Target(ScriptedRuntime(LoopClock(asyncio.get_running_loop())), "one", {"name": "c"}, "127.0.0.1")
            return await handle({"httpGet": {"path": path, "port": port}}, target, 10)

    return asyncio.run(story()), asked


def test_codes_below_400_are_a_success() -> None:
    assert probed("/ok")[0] == Result("success", "204")
    assert probed("/bad")[0] == Result("failure", "HTTP probe failed with statuscode: 500")
    assert probed("/odd")[0].verdict == "unknown"


def test_redirects_within_the_host_are_followed() -> None:
    assert probed("/to-ok") == (Result("success", "204"), ["/to-ok", "/ok"])
    assert probed("/to-bad") == (
        Result("failure", "HTTP probe failed with statuscode: 500"),
        ["/to-bad", "/bad?a=b"],
    )
    result, asked = probed("/round")
    assert (result.verdict, result.output.endswith("stopped after 10 redirects"), len(asked)) == ("failure", True, 10)


def test_a_redirect_to_another_host_is_a_success_with_a_warning() -> None:
    result, asked = probed("/away")
    assert (result.verdict, result.is_warning, asked) == ("success", True, ["/away"])
    words = "Liveness probe warning: Probe terminated redirects, Response body: away"
    assert failure_text("liveness", result) == words
    assert probed("/cached")[0].is_warning
