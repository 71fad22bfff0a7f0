"""Warnings, limit ranges, label selectors and the subresources of pods, in the words heard from the real server."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from kilauea.apiserver.request import make_request
from support.api_core import ADMIN, MAPS, PODS, Api

LIMITS = "/api/v1/namespaces/default/limitranges"
STRATEGIC = "application/strategic-merge-patch+json"


def warnings(api: Api, method: str, path: str, body: Any, **headers: str) -> list[str]:
    """The texts of the warnings of an answer."""
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = api.run(api.server.handle(make_request(method, path, sent, data, ADMIN)))
    return [value.removeprefix('299 - "').removesuffix('"') for key, value in answer.headers if key == "Warning"]


def test_a_pod_with_doubtful_fields_is_accepted_with_warnings(api: Api) -> None:
    environment = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}, {"name": "A", "value": "$(A)"}]
    spec = {
        "nodeSelector": {"beta.kubernetes.io/os": "linux"},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}],
        "containers": [{"name": "a", "image": "i", "env": environment, "resources": {"limits": {"memory": "1500m"}}}],
    }
    found = warnings(api, "POST", PODS, {"metadata": {"name": "a"}, "spec": spec})
    assert [each.replace('\\"', '"') for each in found] == [
        'spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead',
        "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
        'spec.containers[0].resources.limits[memory]: fractional byte value "1500m" is invalid, must be an integer',
        'spec.containers[0].resources.requests[memory]: fractional byte value "1500m" is invalid, must be an integer',
        'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply',
    ]


def test_keys_given_twice_are_told_refused_or_let_pass(api: Api) -> None:
    body = b'{"metadata":{"name":"a","name":"b","x":1},"data":{"k":"1","k":"2"}}'
    told = ['duplicate field "metadata.name"', 'unknown field "metadata.x"', 'duplicate field "data.k"']
    found = warnings(api, "POST", f"{MAPS}?dryRun=All", body)
    assert [each.replace('\\"', '"') for each in found] == told
    assert warnings(api, "POST", f"{MAPS}?dryRun=All&fieldValidation=Ignore", body) == []
    refused = api.ask("POST", f"{MAPS}?fieldValidation=Strict", body)
    assert (refused.code, refused.body["message"].partition("error: ")[2]) == (400, ", ".join(told))


def test_a_quote_that_is_written_as_a_code_hides_no_key(api: Api) -> None:
    body = rb'{"metadata":{"name":"a"},"data":{"k":"\u0022\u0022\u0022\u0022","k":"\u0022\u0022\u0022\u0022"}}'
    assert warnings(api, "POST", f"{MAPS}?dryRun=All", body) == ['duplicate field \\"data.k\\"']


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        ("app in", "unable to parse requirement: found '' expected: '('"),
        ("app in (a", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("=x", "found '=', expected: !, identifier, or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
    ],
)
def test_what_is_wrong_with_a_label_selector_is_told(api: Api, selector: str, words: str) -> None:
    refused = api.ask("GET", f"{MAPS}?labelSelector={quote(selector)}")
    assert (refused.code, refused.body["message"]) == (400, words)


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({"type": "Pod", "min": {"cpu": 2}, "max": {"cpu": 1}}, "min value 2 is greater than max value 1"),
        ({"type": "Pod", "default": {"cpu": 1}}, "may not be specified when `type` is 'Pod'"),
        ({"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}}, "ratio 500m is less than 1"),
        ({"type": "PersistentVolumeClaim", "max": {"cpu": 1}}, "either minimum or maximum storage value is required"),
        ({"type": "Foo"}, "must be a standard limit type or fully qualified"),
    ],
)
def test_a_limit_range_that_contradicts_itself_is_refused(api: Api, limit: Any, words: str) -> None:
    refused = api.ask("POST", LIMITS, {"metadata": {"name": "l"}, "spec": {"limits": [limit]}})
    assert refused.code == 422
    assert words in refused.body["message"]


def test_resize_changes_amounts_and_nothing_else(api: Api) -> None:
    amounts = {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}
    made = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "i", "resources": amounts}]}}
    api.good("POST", PODS, made)

    def resize(**changes: Any) -> Any:
        body = {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": [{"name": "a", **changes}]}}
        return api.ask("PATCH", f"{PODS}/a/resize", body, content_type=STRATEGIC)

    after = resize(image="other", resources={"requests": {"cpu": "200m"}}).body
    container = after["spec"]["containers"][0]
    assert (container["image"], container["resources"]["requests"]) == ("i", {"cpu": "200m"})
    assert "labels" not in after["metadata"]
    assert "only cpu and memory" in resize(resources={"requests": {"ephemeral-storage": "1Gi"}}).body["message"]
    assert "limits cannot be removed" in resize(resources={"limits": {"cpu": None}}).body["message"]
    assert "may not be added or removed on resize" in resize(name="b", image="i").body["message"]


def test_ephemeral_containers_are_added_and_stay(api: Api) -> None:
    api.create_pod("a")

    def add(**container: Any) -> Any:
        body = {"spec": {"ephemeralContainers": [container]}}
        return api.ask("PATCH", f"{PODS}/a/ephemeralcontainers", body, content_type=STRATEGIC)

    assert add(name="look", image="i").code == 200
    assert 'existing ephemeral containers "look" may not be changed' in add(name="look", image="j").body["message"]
    assert add(name="other", image="i", ports=[{"containerPort": 80}]).code == 422
    names = [each["name"] for each in api.good("GET", f"{PODS}/a")["spec"]["ephemeralContainers"]]
    assert names == ["look"]


@pytest.mark.parametrize(("volume", "code"), [("data", 201), ("own", 201), ("other", 422)])
def test_pods_of_a_stateful_set_mount_its_claims_and_no_unknown_volume(api: Api, volume: str, code: int) -> None:
    container = {"name": "a", "image": "x:1", "volumeMounts": [{"name": volume, "mountPath": "/data"}]}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {
        "serviceName": "x",
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [container], "volumes": [{"name": "own", "emptyDir": {}}]},
        },
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    answer = api.ask("POST", "/apis/apps/v1/namespaces/default/statefulsets", {"metadata": {"name": "s"}, "spec": spec})
    assert answer.code == code, answer.body


CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        ({"timeZone": "bad-time-zone"}, "spec.timeZone", "unknown time zone bad-time-zone"),
        ({"timeZone": ""}, "spec.timeZone", "timeZone must be nil or non-empty string"),
        ({"timeZone": "Local"}, "spec.timeZone", "timeZone must be an explicit time zone as defined in"),
        ({"schedule": "TZ=UTC * * * * *"}, "spec.schedule", "cannot use TZ or CRON_TZ in schedule"),
        ({"schedule": "61 * * * *"}, "spec.schedule", 'invalid minute "61": use 0 to 59'),
        ({"schedule": "@never"}, "spec.schedule", 'invalid schedule "@never": use five fields'),
    ],
)
def test_a_cron_job_that_would_never_run_is_refused(api: Api, spec: dict[str, str], field: str, words: str) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}}
    whole = {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": template}}}
    good = api.ask("POST", CRON_JOBS, {"metadata": {"name": "a"}, "spec": {**whole, "timeZone": "Europe/Rome"}})
    assert good.code == 201
    answer = api.ask("POST", CRON_JOBS, {"metadata": {"name": "b"}, "spec": {**whole, **spec}})
    (cause,) = answer.body["details"]["causes"]
    assert (answer.code, cause["field"]) == (422, field)
    assert words in cause["message"]


@pytest.mark.parametrize(("text", "code"), [("invalid", 400), ("5", 400), ("3m", 200), ("0s", 200), ("1m30.5s", 200)])
def test_a_timeout_of_a_request_is_a_duration(api: Api, text: str, code: int) -> None:
    answer = api.ask("GET", f"{MAPS}?timeout={text}")
    assert answer.code == code
    if code == 400:
        words = f'invalid timeout specified in the request URL - time: invalid duration "{text}"'
        assert answer.body["message"] == words


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"data":{"k":"1","k":"2"}}', True),
        (b'{ "data" : {"k": "1", "k": "2"} }', True),
        (b'{"data":{"k":"\\u0022","k":"2"}}', True),
        (b'{"data":{"k":"1","k":"a\\u0022b"}}', True),
        (b'{ "data" : {"k": "a \\"b\\" c"} }', False),
        (b'{"data":{"k":"a\\u0022b"}}', False),
    ],
)
def test_a_key_that_is_twice_in_a_patch_is_told_however_the_text_is_written(api: Api, body: bytes, told: bool) -> None:
    api.create_map("a", k="0")
    merge = "application/merge-patch+json"
    answer = api.ask("PATCH", f"{MAPS}/a", body, content_type=merge)
    assert ('duplicate field \\"data.k\\"' in str(answer.headers.get("Warning"))) is told
    assert (api.ask("PATCH", f"{MAPS}/a?fieldValidation=Strict", body, content_type=merge).code == 422) is told


@pytest.mark.parametrize(
    ("own", "may"),
    [
        ({}, False),
        ({"restartPolicy": "Never"}, False),
        ({"restartPolicy": "Always"}, True),
        (
            {
                "restartPolicy": "Never",
                "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}],
            },
            True,
        ),
        (
            {
                "restartPolicy": "Never",
                "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [2]}}],
            },
            False,
        ),
        (
            {
                "restartPolicy": "Never",
                "restartPolicyRules": [
                    {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [2]}}
                ],
            },
            True,
        ),
    ],
)
def test_a_container_that_has_ended_starts_again_if_its_own_policy_or_rules_allow_it(
    api: Api, own: dict[str, Any], may: bool
) -> None:
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", **own}]}
    api.good("POST", PODS, {"metadata": {"name": "again"}, "spec": spec})

    def say(state: dict[str, Any]) -> Any:
        body = {"status": {"containerStatuses": [{"name": "c", "image": "i", "imageID": "", "state": state}]}}
        return api.ask("PATCH", f"{PODS}/again/status", body, content_type=STRATEGIC)

    times = {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z"}
    assert say({"terminated": {"exitCode": 1, **times}}).code == 200
    answer = say({"running": {"startedAt": "2026-01-01T00:00:02Z"}, "terminated": None})
    assert answer.code == (200 if may else 422)
    if not may:
        assert "may not be transitioned to non-terminated state" in answer.body["message"]
