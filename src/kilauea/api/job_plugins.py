"""The plugins that a Volcano job may name in `spec.plugins`, and their arguments.

Arguments have the format of Go flags: `--port=22`, `-port=22`, or `--port` followed by `22`; a boolean one takes a
value only after `=`, and is true without. The job controller parses them, and admission warns about invalid ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import FieldInfo, fields

from kilauea.api.wellknown import parse_bool

Port = Annotated[int, msgspec.Meta(ge=1, le=65535, description="a port from 1 to 65535")]
Seconds = Annotated[int, msgspec.Meta(ge=1, le=86400, description="seconds from 1 to 86400")]
NameTemplate = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^([^{}]|\{\{ *\.(Name|Namespace|UID) *\}\})+$",
        description="a name, in which only {{.Name}}, {{.Namespace}} and {{.UID}} are replaced",
    ),
]
Texts = Annotated[dict[str, str], msgspec.Meta(description="a map from names to texts, in JSON")]


class PluginFault(Exception):
    """A plugin does not exist, or cannot use its arguments or the job.

    Attributes:
        plugin: the name of the plugin.
        why: the error and the remedy.
    """

    def __init__(self, plugin: str, why: str) -> None:
        super().__init__(f"plugin {plugin}: {why}")
        self.plugin = plugin
        self.why = why


# --- arguments of each plugin


class Arguments(msgspec.Struct, frozen=True, rename="kebab"):
    """Arguments of a plugin: a field for each flag, with its default."""


class SvcArguments(Arguments, frozen=True, rename="kebab"):
    """Arguments of svc."""

    publish_not_ready_addresses: bool = False
    """Names are in the DNS before pods are ready."""
    disable_network_policy: bool = False
    """Everybody may reach the pods."""
    inject_hosts_env: bool = True
    """Containers have the names in variables; for tasks of thousands of pods the files are enough."""


class SshArguments(Arguments, frozen=True, rename="kebab"):
    """Arguments of ssh."""

    ssh_key_file_path: str = "/root/.ssh"
    """The folder where the keys are mounted."""
    ssh_private_key: str = ""
    """The user's own key, as text; a key is made if it is empty."""
    ssh_public_key: str = ""
    ssh_port: Port = 22
    """The port of the daemons."""


class TensorflowArguments(Arguments, frozen=True, rename="kebab"):
    """Arguments of tensorflow: the tasks with these roles, and the port of all."""

    ps: str = "ps"
    worker: str = "worker"
    chief: str = "chief"
    evaluator: str = "evaluator"
    port: Port = 2222


class MpiArguments(Arguments, frozen=True, rename="kebab"):
    """Arguments of mpi: the two tasks, and the port of the ssh daemons."""

    master: str = "master"
    worker: str = "worker"
    port: Port = 22


class PytorchArguments(Arguments, frozen=True, rename="kebab"):
    """Arguments of pytorch: the two tasks, the master's port, and whether workers wait until it answers."""

    master: str = "master"
    worker: str = "worker"
    port: Port = 23456
    wait_master_enabled: bool = False
    wait_master_timeout: Seconds = 300
    wait_master_image: str = "busybox:1.36.1"


class RayArguments(Arguments, frozen=True, rename="camel"):
    """Arguments of ray: the two tasks, the container in each that runs Ray, and the ports of the head."""

    head: str = "head"
    worker: str = "worker"
    head_container: str = "head"
    worker_container: str = "worker"
    port: Port = 6379
    dashboard_port: Port = 8265
    client_port: Port = 10001


class HcclrankArguments(Arguments, frozen=True, rename="kebab"):
    """Arguments of hcclrank: the two tasks whose pods are counted, masters first."""

    master: str = "master"
    worker: str = "worker"


class RingsConfigMapArguments(Arguments, frozen=True, rename="kebab"):
    """Arguments of ringsconfigmap: the ConfigMap, and where it is mounted."""

    configmap_name_template: NameTemplate = "rings-config-{{.Name}}"
    volume_name: str = "ascend-910-config"
    mount_path: str = "/user/serverid/devindex/config"
    configmap_labels: Texts = msgspec.field(default_factory=lambda: {"ring-controller.atlas": "ascend-910b"})
    configmap_data: Texts = msgspec.field(default_factory=lambda: {"hccl.json": '{"status":"initializing"}'})
    configmap_annotations: Texts = {}


ARGUMENTS: Mapping[str, type[Arguments]] = {
    "svc": SvcArguments,
    "ssh": SshArguments,
    "env": Arguments,
    "tensorflow": TensorflowArguments,
    "mpi": MpiArguments,
    "pytorch": PytorchArguments,
    "ray": RayArguments,
    "hcclrank": HcclrankArguments,
    "ringsconfigmap": RingsConfigMapArguments,
}
"""Arguments of each plugin, in the order in which plugins run: hcclrank reads the rank that pytorch writes."""


# --- reading


Kind = TypeVar("Kind", bound=Arguments)


class _Flag(NamedTuple):
    """An argument as written.

    Attributes:
        text: the argument.
        field: the field; None if the argument is unknown.
        value: the text of its value; None without a value.
        switch: the boolean argument before it, if it looks like the value of that.
    """

    text: str
    field: FieldInfo | None
    value: str | None
    switch: str = ""


def read(plugin: str, kind: type[Kind], given: Sequence[str]) -> Kind:
    """Parse the arguments of a plugin; unknown ones are ignored.

    Raises:
        PluginFault: a known argument has an invalid value, or none.
    """
    values = {each.field.name: _value(plugin, each.field, each.value) for each in _flags(kind, given) if each.field}
    return kind(**values)


def unknown_arguments(plugins: Mapping[str, Sequence[str] | None]) -> list[str]:
    """Return a message for each unknown argument of a job's plugins, with the supported ones."""
    return [
        f"spec.plugins.{name}: unknown argument '{each.text}' is ignored: {_help(each, kind)}"
        for name, kind in ARGUMENTS.items()
        for each in _flags(kind, plugins.get(name) or ())
        if each.field is None
    ]


def wrong_arguments(plugins: Mapping[str, Sequence[str] | None]) -> list[str]:
    """Return a message for each plugin of a job with an invalid argument."""
    errors = []
    for name, kind in ARGUMENTS.items():
        try:
            read(name, kind, plugins.get(name) or ())
        except PluginFault as fault:
            errors.append(f"spec.plugins.{name}: {fault.why}")
    return errors


def argument_value(kind: type[Arguments], given: Sequence[str], flag: str) -> str | None:
    """Return the value of one argument in a job, as text; None if not given."""
    values = [each.value for each in _flags(kind, given) if each.field is not None and each.field.encode_name == flag]
    return values[-1] if values else None


def _flags(kind: type[Arguments], given: Sequence[str]) -> Iterator[_Flag]:
    """Yield each argument with the text of its value; a text after an unknown one is its value, unless a flag."""
    if not given:
        return  # the common case, in which the types of all plugins need not be searched
    known = {each.encode_name: each for each in fields(kind)}
    rest, switch = list(reversed(given)), ""
    while rest:
        text = rest.pop()
        name, equals, value = text.removeprefix("-").removeprefix("-").partition("=")
        field = known.get(name) if text.startswith("-") else None
        if field is not None and field.type is bool:
            yield _Flag(text, field, value if equals else "true")
            switch = "" if equals else name
            continue
        if field is not None:
            yield _Flag(text, field, value if equals else (rest.pop() if rest else None))
        else:
            yield _Flag(text, None, None, switch if parse_bool(text) is not None else "")
            if text.startswith("-") and not equals and rest and not rest[-1].startswith("-"):
                rest.pop()
        switch = ""


def _help(flag: _Flag, kind: type[Arguments]) -> str:
    known = [each.encode_name for each in fields(kind)]
    if flag.switch:
        return f"did you mean --{flag.switch}={flag.text}?"
    if not known:
        return "the plugin takes none"
    near = get_close_matches(flag.text.lstrip("-").partition("=")[0], known, 1)
    if near:
        return f"did you mean --{near[0]}?"
    return "the plugin takes " + ", ".join(f"--{each}" for each in known)


def _value(plugin: str, field: FieldInfo, text: str | None) -> Any:
    """Parse a value."""
    flag = field.encode_name
    if text is None:
        raise PluginFault(plugin, f"argument --{flag} has no value: write --{flag}={default_text(field)}")
    if field.type is str:
        return text
    if field.type is bool:
        value: Any = parse_bool(text)
        wanted = "true or false"
    else:
        value, wanted = _converted(field, text)
    if value is None:
        example = "true" if field.type is bool else default_text(field)
        raise PluginFault(plugin, f"argument --{flag} is {text!r}: write {wanted}, such as --{flag}={example}")
    return value


def default_text(field: FieldInfo) -> str:
    """Return the default of an argument, formatted as in a job."""
    default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    if isinstance(default, bool):
        return str(default).lower()
    return msgspec.json.encode(default).decode() if isinstance(default, dict) else str(default)


def _converted(field: FieldInfo, text: str) -> tuple[Any, str]:
    """Return the value of a restricted argument, or None if invalid; and a description of the valid values."""
    wanted = msgspec.inspect.type_info(field.type)
    message, kind = "a number", wanted
    if isinstance(wanted, msgspec.inspect.Metadata):
        message, kind = (wanted.extra_json_schema or {}).get("description", message), wanted.type
    try:
        if isinstance(kind, msgspec.inspect.DictType):
            return msgspec.json.decode(text, type=field.type), message
        return msgspec.convert(text, field.type, strict=False), message
    except (msgspec.ValidationError, msgspec.DecodeError):
        return None, message
