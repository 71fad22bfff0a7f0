"""A UFM for tests: an HTTPS server in a thread, which answers as a test says and notes what it is asked."""

from __future__ import annotations

import datetime
import json
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kilauea.pki import SERVER, Authority, pem, subject


def port(node: str, leaf: str, **more: Any) -> dict[str, Any]:
    """A port of a computer, as UFM lists it."""
    return {"description": f"Computer IB Port {node}", "system_name": node, "peer_node_name": leaf, **more}


class Ufm:
    """The server.

    Attributes:
        answer: what it says, as JSON if it is not bytes.
        code: the status.
        pause: seconds before the answer.
        location: where a redirect leads.
        asked: path and authorization of the requests.
        authority: the certificate of who signed its certificate, as PEM.
        url: its address.
    """

    def __init__(self) -> None:
        self.answer: Any = []
        self.code = 200
        self.pause = 0.0
        self.location = ""
        self.asked: list[tuple[str, str]] = []
        self.authority = ""
        self.url = ""

    def data(self) -> bytes:
        """The answer as bytes."""
        return self.answer if isinstance(self.answer, bytes) else json.dumps(self.answer).encode()


def _handler(ufm: Ufm) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            ufm.asked.append((self.path, self.headers.get("Authorization", "")))
            time.sleep(ufm.pause)
            data = ufm.data()
            try:
                self.send_response(ufm.code)
                if ufm.location:
                    self.send_header("Location", ufm.location)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                self.close_connection = True  # the client has stopped waiting

        def log_message(self, format: str, *args: object) -> None:
            """Keep quiet."""

    return Handler


@contextmanager
def running_ufm() -> Iterator[Ufm]:
    """A server for the length of a block."""
    ufm, now = Ufm(), datetime.datetime.now(datetime.UTC)
    authority = Authority.create("tests", now)
    issued = authority.issue(subject("ufm"), ["127.0.0.1"], SERVER, now)
    ufm.authority = pem(authority.certificate).decode()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(ufm))
    server.daemon_threads = True
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
        certificate.write_bytes(issued.certificate)
        key.write_bytes(issued.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    ufm.url = f"https://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield ufm
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
