"""The tasks of `kilauea.apiserver.heavy`, by name: functions from bytes to bytes.

Small ones run in the server's process, others in separate processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec
import yaml

from kilauea.apiserver.crd.definition_checks import check_definition
from kilauea.apiserver.crd.rules import apply_heavy_rules
from kilauea.apiserver.deferred import encoded_causes
from kilauea.apiserver.dynamic.evaluation import evaluate_elsewhere
from kilauea.apiserver.dynamic.type_checks import check_types
from kilauea.apiserver.heavy import Task
from kilauea.apiserver.parsing import parse_json, parse_protobuf, parse_yaml
from kilauea.apiserver.protobuf import encode_protobuf
from kilauea.apiserver.rbac.coverage import compare_rights
from kilauea.apiserver.resources.message_names import message_name
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.policies import check_mutating_policy, check_validating_policy
from kilauea.apiserver.strategies.webhooks import check_webhooks

_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def write_protobuf(value: bytes) -> bytes:
    """Convert the JSON of an object or list of a built-in kind to protobuf."""
    return encode_protobuf(msgspec.json.decode(value), message_name)


def write_yaml(value: bytes) -> bytes:
    """Convert JSON to YAML."""
    return yaml.dump(msgspec.json.decode(value), Dumper=_DUMPER, default_flow_style=False).encode()


CHECKS: Mapping[str, Callable[..., Iterable[Cause]]] = {
    "definition": check_definition,
    "mutating policy": check_mutating_policy,
    "validating policy": check_validating_policy,
    "webhooks": check_webhooks,
}
"""Checks of objects, by their names in strategies (`deferred.causes_of`)."""


def check(question: bytes) -> bytes:
    """Return the errors of a check."""
    name, arguments = msgspec.json.decode(question)
    return encoded_causes(CHECKS[name](*arguments))


TASKS: Mapping[Task, Callable[[bytes], bytes]] = {
    "apply rules": apply_heavy_rules,
    "check": check,
    "check types": check_types,
    "compare rights": compare_rights,
    "evaluate": evaluate_elsewhere,
    "parse json": lambda body: msgspec.json.encode(parse_json(body)),
    "parse protobuf": lambda body: msgspec.json.encode(parse_protobuf(body)),
    "parse yaml": lambda body: msgspec.json.encode(parse_yaml(body)),
    "write yaml": write_yaml,
    "write protobuf": write_protobuf,
}


class AtOnce:
    """Runs each task at once in this process, for tests and tools that serve one client."""

    async def run(self, task: Task, data: bytes) -> bytes:
        """Return the result of a task."""
        return TASKS[task](data)
