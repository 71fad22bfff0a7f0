"""A scheduler extender as a process of its own, which answers as a file says and writes down what it is asked.

    python extender_server.py RULES LOG [CERTIFICATE KEY]

The file RULES is JSON: by verb an answer, an object with any of `body`, `raw` (text instead of JSON), `code`, `sleep`
(seconds), `length` (so many spaces), or `nodes`, answers by the name of the node that is asked about. The first line
that the process prints is its port.
"""

from __future__ import annotations

import json
import ssl
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

LOCK = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        verb = self.path.rsplit("/", 1)[-1]
        kept = {"path": self.path, "type": self.headers["Content-Type"], "body": body, "peer": self.client_address[1]}
        with LOCK, Path(sys.argv[2]).open("a") as log:
            log.write(json.dumps(kept) + "\n")
        rule: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text()).get(verb, {"code": 404})
        rule = rule.get("nodes", {}).get(body.get("node", {}).get("Name"), rule)
        time.sleep(rule.get("sleep", 0))
        text = rule.get("raw", json.dumps(rule.get("body", {}))).encode() + b" " * rule.get("length", 0)
        try:
            self.send_response(rule.get("code", 200))
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        except OSError:
            self.close_connection = True  # the scheduler has stopped waiting

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


def main() -> None:
    """Serve until the process is ended."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if len(sys.argv) > 3:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[3], sys.argv[4])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
