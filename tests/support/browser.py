"""A headless Chromium, driven over the DevTools protocol.

async with browser(tmp_path) as page:
    await page.open("http://127.0.0.1:8080/")
    assert await page.value("document.title") == "..."
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 60.0


def program() -> str:
    """The browser; without one the test is skipped."""
    found = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"there is no browser: none of {', '.join(PROGRAMS)} is on the PATH")
    return found


class Page:
    """One tab. `problems` are errors that it has logged, such as a script that its policy forbids."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self.problems: list[str] = []

    async def do(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command of the protocol."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            message = await self._socket.receive_json()
            if message.get("id") == self._number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            if message.get("method") == "Runtime.exceptionThrown":
                self.problems.append(str(message["params"]["exceptionDetails"]))
            elif message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
                self.problems.append(str(message["params"]["entry"]["text"]))

    async def open(self, url: str) -> None:
        """Go to an address and wait until its page is complete."""
        await self.do("Page.navigate", url=url)
        await self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    async def value(self, expression: str) -> Any:
        """The value of an expression of JavaScript."""
        found = await self.do("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until an expression is true; if it does not become so, the error says what the page shows."""
        try:
            async with asyncio.timeout(SECONDS):
                while not await self.value(expression):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            text = await self.value("location.href + '\\n' + document.body?.innerText")
            raise AssertionError(f"{expression} does not become true; problems: {self.problems}; {text}") from None

    async def press(self, key: str) -> None:
        """Press a key, such as `Tab` or `Enter`."""
        text = {"text": "\r"} if key == "Enter" else {}
        code = {"Tab": 9, "Enter": 13}[key]
        for kind in ("keyDown", "keyUp"):
            await self.do("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    async def look(self, width: int, height: int, scheme: str = "light") -> None:
        """Set the size of the window and the preferred colours."""
        await self.do(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        feature = {"name": "prefers-color-scheme", "value": scheme}
        await self.do("Emulation.setEmulatedMedia", features=[feature])

    async def picture(self, path: Path) -> None:
        """Write what is to be seen to a file."""
        path.write_bytes(base64.b64decode((await self.do("Page.captureScreenshot", format="png"))["data"]))


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Page]:
    """A tab of a browser with a profile in a folder."""
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--hide-scrollbars"]
    scratch = tempfile.mkdtemp(prefix="browser-")  # short, as it holds a socket; a browser that is killed leaves it
    process = subprocess.Popen(
        [program(), *options, f"--user-data-dir={folder}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"TMPDIR": scratch},
        start_new_session=True,
    )
    try:
        port = await _port(folder / "DevToolsActivePort")
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                tab = next(each for each in await answer.json() if each["type"] == "page")
            async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                for part in ("Page", "Runtime", "Log"):
                    await page.do(f"{part}.enable")
                yield page
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(scratch, ignore_errors=True)


async def _port(file: Path) -> str:
    """The port of the protocol, which the browser writes to a file."""
    async with asyncio.timeout(SECONDS):
        while not file.exists() or "\n" not in file.read_text():
            await asyncio.sleep(0.05)
    return file.read_text().split()[0]
