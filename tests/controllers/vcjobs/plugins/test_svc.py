"""Plugin svc names pods, lists the names, and lets no one else in."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.kinds import CONFIG_MAPS, NETWORK_POLICIES, SERVICES
from kilauea.api.ports import Create, Delete, Key, Patch
from kilauea.controllers.vcjobs.plugins import PluginFault, active
from support.vcjob_parts import UID, job, kept, of_the_job, pod_of, task, there, variables, view_of

SELECTOR = {"volcano.sh/job-name": "m", "volcano.sh/job-namespace": "ns"}
HOSTS = {
    "ps_0.host": "m-ps-0-0.m",
    "VC_PS_0_HOSTS": "m-ps-0-0.m",
    "VC_PS_0_NUM": "1",
    "worker.host": "m-worker-0.m\nm-worker-1.m",
    "VC_WORKER_HOSTS": "m-worker-0.m,m-worker-1.m",
    "VC_WORKER_NUM": "2",
}


def with_svc(*arguments: str, workers: int = 2, **worker: Any) -> dict[str, Any]:
    return job(task("ps-0", 1), task("worker", workers, worker), plugins={"svc": list(arguments)})


def created(*arguments: str) -> dict[str, Any]:
    """Kind and body of what is created where there is nothing."""
    operations = kept(with_svc(*arguments))
    return {each.body["kind"]: each.body for each in operations if isinstance(each, Create)}


def test_there_are_a_config_map_a_service_and_a_network_policy() -> None:
    made = created()
    assert list(made) == ["ConfigMap", "Service", "NetworkPolicy"]
    assert [each["metadata"]["name"] for each in made.values()] == ["m-svc", "m", "m"]
    assert {each["metadata"]["ownerReferences"][0]["uid"] for each in made.values()} == {UID}
    assert made["ConfigMap"]["data"] == HOSTS
    assert made["Service"]["spec"] == {"clusterIP": "None", "selector": SELECTOR}
    own = {"matchLabels": SELECTOR}
    assert made["NetworkPolicy"]["spec"] == {
        "podSelector": own,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": own}]}],
    }


def test_arguments_change_what_there_is() -> None:
    made = created("--publish-not-ready-addresses=true", "--disable-network-policy=true")
    assert list(made) == ["ConfigMap", "Service"]
    assert made["Service"]["spec"]["publishNotReadyAddresses"] is True


def test_a_pod_has_a_name_and_knows_those_of_all() -> None:
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "env": [{"name": "E", "value": "e"}]}],
        "initContainers": [{"name": "i"}],
    }
    made = pod_of(with_svc(**spec), "worker", 1)["spec"]
    assert (made["hostname"], made["subdomain"]) == ("m-worker-1", "m")
    assert made["volumes"] == [{"name": "m-svc", "configMap": {"name": "m-svc"}}]
    (container,), (before,) = made["containers"], made["initContainers"]
    assert container["volumeMounts"] == before["volumeMounts"] == [{"name": "m-svc", "mountPath": "/etc/volcano"}]
    assert [each["name"] for each in container["env"]] == [
        "E",
        "VC_PS_0_HOSTS",
        "VC_PS_0_NUM",
        "VC_WORKER_HOSTS",
        "VC_WORKER_NUM",
    ]
    reference = {"configMapKeyRef": {"name": "m-svc", "key": "VC_PS_0_HOSTS"}}
    assert before["env"][0] == {"name": "VC_PS_0_HOSTS", "valueFrom": reference}


def test_variables_can_be_left_out() -> None:
    (container,) = pod_of(with_svc("--inject-hosts-env=false"), "worker")["spec"]["containers"]
    assert "env" not in container
    assert container["volumeMounts"]


def test_a_template_that_fixes_the_host_name_has_one_host() -> None:
    of = with_svc(hostname="h", subdomain="d")
    assert pod_of(of, "worker", 1)["spec"]["hostname"] == "h"
    (config_map, *_) = kept(of)
    assert isinstance(config_map, Create)
    assert config_map.body["data"] | HOSTS == HOSTS | {
        "worker.host": HOSTS["worker.host"],
    }
    assert config_map.body["data"]["worker.host"] == "h.d"
    assert config_map.body["data"]["VC_WORKER_NUM"] == "1"


def test_where_all_is_there_nothing_is_done() -> None:
    objects = (there(CONFIG_MAPS, "m-svc", data=HOSTS), there(SERVICES, "m"), there(NETWORK_POLICIES, "m"))
    assert kept(with_svc(), *objects) == []


def test_after_scaling_the_lists_are_refreshed() -> None:
    old = HOSTS | {"VC_GONE_NUM": "1"}
    mine = there(CONFIG_MAPS, "m-svc", data=old, metadata=of_the_job())
    (patch,) = kept(with_svc(workers=1), mine, there(SERVICES, "m"), there(NETWORK_POLICIES, "m"))
    assert patch == Patch(
        CONFIG_MAPS,
        Key("ns", "m-svc"),
        {
            "data": {
                "VC_GONE_NUM": None,
                "worker.host": "m-worker-0.m",
                "VC_WORKER_HOSTS": "m-worker-0.m",
                "VC_WORKER_NUM": "1",
            }
        },
    )


OTHER_JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "m", "uid": "o", "controller": True}


@pytest.mark.parametrize("metadata", [{}, {"ownerReferences": [OTHER_JOB]}])
def test_a_config_map_of_others_is_not_written_to(metadata: dict[str, Any]) -> None:
    others = there(CONFIG_MAPS, "m-svc", data={"database": "production"}, metadata=metadata)
    with pytest.raises(PluginFault, match=r"ConfigMap m-svc was not created for this job and lacks VC_PS_0_HOSTS, "):
        kept(with_svc(), others, there(SERVICES, "m"), there(NETWORK_POLICIES, "m"))


def test_a_config_map_that_users_prepared_is_taken_as_it_is() -> None:
    prepared = there(CONFIG_MAPS, "m-svc", data=HOSTS | {"VC_WORKER_HOSTS": "other", "more": "x"})
    assert kept(with_svc(), prepared, there(SERVICES, "m"), there(NETWORK_POLICIES, "m")) == []


def test_what_is_the_jobs_is_removed_and_nothing_else() -> None:
    (plugin,) = active(with_svc())
    mine = there(CONFIG_MAPS, "m-svc", metadata=of_the_job())
    nobodys = there(SERVICES, "m")
    of_an_earlier_job = there(NETWORK_POLICIES, "m", metadata=of_the_job("other"))
    found = plugin.removal(view_of(mine, nobodys, of_an_earlier_job))
    assert found == [Delete(CONFIG_MAPS, Key("ns", "m-svc"), "u")]


def test_env_tells_the_index_to_all_containers() -> None:
    spec = {"containers": [{"name": "c"}, {"name": "d"}], "initContainers": [{"name": "i"}]}
    made = pod_of(job(task("a", 20, spec), plugins={"env": []}), index=12)["spec"]
    told = [variables(each) for each in (*made["containers"], *made["initContainers"])]
    assert told == [{"VK_TASK_INDEX": "12", "VC_TASK_INDEX": "12"}] * 3
