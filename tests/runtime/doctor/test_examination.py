"""`kilauea doctor`: each finding names an object, a field, its value and a fix, and is gone once the fix is done."""

from __future__ import annotations

import asyncio
import base64
import datetime
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kilauea.api.crds import definitions
from kilauea.api.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DEFINITIONS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    EVENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICES,
    VALIDATING_WEBHOOKS,
    VC_JOBS,
)
from kilauea.api.ports import ApiError, Key, Resource
from kilauea.api.times import SECOND, format_time
from kilauea.apiserver.request import User
from kilauea.apiserver.schema import openapi_definitions
from kilauea.client.transport import Answer, unreachable
from kilauea.engine.conf import DEFAULT_CONF
from kilauea.pki import SERVER, Authority, pem, subject
from kilauea.runtime.cluster.direct import DirectTransport
from kilauea.runtime.doctor.examination import examine
from kilauea.runtime.doctor.findings import Check, Finding
from kilauea.runtime.doctor.rights import NEEDED
from support.controlled import Cluster

INSTALLATION = Path(__file__).parents[3] / "deploy" / "install.yaml"
NAMESPACE, OTHER = "volcano-system", "other"
SERVICE = {"namespace": NAMESPACE, "name": "volcano-admission-service", "path": "/jobs/validate", "port": 443}


class Patient(Cluster):
    """A cluster with everything, to be broken and mended."""

    def __init__(self) -> None:
        super().__init__(volcano=True)
        self.user: User | None = None
        self.added: dict[tuple[Resource, Key], None] = {}
        for name in (NAMESPACE, OTHER):
            self.add(NAMESPACES, "", {"metadata": {"name": name}})
        for name in ("root", "default"):
            self.add(QUEUES, "", {"metadata": {"name": name}, "spec": {"weight": 1}})
        self.added.clear()

    def clear(self) -> None:
        """Delete all that a test has added."""
        self.user = None
        for resource, key in self.added:
            with suppress(ApiError):
                self.api.run(self.client.delete(resource, key, grace=0))
        self.added.clear()

    def add(self, resource: Resource, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create an object, with its status."""
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        made = self.api.run(self.client.create(resource, namespace, {**head, **body}))
        key = Key(namespace, made["metadata"]["name"])
        self.added[resource, key] = None
        if "status" in body:
            self.api.run(self.client.patch(resource, key, {"status": body["status"]}, subresource="status"))
        return made

    def change(self, resource: Resource, namespace: str, name: str, patch: dict[str, Any]) -> None:
        """Patch an object."""
        self.api.run(self.client.patch(resource, Key(namespace, name), patch))

    def drop(self, resource: Resource, namespace: str, name: str) -> None:
        """Delete an object."""
        self.api.run(self.client.delete(resource, Key(namespace, name)))

    def checks(self) -> dict[str, Check]:
        """All checks, by name."""
        transport = DirectTransport(self.api.server, "doctor")
        if self.user is not None:
            transport._user = self.user
        found = self.api.run(examine(transport, "https://192.0.2.1:6443", self.api.now))
        return {each.name: each for each in found}

    def finding(self, name: str) -> Finding:
        """The only finding of a check."""
        found = self.checks()[name].findings
        assert len(found) == 1, found
        return found[0]

    def status(self, name: str) -> str:
        """The status of a check."""
        return self.checks()[name].status

    # --- parts of an installation

    def deploy(self, name: str, words: list[str], namespace: str = NAMESPACE, *, ready: int = 1, **more: Any) -> None:
        """A Deployment that runs a command."""
        image = more.pop("image", "example.com/kilauea:1")
        container = {"name": "c", "image": image, "command": words, "volumeMounts": more.pop("mounts", [])}
        pod = {"serviceAccountName": name, "containers": [container], "volumes": more.pop("volumes", [])}
        labels = {"app": name}
        spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
        status = {"readyReplicas": ready, "replicas": 1, "availableReplicas": ready}
        self.add(DEPLOYMENTS, namespace, {"metadata": {"name": name}, "spec": spec, "status": status})

    def grant(self, part: str, account: str) -> None:
        """Every right to a service account."""
        rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
        self.add(CLUSTER_ROLES, "", {"metadata": {"name": part}, "rules": rules})
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": part}
        subjects = [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}]
        self.add(CLUSTER_ROLE_BINDINGS, "", {"metadata": {"name": part}, "roleRef": ref, "subjects": subjects})

    def lease(self, name: str, age: float = 0, namespace: str = NAMESPACE, holder: str = "host_1") -> None:
        """A lease that was renewed some seconds ago."""
        renewed = format_time(self.api.now - int(age * SECOND)).replace("Z", ".000000Z")
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}
        self.add(LEASES, namespace, {"metadata": {"name": name}, "spec": spec})

    def pod(self, name: str, scheduler: str) -> None:
        """A pod that has waited for a scheduler for some time."""
        spec = {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}]}
        self.add(PODS, "default", {"metadata": {"name": name}, "spec": spec})
        self.api.now += 20 * SECOND

    def bound(self, scheduler: str, instance: str, *seconds: int) -> None:
        """Events of binds that a process of a scheduler made so many seconds ago."""
        for ago in seconds:
            at = format_time((self.api.now - ago * SECOND) // SECOND * SECOND)
            name = f"pod-{instance.replace('_', '-') or 'unnamed'}.{ago}"
            body = {
                "metadata": {"name": name},
                "involvedObject": {"kind": "Pod", "namespace": "default", "name": name},
                "reason": "Scheduled",
                "reportingComponent": scheduler,
                "reportingInstance": instance,
                "lastTimestamp": at,
            }
            self.add(EVENTS, "default", body)


@pytest.fixture(scope="module")
def one_patient() -> Iterator[Patient]:
    """The cluster of all tests."""
    made = Patient()
    yield made
    made.close()


@pytest.fixture
def patient(one_patient: Patient) -> Iterator[Patient]:
    """A healthy cluster without components."""
    yield one_patient
    one_patient.clear()


def test_a_cluster_with_everything_has_no_findings(patient: Patient) -> None:
    patient.deploy("volcano-scheduler", ["kilauea", "scheduler"])
    patient.grant("all", "volcano-scheduler")
    patient.pod("waits", "volcano")
    patient.lease("volcano")
    found = patient.checks()
    assert {each.name: each.findings for each in found.values() if each.findings} == {}
    names = "server version definitions user components installations rights leaders webhooks configuration names"
    assert list(found) == names.split()


# --- the server


class Broken(DirectTransport):
    """A server that does not answer, or refuses the user."""

    def __init__(self, error: ApiError) -> None:
        self._error = error

    async def request(self, *args: Any) -> Answer:
        """Fail."""
        raise self._error


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (unreachable("https://h: GET /: Connection refused"), "check that the server runs"),
        (unreachable("https://h: certificate verify failed: self-signed certificate"), "certificate-authority-data"),
        (unreachable("https://h: certificate verify failed: certificate has expired"), "renew the certificate"),
        (
            unreachable("https://h: certificate verify failed: IP address mismatch, certificate is not valid for 'h'"),
            "tls-server-name",
        ),
        (ApiError(401, "Unauthorized", "Unauthorized"), "renew users[].user"),
        (ApiError(400, "BadRequest", "Client sent an HTTP request to an HTTPS server."), "use https:// in"),
        (ApiError(404, "NotFound", "404 page not found"), "the address of an API server"),
        (ApiError(503, "ServiceUnavailable", "etcd is away"), "log of the API server"),
    ],
)
def test_without_an_answer_the_reason_and_the_fix_are_all_that_is_said(
    patient: Patient, error: ApiError, fix: str
) -> None:
    found = patient.api.run(examine(Broken(error), "https://h", 0))
    assert [(each.name, each.status) for each in found] == [("server", "error")]
    assert str(error) in found[0].findings[0].message
    assert fix in found[0].findings[0].fix


class Page(DirectTransport):
    """A server of something else, which answers everything with the same page."""

    def __init__(self, page: bytes) -> None:
        self._page = page

    async def request(self, *args: Any) -> Answer:
        """The page."""
        return Answer(200, {}, self._page)


@pytest.mark.parametrize("page", [b"<html>Welcome</html>", b"[]", b'{"status": "up"}', b""])
def test_a_server_that_is_no_api_server_is_an_error_that_shows_its_answer(patient: Patient, page: bytes) -> None:
    found = patient.api.run(examine(Page(page), "https://h", 0))
    assert [(each.name, each.status) for each in found] == [("server", "error")]
    assert page.decode() in found[0].findings[0].message
    assert "the address of an API server" in found[0].findings[0].fix


class Faulty(DirectTransport):
    """A server that fails for one kind."""

    def __init__(self, inner: DirectTransport, plural: str) -> None:
        self._inner, self._plural = inner, plural

    async def request(self, method: str, target: str, *args: Any) -> Answer:
        """Answer, but for that kind."""
        if target.partition("?")[0].endswith(f"/{self._plural}"):
            raise ApiError(500, "InternalError", "its store is broken")
        return await self._inner.request(method, target, *args)


@pytest.mark.parametrize(
    ("plural", "checks"),
    [
        ("deployments", {"components", "installations", "rights"}),
        ("queues", {"names"}),
        ("customresourcedefinitions", {"definitions"}),
    ],
)
def test_a_kind_that_the_server_fails_to_give_is_skipped_and_not_called_a_right_that_lacks(
    patient: Patient, plural: str, checks: set[str]
) -> None:
    found = patient.api.run(examine(Faulty(DirectTransport(patient.api.server, "doctor"), plural), "https://h", 0))
    skipped = {each.name: each.findings for each in found if each.status == "skipped"}
    assert set(skipped) == checks
    for findings in skipped.values():
        assert [(each.object.lower(), each.message) for each in findings] == [(plural, "its store is broken")]
        assert "grant" not in findings[0].fix


# --- definitions


def test_a_missing_definition_is_named_with_its_file(patient: Patient) -> None:
    name = "commands.bus.volcano.sh"
    wanted = next(each for each in definitions(openapi_definitions()) if each["metadata"]["name"] == name)
    patient.drop(DEFINITIONS, "", name)
    until(patient, lambda: patient.finding("definitions").field == "")  # its objects are deleted first
    found = patient.finding("definitions")
    assert (found.severity, found.object) == ("error", f"CustomResourceDefinition {name}")
    assert found.fix.endswith(f"-f deploy/crds/{name}.yaml")
    patient.api.run(patient.client.create(DEFINITIONS, "", wanted))
    until(patient, lambda: patient.status("definitions") == "ok")


def until(patient: Patient, true: Callable[[], bool]) -> None:
    """Let the server's own controllers work until something is true."""
    for _ in range(1000):
        if true():
            return
        patient.api.run(asyncio.sleep(0.02))
    raise AssertionError("it does not come true")


def test_fields_that_an_older_definition_drops_are_named(patient: Patient) -> None:
    name = "queues.scheduling.volcano.sh"
    ours = patient.get(DEFINITIONS, name)
    versions = msgspec.json.decode(msgspec.json.encode(ours["spec"]["versions"]))
    spec = versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    removed = {each: spec.pop(each) for each in ("parent", "dequeueStrategy") if each in spec}
    patient.change(DEFINITIONS, "", name, {"spec": {"versions": versions}})
    found = patient.finding("definitions")
    assert found.field == "spec.versions[v1beta1].schema"
    assert all(f"spec.{field}" in found.message for field in removed)
    patient.change(DEFINITIONS, "", name, {"spec": {"versions": ours["spec"]["versions"]}})
    assert patient.status("definitions") == "ok"


# --- rights


def test_a_right_that_a_component_lacks_is_named_with_the_command_that_grants_it(patient: Patient) -> None:
    patient.deploy("volcano-scheduler", ["kilauea", "scheduler", "--leader-elect=false"])
    missing = patient.checks()["rights"]
    assert {(each.severity, each.object) for each in missing.findings} == {
        ("error", "ServiceAccount volcano-system/volcano-scheduler")
    }
    binding = next(each for each in missing.findings if each.value == "create pods/binding")
    assert "kubectl create clusterrole NAME --verb=create --resource=pods/binding" in binding.fix
    assert "--serviceaccount=volcano-system:volcano-scheduler" in binding.fix
    patient.grant("all", "volcano-scheduler")
    assert patient.status("rights") == "ok"


def test_the_roles_of_the_installation_have_every_right_that_is_checked(patient: Patient) -> None:
    kinds = {each.kind: each for each in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS, DEPLOYMENTS)}
    for obj in yaml.load_all(INSTALLATION.read_text(), Loader=yaml.CSafeLoader):
        if obj is not None and obj["kind"] in kinds:
            patient.add(kinds[obj["kind"]], obj["metadata"].get("namespace", ""), obj)
    found = patient.checks()
    assert [(each.object, each.value) for each in found["rights"].findings] == []
    assert [each.split("/")[1] for each in found["rights"].summary.partition(" have ")[0].split(", ")] == [
        "volcano-admission",
        "volcano-controllers",
        "volcano-scheduler",
    ]
    assert {each.object for each in found["components"].findings} >= {"Deployment volcano-system/volcano-scheduler"}
    assert found["installations"].status == "ok"
    assert {each.object for each in found["configuration"].findings} == {
        "ConfigMap volcano-system/volcano-scheduler-configmap"  # not installed by this test
    }


def test_every_part_has_rights_to_check() -> None:
    assert set(NEEDED) == {"scheduler", "controllers", "webhooks"}


def test_rights_for_the_lease_are_those_of_its_namespace(patient: Patient) -> None:
    words = ["kilauea", "scheduler", "--leader-elect-resource-namespace=other"]
    patient.deploy("volcano-scheduler", words)
    asked = [each.message for each in patient.checks()["rights"].findings if "leases" in each.message]
    assert "it may not update leases.coordination.k8s.io in other" in asked


def test_what_the_user_may_not_read_is_skipped_and_what_is_missing_is_named(patient: Patient) -> None:
    patient.user = User("alice", groups=("system:authenticated",))
    found = patient.checks()
    assert found["definitions"].status == "skipped"
    assert found["webhooks"].status == "skipped"
    assert {found[name].status for name in ("installations", "rights", "names")} == {"skipped"}
    assert "list on customresourcedefinitions" in found["definitions"].findings[0].fix
    assert "create jobs.batch.volcano.sh" in {each.value for each in found["user"].findings}
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    patient.add(CLUSTER_ROLES, "", {"metadata": {"name": "all"}, "rules": rules})
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "all"}
    subjects = [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}]
    patient.add(CLUSTER_ROLE_BINDINGS, "", {"metadata": {"name": "all"}, "roleRef": ref, "subjects": subjects})
    assert {each.name for each in patient.checks().values() if each.status != "ok"} == set()


# --- what runs


def test_a_component_without_ready_pods_is_an_error(patient: Patient) -> None:
    patient.deploy("volcano-controllers", ["kilauea", "controllers"], ready=0)
    found = patient.finding("components")
    assert (found.severity, found.object) == ("error", "Deployment volcano-system/volcano-controllers")
    assert (found.field, found.value) == ("status.readyReplicas", "0")
    key = Key(NAMESPACE, "volcano-controllers")
    status = {"status": {"readyReplicas": 1}}
    patient.api.run(patient.client.patch(DEPLOYMENTS, key, status, subresource="status"))
    assert patient.status("components") == "ok"


def test_a_leader_that_does_not_renew_its_lease_is_an_error(patient: Patient) -> None:
    patient.deploy("volcano-scheduler", ["vc-scheduler"])
    patient.lease("volcano", age=60)
    found = patient.finding("leaders")
    assert (found.severity, found.object, found.field) == ("error", "Lease volcano-system/volcano", "spec.renewTime")
    assert "has not renewed its lease for 60 s" in found.message
    patient.drop(LEASES, NAMESPACE, "volcano")
    patient.lease("volcano")
    assert patient.status("leaders") == "ok"


def test_an_abandoned_lease_without_a_component_is_only_a_warning(patient: Patient) -> None:
    patient.lease("vc-controller-manager", age=3600)
    assert patient.finding("leaders").severity == "warning"


@pytest.mark.parametrize(
    ("words", "image", "product"),
    [
        (["/vc-scheduler"], "volcanosh/vc-scheduler:v1.12", "volcano"),
        ([], "docker.io/volcanosh/vc-scheduler@sha256:1", "volcano"),
        (["./kube-batch"], "kubesigs/kube-batch:v0.5", "kube-batch"),
    ],
)
def test_a_second_scheduler_for_the_same_pods_is_an_error(
    patient: Patient, words: list[str], image: str, product: str
) -> None:
    patient.deploy("ours", ["kilauea", "scheduler", "--scheduler-name=volcano", "--scheduler-name=kube-batch"])
    patient.deploy("theirs", words, OTHER, image=image)
    found = patient.finding("installations")
    assert (found.severity, found.object, found.field) == ("error", "Deployment other/theirs", "--scheduler-name")
    assert f"Deployment other/theirs ({product}) and Deployment volcano-system/ours (kilauea) both" in found.message
    assert "kubectl -n other scale deployment theirs --replicas=0" in found.fix
    patient.change(DEPLOYMENTS, "other", "theirs", {"spec": {"replicas": 0}})
    assert patient.status("installations") == "ok"


def test_schedulers_with_different_names_work_side_by_side(patient: Patient) -> None:
    patient.deploy("one", ["kilauea", "scheduler", "--scheduler-name=a"])
    patient.deploy("two", ["vc-scheduler", "--scheduler-name", "b"])
    assert patient.status("installations") == "ok"


def test_two_replicas_of_one_installation_take_turns(patient: Patient) -> None:
    patient.deploy("one", ["kilauea", "scheduler"])
    patient.deploy("two", ["kilauea", "scheduler"])
    assert patient.status("installations") == "ok"


@pytest.mark.parametrize("other", ["b_2", ""])
def test_schedulers_without_deployments_and_leases_are_known_by_binds_at_the_same_time(
    patient: Patient, other: str
) -> None:
    patient.bound("volcano", "a_1", 100, 60)
    patient.bound("volcano", other, 90, 50)
    found = patient.finding("installations")
    assert (found.severity, found.object, found.field) == (
        "warning",
        "scheduler volcano",
        "reportingInstance of events",
    )
    assert found.message.startswith("two schedulers bind pods of volcano:")
    assert found.message.endswith("for 30 s side by side")
    assert "a_1" in found.value
    assert "--scheduler-name" in found.fix


def test_schedulers_that_bind_one_after_the_other_or_under_different_names_are_no_finding(patient: Patient) -> None:
    patient.bound("volcano", "a_1", 100, 60)
    patient.bound("volcano", "b_2", 58, 10)
    patient.bound("research", "c_3", 100, 10)
    for instance in ("d_4", "e_5"):
        patient.bound("default-scheduler", instance, 100, 10)
    assert patient.status("installations") == "ok"


@pytest.mark.parametrize("part", ["controllers", "webhooks"])
def test_two_installations_of_another_part_are_an_error(patient: Patient, part: str) -> None:
    patient.deploy("one", ["kilauea", part])
    patient.deploy("two", ["kilauea", part, "--leader-elect-resource-namespace=other"], "other")
    found = patient.finding("installations")
    assert {"Deployment other/two", "Deployment volcano-system/one"} <= set(
        re.findall(r"Deployment [^ ]+", found.message)
    )
    assert found.object == "Deployment volcano-system/one"
    patient.drop(DEPLOYMENTS, NAMESPACE, "one")
    assert patient.status("installations") == "ok"


# --- webhooks


def certificates(days: int, now: int) -> tuple[Authority, bytes]:
    """An authority of some days, and a certificate that it issued."""
    at = datetime.datetime.fromtimestamp(now / SECOND, datetime.UTC)
    authority = Authority.create("test-ca", at - datetime.timedelta(days=3650 - days))
    issued = authority.issue(subject("hooks"), ["hooks"], SERVER, at)
    return authority, issued.certificate


def webhook(bundle: bytes, policy: str = "Fail") -> dict[str, Any]:
    """A webhook of Volcano with a bundle of authorities."""
    return {
        "name": "validatejob.volcano.sh",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": policy,
        "clientConfig": {"service": SERVICE, "caBundle": base64.b64encode(bundle).decode()},
    }


def serve_webhooks(patient: Patient) -> None:
    """The service with an endpoint."""
    ports = [{"port": 443}]
    patient.add(SERVICES, NAMESPACE, {"metadata": {"name": SERVICE["name"]}, "spec": {"ports": ports}})
    labels = {"kubernetes.io/service-name": SERVICE["name"]}
    endpoints = [{"addresses": ["192.0.2.9"], "conditions": {"ready": True}}]
    body = {"metadata": {"name": "hooks", "labels": labels}, "addressType": "IPv4", "endpoints": endpoints}
    patient.add(ENDPOINT_SLICES, NAMESPACE, body)


def configure(patient: Patient, bundle: bytes, policy: str = "Fail") -> None:
    """The configuration of a webhook."""
    body = {"metadata": {"name": "volcano-admission-service-jobs-validate"}, "webhooks": [webhook(bundle, policy)]}
    patient.add(VALIDATING_WEBHOOKS, "", body)


@pytest.mark.parametrize(("policy", "severity"), [("Fail", "error"), ("Ignore", "warning")])
def test_webhooks_without_service_and_without_endpoints_are_named(patient: Patient, policy: str, severity: str) -> None:
    authority, _ = certificates(400, patient.api.now)
    configure(patient, pem(authority.certificate), policy)
    found = patient.finding("webhooks")
    assert (found.severity, found.object) == (severity, f"Service {NAMESPACE}/volcano-admission-service")
    assert "does not exist" in found.message
    patient.add(SERVICES, NAMESPACE, {"metadata": {"name": SERVICE["name"]}, "spec": {"ports": [{"port": 443}]}})
    assert "no pod of the webhooks is ready" in patient.finding("webhooks").message
    patient.drop(SERVICES, NAMESPACE, str(SERVICE["name"]))
    serve_webhooks(patient)
    assert patient.status("webhooks") == "ok"


def test_the_fix_of_deleting_the_configurations_works(patient: Patient) -> None:
    authority, _ = certificates(400, patient.api.now)
    configure(patient, pem(authority.certificate))
    patient.drop(VALIDATING_WEBHOOKS, "", "volcano-admission-service-jobs-validate")
    assert patient.status("webhooks") == "ok"
    assert patient.checks()["webhooks"].summary.startswith(
        "none: objects are validated and defaulted only by `kilauea up`"
    )


@pytest.mark.parametrize(("days", "severity", "words"), [(-10, "error", "have expired"), (3, "warning", "expire soon")])
def test_expired_authorities_are_named_with_their_date(patient: Patient, days: int, severity: str, words: str) -> None:
    serve_webhooks(patient)
    authority, _ = certificates(days, patient.api.now)
    configure(patient, pem(authority.certificate))
    found = patient.finding("webhooks")
    assert (found.severity, found.field) == (severity, "webhooks[].clientConfig.caBundle")
    assert words in found.message
    assert "20" in found.value
    good = pem(certificates(400, patient.api.now)[0].certificate)
    patient.change(VALIDATING_WEBHOOKS, "", "volcano-admission-service-jobs-validate", {"webhooks": [webhook(good)]})
    assert patient.status("webhooks") == "ok"


@pytest.mark.parametrize("bundle", [b"", b"nonsense"])
def test_a_bundle_that_is_missing_is_named(patient: Patient, bundle: bytes) -> None:
    serve_webhooks(patient)
    body = webhook(b"")
    body["clientConfig"].pop("caBundle")
    head = {"metadata": {"name": "volcano-admission-service-pods-mutate"}, "webhooks": [body]}
    patient.add(MUTATING_WEBHOOKS, "", head)
    found = patient.finding("webhooks")
    assert found.object == "MutatingWebhookConfiguration volcano-admission-service-pods-mutate"
    assert f"kubectl -n {NAMESPACE} rollout restart deployment" in found.fix


def test_a_bundle_of_another_authority_than_that_of_the_certificate_is_named(patient: Patient) -> None:
    serve_webhooks(patient)
    trusted, _ = certificates(400, patient.api.now)
    other, certificate = certificates(400, patient.api.now)
    configure(patient, pem(trusted.certificate))
    data = {"tls.crt": base64.b64encode(certificate).decode()}
    patient.add(SECRETS, NAMESPACE, {"metadata": {"name": "volcano-admission-secret"}, "data": data})
    found = patient.finding("webhooks")
    assert "does not trust the authority of the webhooks' certificate" in found.message
    both = pem(other.certificate) + pem(trusted.certificate)
    name = "volcano-admission-service-jobs-validate"
    patient.change(VALIDATING_WEBHOOKS, "", name, {"webhooks": [webhook(both)]})
    assert patient.status("webhooks") == "ok"


# --- configuration and names


def configuration(patient: Patient, text: str) -> None:
    """The scheduler's ConfigMap."""
    name = "volcano-scheduler-configmap"
    patient.add(CONFIG_MAPS, NAMESPACE, {"metadata": {"name": name}, "data": {"volcano-scheduler.conf": text}})


def test_an_unknown_plugin_is_named_with_its_line_and_the_right_name(patient: Patient) -> None:
    text = 'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gangg\n  - name: proportion\n'
    configuration(patient, text)
    found = patient.checks()["configuration"].findings[0]
    assert (found.severity, found.object) == ("error", "ConfigMap volcano-system/volcano-scheduler-configmap")
    assert found.field.startswith("data[volcano-scheduler.conf]")
    assert "line 4" in found.value
    assert 'use "gang" in line 4' in found.fix
    fixed = msgspec.json.encode(DEFAULT_CONF).decode()
    name = "volcano-scheduler-configmap"
    patient.change(CONFIG_MAPS, NAMESPACE, name, {"data": {"volcano-scheduler.conf": fixed}})
    assert patient.status("configuration") == "ok"


def test_a_configmap_that_a_deployment_mounts_is_checked_and_missed(patient: Patient) -> None:
    mounts = [{"name": "conf", "mountPath": "/etc/conf/"}]
    volumes = [{"name": "conf", "configMap": {"name": "mine"}}]
    words = ["kilauea", "scheduler", "--scheduler-conf=/etc/conf/my.conf"]
    patient.deploy("volcano-scheduler", words, mounts=mounts, volumes=volumes)
    found = patient.finding("configuration")
    assert (found.severity, found.object) == ("error", "ConfigMap volcano-system/mine")
    patient.add(CONFIG_MAPS, NAMESPACE, {"metadata": {"name": "mine"}, "data": {"my.conf": "actions: ["}})
    assert "it is not YAML" in patient.finding("configuration").message
    fixed = msgspec.json.encode(DEFAULT_CONF).decode()
    patient.change(CONFIG_MAPS, NAMESPACE, "mine", {"data": {"my.conf": fixed}})
    assert patient.status("configuration") == "ok"


def test_an_entry_of_another_name_is_a_warning(patient: Patient) -> None:
    name = "volcano-scheduler-configmap"
    patient.add(CONFIG_MAPS, NAMESPACE, {"metadata": {"name": name}, "data": {"scheduler.conf": "x"}})
    found = patient.finding("configuration")
    assert (found.severity, found.field, found.value) == ("warning", "data", "scheduler.conf")


def test_pods_of_a_scheduler_that_does_not_run_are_named_with_the_nearest(patient: Patient) -> None:
    patient.deploy("s", ["kilauea", "scheduler", "--leader-elect=false"])
    patient.pod("a", "vulcano")
    patient.pod("b", "vulcano")
    patient.pod("c", "volcano")
    patient.pod("d", "default-scheduler")
    found = patient.finding("names")
    assert (found.object, found.field, found.value) == ("Pod default/a", "spec.schedulerName", "vulcano")
    assert "2 pods wait" in found.message
    assert "use schedulerName: volcano, or start a scheduler with --scheduler-name=vulcano" in found.fix
    patient.deploy("t", ["kilauea", "scheduler", "--leader-elect=false", "--scheduler-name=vulcano"])
    assert patient.status("names") == "ok"


def test_without_any_scheduler_the_fix_is_to_start_one(patient: Patient) -> None:
    patient.pod("a", "volcano")
    assert "start a scheduler: `kilauea scheduler --scheduler-name=volcano`" in patient.finding("names").fix
    patient.lease("volcano")
    assert patient.status("names") == "ok"


def test_a_scheduler_outside_the_cluster_is_known_by_its_pods(patient: Patient) -> None:
    patient.pod("a", "mine")
    assert patient.status("names") == "error"
    reason = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    key = Key("default", "a")
    patient.api.run(patient.client.patch(PODS, key, {"status": {"conditions": [reason]}}, subresource="status"))
    assert patient.status("names") == "ok"


@pytest.mark.parametrize(
    ("reason", "status"),
    [pytest.param("Unschedulable", "ok", id="it runs"), pytest.param("NoScheduler", "error", id="it does not run")],
)
def test_a_scheduler_beside_ours_is_known_by_its_conditions_alone(patient: Patient, reason: str, status: str) -> None:
    patient.deploy("s", ["kilauea", "scheduler", "--leader-elect=false"])
    patient.pod("a", "mine")
    conditions = [{"type": "PodScheduled", "status": "False", "reason": reason}]
    key = Key("default", "a")
    patient.api.run(patient.client.patch(PODS, key, {"status": {"conditions": conditions}}, subresource="status"))
    assert patient.status("names") == status


def test_pods_that_name_their_group_with_the_wrong_annotation_are_told_the_right_one(patient: Patient) -> None:
    patient.add(POD_GROUPS, "default", {"metadata": {"name": "g"}, "spec": {"minMember": 1, "queue": "default"}})
    annotations = {"scheduling.volcano.sh/group-name": "g", "scheduling.k8s.io/group-name": "podgroup-u"}
    spec = {"schedulerName": "volcano", "containers": [{"name": "c", "image": "i"}]}
    patient.add(PODS, "default", {"metadata": {"name": "a", "annotations": annotations}, "spec": spec})
    found = patient.finding("names")
    assert (found.object, found.value, found.severity) == ("Pod default/a", "g", "warning")
    assert found.message == "1 pod is not in pod group default/g"
    assert found.fix == "use annotation scheduling.k8s.io/group-name in the template of the pods"


def test_a_queue_that_pods_without_a_group_name_is_named_once(patient: Patient) -> None:
    patient.add(QUEUES, "", {"metadata": {"name": "research"}, "spec": {"weight": 1}})
    for name in ("a", "b"):
        annotations = {"scheduling.volcano.sh/queue-name": "nope"}
        spec = {"schedulerName": "volcano", "containers": [{"name": "c", "image": "i"}]}
        patient.add(PODS, "default", {"metadata": {"name": name, "annotations": annotations}, "spec": spec})
    found = patient.finding("names")
    assert (found.object, found.value) == ("Pod default/a", "nope")
    assert found.message == "queue nope does not exist, so 2 pods get no pod group"
    assert found.fix == "create the queue: `vcctl queue create --name nope`"


def test_a_queue_that_does_not_exist_is_named_for_each_group(patient: Patient) -> None:
    patient.add(QUEUES, "", {"metadata": {"name": "research"}, "spec": {"weight": 1}})
    spec = {"minMember": 1, "queue": "researchers"}
    patient.add(POD_GROUPS, "default", {"metadata": {"name": "g"}, "spec": spec})
    found = patient.finding("names")
    assert (found.object, found.field, found.value) == ("PodGroup default/g", "spec.queue", "researchers")
    assert found.fix == "use queue research, or create the queue: `vcctl queue create --name researchers`"
    patient.add(QUEUES, "", {"metadata": {"name": "researchers"}, "spec": {"weight": 1}})
    assert patient.status("names") == "ok"


def test_a_priority_class_that_does_not_exist_is_named(patient: Patient) -> None:
    patient.add(
        POD_GROUPS,
        "default",
        {"metadata": {"name": "g"}, "spec": {"minMember": 1, "queue": "default", "priorityClassName": "urgent"}},
    )
    found = patient.finding("names")
    assert (found.field, found.value) == ("spec.priorityClassName", "urgent")
    assert "kubectl create priorityclass urgent --value=1000" in found.fix
    patient.add(PRIORITY_CLASSES, "", {"metadata": {"name": "urgent"}, "value": 1000})
    assert patient.status("names") == "ok"


def test_an_unknown_job_plugin_is_named_with_the_nearest(patient: Patient) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    spec = {"queue": "default", "plugins": {"svcs": []}, "tasks": [{"name": "t", "replicas": 1, "template": template}]}
    patient.add(VC_JOBS, "default", {"metadata": {"name": "j"}, "spec": spec})
    found = patient.finding("names")
    assert (found.severity, found.object, found.field) == ("warning", "Job default/j", "spec.plugins.svcs")
    assert found.fix == "use svc"
    patient.change(VC_JOBS, "default", "j", {"spec": {"plugins": {"svcs": None, "svc": []}}})
    assert patient.status("names") == "ok"
