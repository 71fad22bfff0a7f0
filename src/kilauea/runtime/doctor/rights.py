"""The permissions that users and components need, and the check that they have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kilauea.api.kinds import DEPLOYMENTS
from kilauea.runtime.doctor.facts import Facts, Right
from kilauea.runtime.doctor.findings import ERROR, SKIPPED, WARNING, Check, Finding, check_of
from kilauea.runtime.doctor.installation import CONTROLLERS, KILAUEA, SCHEDULER, WEBHOOKS, Component, components
from kilauea.runtime.doctor.running import unread_deployments

USER = """
list: pods nodes namespaces podgroups.scheduling.volcano.sh queues.scheduling.volcano.sh jobs.batch.volcano.sh
create: jobs.batch.volcano.sh
"""
"""Permissions of users who submit jobs and explain why they wait."""
NEEDED = {
    SCHEDULER: """
list,watch: pods nodes namespaces resourcequotas services replicasets.apps statefulsets.apps
list,watch: persistentvolumes persistentvolumeclaims poddisruptionbudgets.policy priorityclasses.scheduling.k8s.io
list,watch: storageclasses.storage.k8s.io podgroups.scheduling.volcano.sh queues.scheduling.volcano.sh
create: pods/binding events queues.scheduling.volcano.sh
delete: pods
patch: pods/status podgroups.scheduling.volcano.sh queues/status.scheduling.volcano.sh
""",
    CONTROLLERS: """
list,watch: pods nodes services configmaps secrets persistentvolumeclaims daemonsets.apps replicasets.apps
list,watch: statefulsets.apps jobs.batch jobs.batch.volcano.sh cronjobs.batch.volcano.sh commands.bus.volcano.sh
list,watch: podgroups.scheduling.volcano.sh queues.scheduling.volcano.sh jobflows.flow.volcano.sh
create: pods services configmaps secrets persistentvolumeclaims events podgroups.scheduling.volcano.sh
create: jobs.batch.volcano.sh
delete: pods commands.bus.volcano.sh podgroups.scheduling.volcano.sh jobs.batch.volcano.sh
patch: pods jobs.batch.volcano.sh jobs/status.batch.volcano.sh podgroups.scheduling.volcano.sh
patch: queues/status.scheduling.volcano.sh jobflows/status.flow.volcano.sh
""",
    WEBHOOKS: """
list,watch: namespaces queues.scheduling.volcano.sh podgroups.scheduling.volcano.sh jobs.batch.volcano.sh
list,create: mutatingwebhookconfigurations.admissionregistration.k8s.io
list,create: validatingwebhookconfigurations.admissionregistration.k8s.io
""",
}
"""Permissions that a part requires; those for kinds that a cluster may lack are left out."""


def rights_in(text: str) -> list[Right]:
    """Return the rights that lines of `verbs: resources` name."""
    found = []
    for line in text.strip().splitlines():
        verbs, _, resources = line.partition(":")
        for resource in resources.split():
            name, _, group = resource.partition(".")
            found += [Right(verb, group, name) for verb in verbs.split(",")]
    return found


def rights_of(component: Component) -> list[Right]:
    """Return the rights that a component needs, with those for its lease."""
    found = rights_in(NEEDED[component.part])
    if component.lease is not None:
        namespace, name = component.lease
        group, resource = "coordination.k8s.io", "leases"
        found += [Right(verb, group, resource, namespace, name) for verb in ("get", "update")]
        found.append(Right("create", group, resource, namespace))
    return found


def accounts_to_ask(facts: Facts) -> dict[str, list[Right]]:
    """Return the service accounts of components, with the rights that they need."""
    return {each.account: rights_of(each) for each in components(facts) if each.product == KILAUEA}


def check_user(facts: Facts) -> Check:
    """Check the rights of the current user."""
    answers = facts.rights.get("", {})
    missing = [right for right, allowed in answers.items() if allowed is False]
    findings = [
        Finding(
            WARNING,
            "your user",
            "",
            str(right),
            f"you may not {right}",
            f"ask an administrator for a role: {_role(right)}",
        )
        for right in missing
    ]
    return check_of("user", "you may submit jobs and see why they wait", findings)


def _role(right: Right) -> str:
    """Return a command that makes a role with a right."""
    resource, _, subresource = right.resource.partition("/")
    full = f"{resource}.{right.group}" if right.group else resource
    full = f"{full}/{subresource}" if subresource else full
    return f"`kubectl create clusterrole NAME --verb={right.verb} --resource={full}`"


def check_accounts(facts: Facts) -> Check:
    """Check the rights of the service accounts of components."""
    if DEPLOYMENTS in facts.refused:
        return check_of("rights", "", [unread_deployments(facts)])
    asked = accounts_to_ask(facts)
    if not asked:
        return Check("rights", "no Deployment of Kilauea to check")
    findings = [finding for account, rights in sorted(asked.items()) for finding in _account(facts, account, rights)]
    names = ", ".join(_short(account) for account in sorted(asked))
    return check_of("rights", f"{names} have all required permissions", findings)


def _short(account: str) -> str:
    namespace, name = account.split(":")[2:]
    return f"ServiceAccount {namespace}/{name}"


def _account(facts: Facts, account: str, rights: Sequence[Right]) -> Iterator[Finding]:
    answers = facts.rights.get(account, {})
    where = _short(account)
    if any(answers.get(right) is None for right in rights):
        fix = "grant your user create on subjectaccessreviews.authorization.k8s.io"
        yield Finding(SKIPPED, where, "", "", "you may not check the permissions of service accounts", fix)
        return
    for right in rights:
        if not answers[right]:
            place = f" in {right.namespace}" if right.namespace else ""
            message = f"it may not {right}{place}"
            fix = f"{_role(right)}, and bind it: `kubectl create clusterrolebinding NAME --clusterrole=NAME "
            fix += f"--serviceaccount={':'.join(account.split(':')[2:])}`"
            yield Finding(ERROR, where, "", str(right), message, fix)
