"""Plugin ssh: lets the pods of a job log in to each other without a password."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from kilauea.api.job_plugins import SshArguments, read
from kilauea.api.kinds import SECRETS
from kilauea.api.ports import Obj
from kilauea.controllers.objects import name_of
from kilauea.controllers.vcjobs.plugins.additions import add_volume
from kilauea.controllers.vcjobs.plugins.base import Belonging, JobPlugin, Pod, Task

DEFAULT_PATH = SshArguments().ssh_key_file_path
_KEY_BITS = 2048
_FOLDER = ".ssh"
_FILES = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
_ONLY_OWNER, _READABLE = 0o600, 0o644


class Ssh(JobPlugin):
    """Keys for pods, in a Secret."""

    name = "ssh"

    def __init__(self, job: Obj, arguments: Sequence[str]) -> None:
        super().__init__(job, arguments)
        self._flags = read(self.name, SshArguments, arguments)
        self._secret = f"{name_of(job)}-ssh"

    @property
    def belongings(self) -> Sequence[Belonging]:
        """The Secret with the keys."""
        return [Belonging(SECRETS, self._secret, self._content, self._refreshed)]

    def on_pod(self, pod: Pod, task: Task, index: int) -> None:
        """Mount the keys."""
        add_volume(pod, self._volume, {"mountPath": self._flags.ssh_key_file_path, "subPath": _FOLDER})

    @cached_property
    def _volume(self) -> dict[str, Any]:
        mode = _ONLY_OWNER if self._flags.ssh_key_file_path == DEFAULT_PATH else _READABLE
        items = [{"key": each, "path": f"{_FOLDER}/{each}"} for each in _FILES]
        return {"name": self._secret, "secret": {"secretName": self._secret, "items": items, "defaultMode": mode}}

    def _content(self) -> dict[str, Any]:
        private, public = self._flags.ssh_private_key, self._flags.ssh_public_key
        if not private:
            private, public = new_keys()
        texts = dict(zip(_FILES, (private, public, public, self._config), strict=True))
        return {"data": {name: _encoded(text) for name, text in texts.items()}}

    def _refreshed(self, found: Obj) -> dict[str, Any] | None:
        """Update the configuration after a task was scaled; the keys stay, since running pods use them."""
        wanted = _encoded(self._config)
        return None if (found.get("data") or {}).get("config") == wanted else {"data": {"config": wanted}}

    @cached_property
    def _config(self) -> str:
        """The configuration of the SSH client."""
        lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
        for task in self.tasks:
            for host, domain in self.hosts(task):
                lines += [f"Host {host}", f"  HostName {host}.{domain}", f"  Port {self._flags.ssh_port}"]
        return "\n".join(lines) + "\n"


def new_keys() -> tuple[str, str]:
    """A private key (PKCS#1, PEM) and the public one (as OpenSSH writes it).

    This is the only random value of a controller: keys derived from the job would not be secret. They are generated
    once, with the Secret, which takes tens of milliseconds.
    """
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - for few jobs, and takes long
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415

    key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return private.decode(), public.decode() + "\n"


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()
