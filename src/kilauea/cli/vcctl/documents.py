"""Objects in YAML files, for the commands that create from files."""

from __future__ import annotations

from typing import Any

from kilauea.cli.vcctl.command import CommandError


def read_file(path: str) -> bytes:
    """The content of a file; `-` is standard input.

    Raises:
        CommandError: the file cannot be read.
    """
    import sys

    try:
        if path == "-":
            return sys.stdin.buffer.read()
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandError(f"failed to read file, err: open {path}: {reason}") from error


def read_objects(data: bytes) -> list[dict[str, Any]]:
    """The objects of all documents, without empty documents.

    Raises:
        CommandError: a document is not YAML, or not an object.
    """
    from kilauea.api.yamltext import TextError, read_documents

    found: list[dict[str, Any]] = []
    for document in read_documents(data.removeprefix(b"\xef\xbb\xbf")):
        faults = [document] if isinstance(document, TextError) else document.faults
        if faults:
            at = faults[0]
            raise CommandError(f"failed to unmarshal file, err:  line {at.line}, column {at.column}: {at.message}")
        if isinstance(document, TextError) or document.value is None:
            continue
        value = document.value
        if not isinstance(value, dict) or not isinstance(value.get("metadata", {}), dict):
            raise CommandError(
                "failed to unmarshal file, err:  a document is not an object: set apiVersion, kind and metadata"
            )
        found.append(value)
    return found
