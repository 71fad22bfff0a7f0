"""The file with the states of containers: what is read from it after changes, removals and faults."""

from __future__ import annotations

import json
from pathlib import Path

from kilauea.kubelet.processes.supervisor.records import Record, Records


def record(id: str, state: str = "running") -> Record:
    return Record(id, "pod", "main", 0, state=state, pid=7, boot="b")


def read(folder: Path) -> dict[str, str]:
    return {each.id: each.state for each in Records(folder).load()}


def test_the_last_state_of_each_container_is_read_again(tmp_path: Path) -> None:
    records = Records(tmp_path / "containers")
    assert records.load() == []
    for id in ("b", "a", "c"):
        records.save(record(id))
    records.save(record("a", "exited"))
    records.remove("c")
    records.remove("never seen")
    assert read(tmp_path / "containers") == {"a": "exited", "b": "running"}
    assert Records(tmp_path / "containers").load()[1] == record("b")


def test_the_file_is_written_again_before_it_grows_without_bound(tmp_path: Path) -> None:
    records = Records(tmp_path / "containers")
    records.load()
    records.save(record("stays"))
    for number in range(5000):
        records.save(record(str(number)))
        records.remove(str(number))
    assert len((tmp_path / "containers/states").read_bytes().splitlines()) < 2100
    assert read(tmp_path / "containers") == {"stays": "running"}


def test_a_line_that_was_not_written_to_its_end_loses_nothing_else(tmp_path: Path) -> None:
    records = Records(tmp_path / "containers")
    records.load()
    records.save(record("a"))
    path = tmp_path / "containers/states"
    path.write_bytes(path.read_bytes() + b'{"id": "b", "st')
    later = Records(tmp_path / "containers")
    later.save(record("c"))
    path.write_bytes(path.read_bytes() + b"[1]\n7\n{}\n")
    assert read(tmp_path / "containers") == {"a": "running", "c": "running"}


def test_the_files_of_earlier_versions_are_taken_over(tmp_path: Path) -> None:
    folder = tmp_path / "containers"
    folder.mkdir()
    (folder / "old.json").write_text(json.dumps(record("old", "exited").as_dict()))
    assert read(folder) == {"old": "exited"}
    assert [path.name for path in folder.iterdir()] == ["states"]
    assert read(folder) == {"old": "exited"}
