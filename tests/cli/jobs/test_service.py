"""`kilauea service`: the unit that it writes, and what it says where systemd does not answer."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kilauea.cli.main import main
from kilauea.cli.service import unit_text


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, on a machine whose systemd does not answer."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "systemctl").write_text("#!/bin/sh\nexit 1\n")
    (programs / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def service(*words: str) -> Result:
    return CliRunner().invoke(main, ["service", *words])


def test_a_service_is_installed_and_removed_where_systemd_does_not_answer(home: Path) -> None:
    done = service("install", "--", "--nodes", "4", "--data-dir", "my data")
    unit = home / "config" / "systemd" / "user" / "kilauea.service"
    assert done.exit_code == 0, done.output
    assert f"Wrote {unit}.\n" in done.stdout
    assert "  systemctl --user enable kilauea.service\n" in done.stdout
    assert "sudo loginctl enable-linger" in done.stdout
    assert f' up --nodes 4 --data-dir "{home}/my data"\n' in unit.read_text()
    assert service("status").exit_code == 3
    assert service("uninstall").exit_code == 0
    assert not unit.exists()
    gone = service("status")
    assert (gone.exit_code, gone.stderr) == (
        1,
        "Error: the service is not installed: install it with `kilauea service install`\n",
    )


def test_print_shows_the_unit_and_writes_nothing(home: Path) -> None:
    done = service("install", "--print", "--", "--nodes", "2")
    assert "Restart=on-failure\n" in done.stdout
    assert not (home / "config").exists()


def test_an_option_that_up_does_not_have_is_refused(home: Path) -> None:
    done = service("install", "--", "--nods", "4")
    assert done.exit_code == 2
    assert "kilauea up: No such option" in done.stderr
    assert not (home / "config").exists()


def test_signs_of_systemd_stand_for_themselves() -> None:
    assert 'ExecStart=/bin/kilauea up --data-dir "/a b/%%i $$HOME \\"x\\""\n' in unit_text(
        ["/bin/kilauea", "up", "--data-dir", '/a b/%i $HOME "x"']
    )


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not there")
def test_systemd_accepts_the_unit(home: Path) -> None:
    unit = home / "kilauea.service"
    unit.write_text(service("install", "--print", "--", "--nodes", "2", "--data-dir", "a b").stdout)
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(unit)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "XDG_RUNTIME_DIR" in done.stderr or "Failed to" in done.stderr:
        pytest.skip(f"systemd-analyze does not work here: {done.stderr.strip()}")
    assert (done.returncode, done.stderr) == (0, "")
