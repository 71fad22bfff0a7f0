"""What admission fills in and refuses, beyond what is compared with the real server in tests/kubernetes/requests."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from kilauea.apiserver.admission import AdmissionStep
from kilauea.apiserver.admission.amounts import Amount, parse
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.admission.chain import admission_steps
from kilauea.apiserver.admission.view import LONGEST, Metadata, reader
from kilauea.apiserver.request import make_request
from kilauea.apiserver.storage import Conflict, Stored
from support.api_core import ADMIN, MAPS, Api

ACCOUNTS = "/api/v1/namespaces/{}/serviceaccounts/default"
CONTAINERS = [{"name": "main", "image": "busybox:1"}]


@pytest.mark.parametrize("namespace", ["default", "kube-system", "kube-public", "kube-node-lease"])
def test_every_cluster_has_its_namespaces_with_their_accounts(api: Api, namespace: str) -> None:
    account = api.good("GET", ACCOUNTS.format(namespace))
    assert account["metadata"]["namespace"] == namespace
    assert account["metadata"]["uid"]


def test_a_namespace_comes_with_its_account(api: Api) -> None:
    api.good("POST", "/api/v1/namespaces", {"metadata": {"generateName": "team-"}})
    name = api.good("GET", "/api/v1/namespaces")["items"][-1]["metadata"]["name"]
    assert name.startswith("team-")
    api.good("POST", f"/api/v1/namespaces/{name}/pods", {"metadata": {"name": "p"}, "spec": {"containers": CONTAINERS}})
    assert api.good("GET", ACCOUNTS.format(name))["metadata"]["name"] == "default"


def test_a_default_account_that_is_deleted_comes_back_as_a_new_one(api: Api) -> None:
    before = api.good("GET", ACCOUNTS.format("default"))
    api.good("DELETE", ACCOUNTS.format("default"))
    after = api.good("GET", ACCOUNTS.format("default"))
    assert after["metadata"]["uid"] != before["metadata"]["uid"]


def test_a_namespace_that_ends_does_not_get_its_account_back(api: Api) -> None:
    api.good("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    api.good("DELETE", "/api/v1/namespaces/team")
    api.good("DELETE", ACCOUNTS.format("team"))
    assert api.ask("GET", ACCOUNTS.format("team")).code == 404


def test_a_namespace_that_is_only_tried_leaves_no_account(api: Api) -> None:
    api.good("POST", "/api/v1/namespaces?dryRun=All", {"metadata": {"name": "team"}})
    assert api.ask("GET", ACCOUNTS.format("team")).code == 404


def test_the_lowest_of_several_default_classes_counts(api: Api) -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    for name, value in (("high", 900), ("low", 100)):
        api.good("POST", path, {"metadata": {"name": name}, "value": value, "globalDefault": name == "high"})
    stored = api.backend.store.get("/scheduling.k8s.io/priorityclasses/low")
    assert stored is not None
    changed = stored.value.replace(b'"value":100', b'"value":100,"globalDefault":true')
    assert changed != stored.value
    api.run(api.backend.store.write(stored.key, stored.revision, lambda _: changed))
    spec = api.create_pod("p")["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("low", 100)


def test_limits_and_the_default_class_count_from_the_write_to_the_deletion(api: Api) -> None:
    """Of the kinds that admission reads for each pod: in each namespace, and as they are now."""
    ranges, classes = "/api/v1/namespaces/default/limitranges", "/apis/scheduling.k8s.io/v1/priorityclasses"

    def seen(name: str, namespace: str = "default") -> tuple[Any, Any]:
        pod = {"metadata": {"name": name}, "spec": {"containers": CONTAINERS}}
        spec = api.good("POST", f"/api/v1/namespaces/{namespace}/pods", pod)["spec"]
        return spec["containers"][0]["resources"].get("limits"), spec["priority"]

    assert seen("a") == (None, 0)
    for amount in ("1", "2"):
        limits = [{"type": "Container", "default": {"cpu": amount}}]
        api.good("POST" if amount == "1" else "PUT", ranges + ("/r" if amount == "2" else ""),
                 {"metadata": {"name": "r"}, "spec": {"limits": limits}})  # fmt: skip
        assert seen(f"b{amount}") == ({"cpu": amount}, 0)
    assert seen("c", "kube-system") == (None, 0)
    api.good("POST", classes, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
    assert seen("d") == ({"cpu": "2"}, 7)
    api.good("DELETE", f"{ranges}/r")
    api.good("DELETE", f"{classes}/usual")
    assert seen("e") == (None, 0)


def test_admission_owns_no_fields(api: Api) -> None:
    fields = api.create_pod("p")["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    assert not {"f:priority", "f:serviceAccountName", "f:tolerations", "f:volumes"} & fields.keys()


def test_a_failed_write_of_a_caller_that_has_gone_is_no_error_of_the_loop(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Consequence:
        def __init__(self) -> None:
            self.cancelled = 0

        def cancel(self) -> None:
            self.cancelled += 1

        async def settle(self, stored: Stored) -> None:
            raise AssertionError("the write has failed")

    consequence, errors = Consequence(), list[Any]()

    class Step(AdmissionStep):
        name = "Step"

        def begin(self, attributes: Attributes) -> Consequence:
            return consequence

    async def fail(key: str, expected: int, encode: object) -> Stored:
        for _ in range(5):  # an earlier write of the object is on its way to the disk
            await asyncio.sleep(0)
        raise Conflict(Stored(key, b"{}", 1, 1))

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
        api.backend.admission = admission_steps(Step())
        monkeypatch.setattr(api.backend.store, "write", fail)
        request = make_request("POST", MAPS, {"content-type": "application/json"}, b'{"metadata":{"name":"a"}}', ADMIN)
        going = asyncio.ensure_future(api.server.handle(request))
        await asyncio.sleep(0)
        going.cancel()
        await asyncio.wait((going,))
        for _ in range(10):
            await asyncio.sleep(0)
        gc.collect()

    api.run(scenario())
    assert (consequence.cancelled, errors) == (1, [])


QUOTA = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.memory": "1Gi", "requests.storage": "1Gi"}}}


@pytest.mark.parametrize(
    ("text", "canonical"),
    [("1500Ki", "1500Ki"), ("1Pi", "1Pi"), ("1Ti", "1Ti"), ("1Ei", "1Ei"), ("3n", "3n"),
     ("0.5", "500m"), ("1024Mi", "1Gi"), ("1000Mi", "1000Mi"), ("2000", "2k"), ("1.5Gi", "1536Mi"), ("1e3", "1e3"),
     ("100u", "100u"), ("0Gi", "0"), ("-2", "-2"), ("1500m", "1500m"), ("12e6", "12e6")],
)  # fmt: skip
def test_amounts_are_written_as_they_were_given(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical


def test_a_claim_and_a_pod_with_a_quota_may_ask_for_kibibytes(api: Api) -> None:
    api.good("POST", "/api/v1/namespaces/default/resourcequotas", QUOTA)
    amounts = {"requests": {"storage": "1500Ki"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": amounts}
    api.good("POST", "/api/v1/namespaces/default/persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": spec})
    memory = {"requests": {"memory": "1500Ki"}}
    pod = {"containers": [{"name": "c", "image": "i", "resources": memory}]}
    api.good("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": pod})
    used = api.good("GET", "/api/v1/namespaces/default/resourcequotas/q")["status"]["used"]
    assert used == {"requests.memory": "1500Ki", "requests.storage": "1500Ki"}


def test_a_sum_has_the_form_of_its_first_part_that_is_not_zero() -> None:
    assert str(Amount(0).plus(parse("512Mi")).plus(parse("512Mi"))) == "1Gi"
    assert str(parse("1G").plus(parse("1Gi"))) == "2073741824"
    assert str(parse("1Gi").minus(parse("1Gi")).plus(parse("1G"))) == "1G"


class Witness(AdmissionStep):
    """Notes the kinds that it is asked to agree to; completes nothing."""

    def __init__(self, kinds: frozenset[tuple[str, str]] | None) -> None:
        self.kinds = kinds
        self.seen: list[str] = []

    def validate(self, attributes: Attributes) -> None:
        self.seen.append(f"{attributes.operation} {attributes.resource.plural}")


def test_a_step_is_asked_about_the_kinds_that_it_looks_at(api: Api) -> None:
    of_maps, of_all = Witness(frozenset({("", "configmaps")})), Witness(None)
    api.backend.admission = admission_steps(of_maps, of_all)
    api.create_map("m")
    api.create_pod("p")
    api.good("DELETE", f"{MAPS}/m")
    assert of_maps.seen == ["CREATE configmaps", "DELETE configmaps"]
    assert of_all.seen == ["CREATE configmaps", "CREATE pods", "DELETE configmaps"]


# --- the default class of ingresses

NETWORKING = "/apis/networking.k8s.io/v1"
MARKED = {"ingressclass.kubernetes.io/is-default-class": "true"}


def ingress_class(api: Api, name: str, **metadata: Any) -> None:
    body = {"metadata": {"name": name, **metadata}, "spec": {"controller": "example.com/c"}}
    api.good("POST", f"{NETWORKING}/ingressclasses", body)


def class_given(api: Api, name: str, metadata: Any = None, **spec: Any) -> Any:
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    body = {"metadata": {"name": name, **(metadata or {})}, "spec": {"defaultBackend": backend, **spec}}
    made = api.good("POST", f"{NETWORKING}/namespaces/default/ingresses", body)
    return made["spec"].get("ingressClassName")


def test_an_ingress_that_names_no_class_gets_the_default_one(api: Api) -> None:
    ingress_class(api, "plain")
    assert class_given(api, "none") is None
    ingress_class(api, "b", annotations=MARKED)
    ingress_class(api, "a", annotations=MARKED)
    assert class_given(api, "first-by-name") == "a"
    assert class_given(api, "named", ingressClassName="plain") == "plain"
    assert class_given(api, "noted", {"annotations": {"kubernetes.io/ingress.class": "plain"}}) is None
    api.now += 1_000_000
    ingress_class(api, "c", annotations=MARKED)
    assert class_given(api, "newest") == "c"


def test_an_ingress_without_a_class_keeps_none_when_it_changes(api: Api) -> None:
    assert class_given(api, "old") is None
    ingress_class(api, "a", annotations=MARKED)
    patch = {"metadata": {"labels": {"a": "b"}}}
    path = f"{NETWORKING}/namespaces/default/ingresses/old"
    changed = api.good("PATCH", path, patch, content_type="application/merge-patch+json")
    assert "ingressClassName" not in changed["spec"]


def test_what_is_read_of_a_large_object_is_not_remembered() -> None:
    read = reader(Metadata)
    small, large = b'{"name":"a"}', b'{"name":"%b"}' % (b"a" * LONGEST)
    assert read(small) is read(small)
    assert read(large) == Metadata(name="a" * LONGEST)
    assert read(large) is not read(large)
