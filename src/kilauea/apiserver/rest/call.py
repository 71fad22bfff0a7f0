"""A resource request in progress: its resolved target, with the options that all writes share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, ParamSpec, TypeVar

from kilauea.apiserver import status
from kilauea.apiserver.admission.attributes import Attributes, Operation
from kilauea.apiserver.backend import Backend
from kilauea.apiserver.fields import invalid_value, not_supported
from kilauea.apiserver.large_writes import LARGE, Turn
from kilauea.apiserver.negotiation import View
from kilauea.apiserver.request import ANONYMOUS, ApiRequest, RequestInfo, User
from kilauea.apiserver.resources.types import ResourceType, Subresource
from kilauea.apiserver.rest.alike import Like
from kilauea.apiserver.status import ApiFault, Cause

Object = dict[str, Any]
P = ParamSpec("P")
T = TypeVar("T")
FieldValidation = Literal["Ignore", "Warn", "Strict"]
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
MAX_MANAGER = 128


@dataclass(slots=True)
class Call:
    """A request with the kind of its resource."""

    backend: Backend
    request: ApiRequest
    info: RequestInfo
    resource: ResourceType
    subresource: Subresource | None = None
    warnings: list[str] = field(default_factory=list)
    view: View | None = None
    """The form of the answer, once it is known (`answers.view_of`)."""
    like: Like | None = None
    """The specification of a new object that may be like others (`rest.alike`)."""
    turn: Turn | None = None
    """The turn of a large write; None if all work is done in the event loop."""

    async def aside(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Call a function that depends only on the written object, outside the event loop if the write is large."""
        if self.turn is None:
            return function(*args, **options)
        return await self.turn.run(partial(function, *args, **options))

    def grow(self, size: int) -> None:
        """Continue as a large write if a change of this many bytes makes it one."""
        writes = self.backend.large_writes
        if self.turn is None and writes is not None and size > LARGE:
            self.turn = writes.turn(self.user.tenant)

    def rest(self) -> None:
        """Let other large writes continue while this one waits."""
        if self.turn is not None:
            self.turn.rest()

    async def pause(self) -> None:
        """Let other requests run, and wait for the next turn of a step of a long list or watch.

        Components of this process do not wait: while clients write, they would fall further and further behind.
        """
        if self.request.is_ours:
            await asyncio.sleep(0)
        else:
            await self.backend.reading_turns.pause(self.user.tenant)

    def end_turn(self) -> None:
        """Let other large writes begin after this one."""
        if self.turn is not None:
            self.turn.end()

    @property
    def user(self) -> User:
        """The caller."""
        return self.request.user or ANONYMOUS

    @property
    def namespace(self) -> str:
        """The namespace of the request; empty for cluster-scoped objects."""
        return self.info.namespace if self.resource.namespaced else ""

    @property
    def key(self) -> str:
        """The key of the object that the request names."""
        return self.resource.key(self.namespace, self.info.name)

    def dry_run(self) -> bool:
        """True if the request must not write anything."""
        if not self.request.query:
            return False
        asked = [value for key, value in self.request.query if key == "dryRun"]
        return is_dry_run(asked, self._options_kind())

    def field_validation(self) -> FieldValidation:
        """The treatment of unknown fields."""
        asked = self.request.first("fieldValidation")
        if asked in ("", "Warn"):
            return "Warn"
        if asked == "Ignore":
            return "Ignore"
        if asked == "Strict":
            return "Strict"
        raise self.bad_options([not_supported("fieldValidation", asked, _VALIDATIONS)])

    def field_manager(self) -> str:
        """The manager that sets fields: the requested one, or the first word of the user agent."""
        asked = self.request.first("fieldManager")
        if asked:
            if len(asked.encode()) > MAX_MANAGER:
                raise self.bad_options([Cause("fieldManager", "FieldValueTooLong", _TOO_LONG)])
            for at, character in enumerate(asked):
                if not character.isprintable():
                    message = f"invalid character U+{ord(character):04X} (at position {at})"
                    raise self.bad_options([invalid_value("fieldManager", asked, message)])
            return asked
        return self.request.headers.get("user-agent", "").partition("/")[0][:MAX_MANAGER]

    def bad_options(self, causes: Sequence[Cause]) -> ApiFault:
        """Return the error for invalid options."""
        return status.invalid(self._options_kind(), "meta.k8s.io", "", causes)

    def attributes(self, operation: Operation, obj: Object | None, old: Object | None, name: str = "") -> Attributes:
        """Return the attributes for admission."""
        subresource = self.subresource.name if self.subresource else ""
        return Attributes(
            self.backend, operation, self.resource, subresource, self.namespace, name or self.info.name,
            obj, old, self.user, self.dry_run(), self.warnings, verb=self.info.verb, work=self,
        )  # fmt: skip

    def not_found(self, name: str = "") -> ApiFault:
        """Return the error for an object that does not exist."""
        return status.not_found(self.resource.plural, self.resource.group, name or self.info.name)

    def conflict(self, why: str = status.MODIFIED, name: str = "") -> ApiFault:
        """Return the error for a write to an object that has changed."""
        return status.conflict(self.resource.plural, self.resource.group, name or self.info.name, why)

    def _options_kind(self) -> str:
        return {"create": "CreateOptions", "patch": "PatchOptions", "update": "UpdateOptions"}.get(
            self.info.verb, "DeleteOptions"
        )


_TOO_LONG = f"Too long: may not be more than {MAX_MANAGER} bytes"


def is_dry_run(asked: Sequence[str], kind: str) -> bool:
    """Return True if the values of `dryRun` request a dry run; only `All` is valid."""
    if any(value != "All" for value in asked):
        raise status.invalid(kind, "meta.k8s.io", "", [not_supported("dryRun", list(asked), ["All"])])
    return bool(asked)
