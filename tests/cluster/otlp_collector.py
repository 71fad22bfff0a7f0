"""A collector of OpenTelemetry spans: prints each span that it is sent as a line of JSON, after a line with its port.

python otlp_collector.py          # with the packages of requirements/tracing.txt in PYTHONPATH
"""

from __future__ import annotations

import gzip
import json
from http.server import BaseHTTPRequestHandler, HTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Handler(BaseHTTPRequestHandler):
    """Takes spans as OTLP over HTTP."""

    def do_POST(self) -> None:
        """Print the spans of a request."""
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        request = ExportTraceServiceRequest.FromString(body)
        for each in request.resource_spans:
            service = next(a.value.string_value for a in each.resource.attributes if a.key == "service.name")
            for scope in each.scope_spans:
                for span in scope.spans:
                    found = {"service": service, "name": span.name, "trace": span.trace_id.hex()}
                    found |= {"id": span.span_id.hex(), "parent": span.parent_span_id.hex()}
                    print(json.dumps(found), flush=True)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing but spans is printed."""


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
