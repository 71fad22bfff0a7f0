"""Images of containers that run as processes: folders, Python environments, programs or the machine, by name.

Images are not pulled from a registry. `--image python=/opt/venv` replaces an image; without any mapping, every image
means the file system of this machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from kilauea.kubelet.container_runtime import ContainerError
from kilauea.kubelet.host import Image

HOST = "host"
_TAG = re.compile(r"(@sha256:[0-9a-f]+|:[A-Za-z0-9_.-]+)$")
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "CUDA_HOME")
"""Environment variables of this process that containers on the file system of the machine inherit."""
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_REGISTRIES = ("docker.io/library/", "docker.io/", "index.docker.io/")


class InvalidMapping(ValueError):
    """An invalid mapping; the message gives the reason and the correct form."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """The replacement for images whose names match a pattern.

    Attributes:
        pattern: name with `*` and `?`; without a tag, it matches all tags.
        target: a folder, a program, or `host`.
    """

    pattern: str
    target: str

    @classmethod
    def parse(cls, text: str) -> Mapped:
        """Read `NAME=PATH` or `NAME=host`.

        Raises:
            InvalidMapping: it has another form, or the folder or program does not exist.
        """
        pattern, equals, target = text.partition("=")
        if not equals or not pattern or not target:
            raise InvalidMapping(f'--image "{text}": write NAME=PATH, or NAME={HOST} for the files of this machine')
        if target == HOST:
            return cls(short_name(pattern), HOST)
        path = Path(target).expanduser().absolute()
        if not path.is_dir() and not is_program(path):
            raise InvalidMapping(
                f'--image "{text}": "{path}" is neither a folder nor a program; '
                "specify a root folder, a Python environment or an executable file"
            )
        return cls(short_name(pattern), str(path))

    def matches(self, name: str) -> bool:
        """Return True if an image has this name, with or without its tag."""
        name = short_name(name)
        return fnmatchcase(name, self.pattern) or fnmatchcase(_TAG.sub("", name), self.pattern)


def short_name(image: str) -> str:
    """Return the name of an image without the registry that is the default."""
    for prefix in _REGISTRIES:
        if image.startswith(prefix):
            return image.removeprefix(prefix)
    return image


class MappedImages:
    """The images of this machine.

    Args:
        mappings: replacements; the matching pattern with the most characters other than `*` applies, then the first.
            Without any, each image means this machine.
        variables: of this process.
    """

    def __init__(self, mappings: Iterable[Mapped] = (), variables: Mapping[str, str] = os.environ) -> None:
        self._mappings = sorted(mappings, key=lambda each: -len(each.pattern.replace("*", "")))
        self._mappings = self._mappings or [Mapped("*", HOST)]
        self._host = {name: variables[name] for name in _KEPT if name in variables}

    async def pull(self, name: str, policy: str) -> None:
        """Do nothing: images are not pulled."""

    def find(self, name: str) -> Image:
        """Return an image.

        Raises:
            ContainerError: no mapping matches it.
        """
        if not name or any(character.isspace() for character in name):
            raise ContainerError("InvalidImageName", f'couldn\'t parse image name "{name}": invalid reference format')
        found = next((each for each in self._mappings if each.matches(name)), None)
        if found is None:
            message = (
                f'failed to pull image "{name}": images are not pulled from registries, and this one has no '
                f"mapping; restart with --image {short_name(name)}={HOST} (the files of this machine) or with "
                f"--image {short_name(name)}=PATH (a root folder, a Python environment or a program)"
            )
            raise ContainerError("ErrImagePull", message)
        if found.target == HOST:
            return Image(None, dict(self._host), id=f"{HOST}:{name}")
        folder = Path(found.target)
        if is_program(folder):
            return Image(None, dict(self._host), (str(folder),), id=f"{folder}:{name}", part=folder)
        if not folder.is_dir():
            raise ContainerError("ErrImagePull", f'failed to pull image "{name}": "{folder}" no longer exists')
        if is_python_environment(folder):
            variables = {**self._host, **_environment_of(folder, self._host)}
            return Image(None, variables, id=f"{folder}:{name}", part=folder)
        return Image(folder, {"PATH": _DEFAULT_PATH}, id=f"{folder}:{name}")


def is_program(path: Path) -> bool:
    """Return True if a path is an executable file."""
    return path.is_file() and os.access(path, os.X_OK)


def is_python_environment(folder: Path) -> bool:
    """Return True if a folder is a virtual environment, or one of conda."""
    return (folder / "pyvenv.cfg").is_file() or (folder / "conda-meta").is_dir()


def _environment_of(folder: Path, host: Mapping[str, str]) -> dict[str, str]:
    """The variables that `activate` sets."""
    name = "VIRTUAL_ENV" if (folder / "pyvenv.cfg").is_file() else "CONDA_PREFIX"
    return {"PATH": f"{folder / 'bin'}:{host.get('PATH', _DEFAULT_PATH)}", name: str(folder)}
