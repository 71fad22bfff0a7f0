"""Calls of webhooks and policies for a write, in the order of the real server."""

from __future__ import annotations

from typing import Any

from kilauea.apiserver.admission import Effect
from kilauea.apiserver.admission.attributes import Attributes, asking_about
from kilauea.apiserver.decoding import decode
from kilauea.apiserver.dynamic.matching import EXEMPT, GROUP, is_exempt
from kilauea.apiserver.dynamic.mutations import change_by_policies
from kilauea.apiserver.dynamic.policies import Policy, check_by_policies, policies_of
from kilauea.apiserver.dynamic.policy_status import update_policy_status
from kilauea.apiserver.dynamic.remote import Remote
from kilauea.apiserver.dynamic.webhooks import Dispatcher, Settle, Webhook, webhooks_of
from kilauea.apiserver.storage import Store, Stored


class DynamicAdmission:
    """The webhooks and policies of one server.

    Args:
        store: the objects.
        remote: calls webhooks.
    """

    def __init__(self, store: Store, remote: Remote | None = None) -> None:
        self.remote = remote
        self._store = store
        self._dispatcher = Dispatcher(remote)
        self._fresh = False
        self._has_any = False
        self._known: dict[str, dict[str, tuple[int, dict[str, Any]]]] = {}
        """Configurations by kind and key, with their revisions."""
        self._mutating: list[Webhook] = []
        self._validating: list[Webhook] = []
        self._checking: list[Policy] = []
        self._changing: list[Policy] = []

    def forget(self) -> None:
        """Read the configurations again before the next write."""
        self._fresh = False

    def has_any(self) -> bool:
        """Return True if there are webhooks or policies."""
        if not self._fresh:
            self._read()
        return self._has_any

    def is_asked(self, attributes: Attributes) -> bool:
        """Return True if webhooks or policies may apply to a write."""
        if self._fresh and not self._has_any:  # the case of most writes
            return False
        return self.has_any() and not is_exempt(attributes)

    async def mutate(self, attributes: Attributes, settle: Settle) -> None:
        """Run mutating webhooks and policies; raise an `ApiFault` to reject the write.

        Args:
            attributes: the write; its object is changed in place.
            settle: completes the object after a change, as the built-in steps do.
        """
        hooks, policies = list(self._mutating), list(self._changing)
        with asking_about(attributes):
            await change_by_policies(policies, attributes, settle)
            changed, again = await self._dispatcher.mutate(hooks, attributes, settle, set())
            if changed:
                await change_by_policies([each for each in policies if each.is_reinvocable], attributes, settle)
            if again:
                await self._dispatcher.mutate(hooks, attributes, settle, again)

    async def validate(self, attributes: Attributes) -> None:
        """Run validating webhooks and policies; raise an `ApiFault` to reject the write."""
        with asking_about(attributes):
            await check_by_policies(self._checking, attributes)
            await self._dispatcher.validate(list(self._validating), attributes)

    def begin(self, attributes: Attributes) -> Effect | None:
        """Return the effect of the write, which begins next: a configuration is read again once it is stored."""
        if attributes.resource.group != GROUP or attributes.resource.plural not in EXEMPT or attributes.dry_run:
            return None
        return ConfigurationChange(self, attributes)

    def _read(self) -> None:
        """Read the configurations."""
        self._mutating = webhooks_of(self._all("mutatingwebhookconfigurations"), mutating=True)
        self._validating = webhooks_of(self._all("validatingwebhookconfigurations"), mutating=False)
        self._checking = policies_of(
            self._all("validatingadmissionpolicies"), self._all("validatingadmissionpolicybindings")
        )
        self._changing = policies_of(
            self._all("mutatingadmissionpolicies"), self._all("mutatingadmissionpolicybindings")
        )
        self._has_any = bool(self._mutating or self._validating or self._checking or self._changing)
        self._fresh = True

    def _all(self, plural: str) -> list[dict[str, Any]]:
        """Return the configurations of a kind, reading only the changed ones."""
        before, known = self._known.get(plural, {}), {}
        for each in self._store.list(f"/{GROUP}/{plural}/").items:
            last = before.get(each.key)
            known[each.key] = (
                last if last is not None and last[0] == each.revision else (each.revision, decode(each.value))
            )
        self._known[plural] = known
        return [configuration for _, configuration in known.values()]


class ConfigurationChange:
    """The effect of writing a configuration: it is read again, and a policy is checked. Implements `Effect`."""

    def __init__(self, dynamic: DynamicAdmission, attributes: Attributes) -> None:
        self._dynamic = dynamic
        self._attributes = attributes

    def cancel(self) -> None:
        """Do nothing, as the write has failed."""

    async def settle(self, stored: Stored) -> None:
        """Read the stored configuration again."""
        self._dynamic.forget()
        attributes = self._attributes
        if attributes.resource.plural == "validatingadmissionpolicies" and attributes.operation != "DELETE":
            await update_policy_status(attributes.backend, stored)
