"""The wheel, built from this checkout and installed into an environment of its own, runs a cluster without it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: hello}
spec:
  minAvailable: 2
  tasks:
  - replicas: 2
    name: worker
    template:
      spec:
        restartPolicy: Never
        containers: [{name: main, image: busybox, command: [sleep, "1"], resources: {requests: {cpu: "1"}}}]
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built with the backend that is installed, so that nothing is fetched."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*build, str(ROOT)], check=True, timeout=120)
    (built,) = folder.glob("kilauea-*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment with the wheel; its requirements are those of this environment."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
    (packages / "requirements.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = [sys.executable, "-m", "pip", f"--python={folder / 'bin' / 'python'}", "install", "--quiet", "--no-deps"]
    subprocess.run([*install, "--ignore-installed", str(wheel)], check=True, timeout=120)
    return folder / "bin"


def apart() -> dict[str, str]:
    """The environment variables, without those that lead to this checkout."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(programs: Path, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(programs / words[0]), *words[1:]]
    return subprocess.run(command, cwd=folder, env=apart(), capture_output=True, text=True, timeout=120, check=False)


def test_the_wheel_holds_the_package_and_nothing_of_the_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "kilauea/py.typed" in names
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"kilauea"}


def test_programs_of_the_wheel_are_those_of_the_wheel(programs: Path, tmp_path: Path) -> None:
    where = [str(programs / "python"), "-c", "import kilauea; print(kilauea.__file__)"]
    told = subprocess.run(where, cwd=tmp_path, env=apart(), capture_output=True, text=True, check=True)
    assert Path(told.stdout.strip()).is_relative_to(programs.parent)


def test_a_job_runs_on_a_cluster_of_the_wheel(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    data = tmp_path / "cluster"
    command = [str(programs / "kilauea"), "up", "--data-dir", str(data), "--listen", "127.0.0.1:0", "--nodes", "2"]
    with subprocess.Popen([*command, "-f", "job.yaml"], cwd=tmp_path, env=apart()) as up:
        try:
            server = ["--kubeconfig", str(data / "kubeconfig")]
            told = ""
            for _ in range(100):
                listed = run(programs, "vcctl", "job", "list", *server, folder=tmp_path)
                told = listed.stdout + listed.stderr
                if "Completed" in told:
                    break
                assert up.poll() is None, told
            assert "Completed" in told
        finally:
            up.send_signal(signal.SIGTERM)
        assert up.wait(30) == 0
