"""What Schemathesis is told beyond the OpenAPI: names that exist, watches that end, and which refusals have code 500.

Loaded by the command itself, in a process of its own.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import schemathesis
from schemathesis.specs.openapi.checks import response_schema_conformance

REFUSALS = (
    "strconv.ParseUint: parsing",  # a watch from a resourceVersion that is not a number
    "resourceVersion should not be set on objects to be created",
    "Too large resource version",
)
"""Messages that the real server gives with a code of 500 and above for what the client did."""


@schemathesis.hook
def map_path_parameters(_: schemathesis.HookContext, path_parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    """A namespace that exists, and few names, so that requests meet."""
    known = {"namespace": "default", "name": f"n{len(str(path_parameters)) % 3}"}
    return path_parameters and path_parameters | {key: known[key] for key in path_parameters if key in known}


@schemathesis.hook
def map_query(_: schemathesis.HookContext, query: dict[str, Any] | None) -> dict[str, Any]:
    """Every watch ends after a second."""
    return (query or {}) | {"timeoutSeconds": "1"}


@schemathesis.check
def never_breaks(_: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case[Any]) -> None:
    """No answer of 500 and above, but for refusals that have such a code."""
    text = response.text
    assert response.status_code < 500 or any(words in text for words in REFUSALS), f"{case}: {text[:500]}"


@schemathesis.check
def has_the_schema(
    context: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case[Any]
) -> None:
    """The answer has the schema that the OpenAPI gives; a watch is a stream of documents, which has none."""
    if not _is_watch(response, case):
        response_schema_conformance(context, response, case)


def _is_watch(response: schemathesis.Response, case: schemathesis.Case[Any]) -> bool:
    """Return True if a list is asked for as a watch: by every value but false and 0, as in Kubernetes."""
    query = parse_qsl(urlsplit(response.request.url or "").query, keep_blank_values=True)
    watch = next((value for key, value in query if key == "watch"), "false")
    return case.method == "GET" and "{name}" not in case.path and watch.lower() not in ("false", "0")
