"""Reading objects from files, folders and standard input."""

from __future__ import annotations

import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kilauea.api.decode import Decoded, decode

SUFFIXES = (".yaml", ".yml", ".json", ".jsonl")

MOST_UNPACKED = 1 << 30
"""Maximum unpacked bytes of a gzipped source: well over 100,000 pods. A file can contain a thousand times its size."""

_CHUNK = 1 << 20
_NODE = re.compile(rb"""["']?\bkind["']?\s*:\s*["']?(?:Node|NodeList)["']?\s*(?:[,}#]|$)""", re.MULTILINE)
"""The kind of a Node, in YAML or JSON."""


class SourceError(Exception):
    """A source cannot be read."""


def read_sources(paths: Sequence[str], note: Callable[[str], None] = lambda _: None) -> Iterator[tuple[str, Decoded]]:
    """Decode all sources in order; each comes with its name.

    Args:
        paths: files, folders (all their `.yaml`, `.yml`, `.json` files, also gzipped, in the order of their names), or
            `-` for standard input.
        note: called with the name of each source before it is read.

    Raises:
        SourceError: a path cannot be read.
    """
    for source, data in read_bytes(paths, note):
        yield source, decode(data, source)


def read_bytes(paths: Sequence[str], note: Callable[[str], None] = lambda _: None) -> Iterator[tuple[str, bytes]]:
    """The unpacked bytes of all sources in order, with the same names as in `read_sources`."""
    for path in paths:
        for file in _files_of(path):
            source = "standard input" if file == "-" else file
            note(source)
            yield source, _bytes_of(file)


def describe_nodes(paths: Sequence[str]) -> bool:
    """Return True if files contain nodes; assumed for standard input, which can be read only once.

    Raises:
        SourceError: a path cannot be read.
    """
    return "-" in paths or any(_NODE.search(data) for _, data in read_bytes(paths))


def _files_of(path: str) -> list[str]:
    # Unlike Path.is_dir, this never raises; a bad path is reported when it is read.
    if path == "-" or not os.path.isdir(path):
        return [path]
    found = sorted(f for f in Path(path).rglob("*") if f.is_file() and _is_manifest(f))
    if not found:
        raise SourceError(f"{path}: no {', '.join(SUFFIXES)} file in this folder")
    return [str(f) for f in found]


def _is_manifest(path: Path) -> bool:
    name = path.name.removesuffix(".gz")
    return name.endswith(SUFFIXES) and not name.startswith(".")


def unpack(data: bytes, most: int) -> bytes:
    """Unpack gzipped data.

    Raises:
        OSError: it unpacks to more than `most` bytes, or is corrupt, for which EOFError and zlib.error are raised, too.
    """
    parts = []
    left = most
    with gzip.open(io.BytesIO(data)) as stream:
        while part := stream.read(_CHUNK):
            left -= len(part)
            if left < 0:
                raise OSError(f"unpacks to more than {most >> 20} MiB: unpack it first, or split it")
            parts.append(part)
    return b"".join(parts)


def _bytes_of(path: str) -> bytes:
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return unpack(data, MOST_UNPACKED) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SourceError(f"{path}: {reason}") from error
