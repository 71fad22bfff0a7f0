"""Sources as they are read: gzipped ones are unpacked, up to a limit."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from click.testing import CliRunner

from kilauea.cli.main import main
from kilauea.runtime.inputs import files
from kilauea.runtime.inputs.files import SourceError, read_sources, unpack

QUEUE = b'{"kind": "Queue", "metadata": {"name": "q"}}\n'


def names(path: Path) -> list[str]:
    return [obj.name for _, decoded in read_sources([str(path)]) for obj in decoded.objects]


def test_a_gzipped_source_is_read_whatever_its_name_and_however_many_members_it_has(tmp_path: Path) -> None:
    file = tmp_path / "cluster"
    file.write_bytes(gzip.compress(QUEUE) + gzip.compress(b"---\n" + QUEUE.replace(b'"q"', b'"r"')))
    assert names(file) == ["q", "r"]


@pytest.mark.parametrize("size", [0, 1, 99, 100])
def test_what_is_within_the_limit_is_unpacked_whole(size: int) -> None:
    assert unpack(gzip.compress(b"x" * size), 100) == b"x" * size


@pytest.mark.parametrize(
    "packed",
    [
        pytest.param(gzip.compress(b"x" * 101), id="a little too much"),
        pytest.param(gzip.compress(b"x" * 51) * 2, id="two parts that are too much together"),
        pytest.param(gzip.compress(b"x" * 10**7), id="far too much"),
    ],
)
def test_what_unpacks_to_more_than_the_limit_is_refused(packed: bytes) -> None:
    with pytest.raises(OSError, match="unpacks to more than 0 MiB"):
        unpack(packed, 100)


def test_the_command_names_the_file_and_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_UNPACKED", 2 << 20)
    file = tmp_path / "bomb.yaml.gz"
    file.write_bytes(gzip.compress(b" " * (3 << 20)))
    result = CliRunner().invoke(main, ["plan", "-f", str(file)])
    assert result.exit_code == 2
    assert result.stderr == f"Error: {file}: unpacks to more than 2 MiB: unpack it first, or split it\n"


@pytest.mark.parametrize("keep", [2, 9, 20, -1])
def test_what_is_cut_off_is_refused(keep: int, tmp_path: Path) -> None:
    file = tmp_path / "cluster.json.gz"
    file.write_bytes(gzip.compress(QUEUE)[:keep])
    with pytest.raises(SourceError, match=r"cluster\.json\.gz: "):
        names(file)
