"""Names of images, and what stands for them on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from kilauea.kubelet.container_runtime import ContainerError
from kilauea.kubelet.images import InvalidMapping, Mapped, MappedImages


def test_without_a_mapping_every_image_is_this_machine() -> None:
    image = MappedImages((), {"PATH": "/bin", "SECRET": "x"}).find("registry.example.com/any:1")
    assert (image.root, dict(image.environment)) == (None, {"PATH": "/bin"})


def test_a_folder_is_the_root(tmp_path: Path) -> None:
    images = MappedImages([Mapped.parse(f"alpine={tmp_path}")], {"PATH": "/mine"})
    for name in ("alpine", "alpine:3.20", "docker.io/library/alpine:latest", f"alpine@sha256:{'0' * 64}"):
        image = images.find(name)
        assert image.root == tmp_path
        assert image.environment["PATH"].endswith("/sbin:/bin")


def test_a_python_environment_comes_first_in_the_path(tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\n")
    image = MappedImages([Mapped.parse(f"pytorch/*={tmp_path}")], {"PATH": "/bin"}).find("pytorch/pytorch:2")
    assert image.root is None
    assert dict(image.environment) == {"PATH": f"{tmp_path}/bin:/bin", "VIRTUAL_ENV": str(tmp_path)}


def test_a_program_is_the_command_of_its_image(tmp_path: Path) -> None:
    program = tmp_path / "serve"
    program.write_text("#!/bin/sh\n")
    with pytest.raises(InvalidMapping, match="is neither a folder nor a program"):
        Mapped.parse(f"demo={program}")
    program.chmod(0o755)
    images = MappedImages([Mapped.parse(f"demo={program}")], {"PATH": "/bin"})
    image = images.find("demo:1")
    assert (image.root, list(image.command), dict(image.environment)) == (None, [str(program)], {"PATH": "/bin"})
    program.unlink()
    with pytest.raises(ContainerError, match="no longer exists"):
        images.find("demo:1")


def test_the_more_exact_pattern_decides(tmp_path: Path) -> None:
    images = MappedImages([Mapped.parse("*=host"), Mapped.parse(f"demo:2={tmp_path}")], {})
    assert (images.find("demo:1").root, images.find("demo:2").root) == (None, tmp_path)


def test_an_image_without_a_mapping_says_what_to_do() -> None:
    with pytest.raises(ContainerError, match="restart with --image demo:1=host") as raised:
        MappedImages([Mapped.parse("other=host")], {}).find("docker.io/demo:1")
    assert raised.value.reason == "ErrImagePull"
    with pytest.raises(ContainerError) as invalid:
        MappedImages().find("two words")
    assert invalid.value.reason == "InvalidImageName"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("demo", "write NAME=PATH"),
        ("=host", "write NAME=PATH"),
        ("demo=/no/such/folder", "is neither a folder nor a program"),
    ],
)
def test_an_invalid_mapping_says_why(text: str, message: str) -> None:
    with pytest.raises(InvalidMapping, match=message):
        Mapped.parse(text)


def test_a_folder_that_went_away_is_an_image_that_cannot_be_pulled(tmp_path: Path) -> None:
    folder = tmp_path / "image"
    folder.mkdir()
    images = MappedImages([Mapped.parse(f"demo={folder}")], {})
    folder.rmdir()
    with pytest.raises(ContainerError, match="no longer exists"):
        images.find("demo")
