"""Checks of the API server: it responds, it is trusted, it accepts the user, and its version is supported."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kilauea.client.advice import advice
from kilauea.runtime.doctor.facts import Facts
from kilauea.runtime.doctor.findings import ERROR, WARNING, Check, Finding, check_of

OLDEST, NEWEST = (1, 25), (1, 36)
"""Versions of Kubernetes: the first that evaluates the rules in our definitions, and the newest that we test."""


def check_server(facts: Facts) -> Check:
    """Check that the server answers and accepts the user."""
    if facts.fault is None:
        return Check("server", f"{facts.server} answers")
    error = facts.fault
    fix = advice(error) or "try again, and check the log of the API server if the result is the same"
    return check_of(
        "server",
        "",
        [Finding(ERROR, f"server {facts.server}", "", "", _problem(facts, str(error)), fix)],
    )


def _problem(facts: Facts, message: str) -> str:
    return message if message.startswith(facts.server) else f"{facts.server}: {message}"


def check_version(facts: Facts) -> Check:
    """Check the version of Kubernetes."""
    return check_of("version", f"Kubernetes {facts.version.get('gitVersion', '')}", _versions(facts))


def _versions(facts: Facts) -> Iterator[Finding]:
    text = str(facts.version.get("gitVersion", ""))
    found = re.match(r"v?(\d+)\.(\d+)", text)
    where = f"server {facts.server}"
    if found is None:
        message = f'its version "{text}" is not one of Kubernetes'
        yield Finding(WARNING, where, "gitVersion", text, message, f"use Kubernetes {_text(OLDEST)} or newer")
        return
    version = (int(found[1]), int(found[2]))
    if version < OLDEST:
        message = f"Kubernetes {text} does not evaluate the validation rules of the definitions"
        yield Finding(ERROR, where, "gitVersion", text, message, f"upgrade to Kubernetes {_text(OLDEST)} or newer")
    elif version > NEWEST:
        message = (
            f"Kubernetes {text} is newer than {_text(NEWEST)}, the newest that this version of Kilauea is tested with"
        )
        yield Finding(WARNING, where, "gitVersion", text, message, "look for a newer version of Kilauea")


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
