"""What the chart renders, for each set of values in deploy/chart/ci: against the API's schemas, and the services.

Needs helm (`deploy/check.sh --fetch` builds it) and no network.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jsonschema
import kubernetes_validate
import pytest
import yaml

from core.event import Mode
from stack.addresses import list_processors, metrics_port, metrics_urls
from stack.children import PROCESSOR_STOP_S
from stack.rounds import END_S
from stack.services.receiver import GRACE_S
from stack.settings import load_settings
from tests.unit.deploy.test_compose import NEEDED, SERVICES

pytestmark = pytest.mark.more(reason="helm renders the chart for each case")

CHECKOUT = Path(__file__).parents[3]
CHART = CHECKOUT / "deploy" / "chart"
VALUES = sorted(path.stem for path in (CHART / "ci").glob("*.yaml"))
VERSIONS = ("1.27", "1.31", "1.37")
"""Kubernetes: the oldest that the chart takes, one between, and the newest whose schemas are there."""

CRDS = {
    "ServiceMonitor": {
        "required": ["jobLabel", "selector", "endpoints"],
        "properties": {"endpoints": {"items": {"required": ["port", "path", "interval"]}}},
    },
    "PrometheusRule": {
        "required": ["groups"],
        "additionalProperties": False,
        "properties": {
            "groups": {
                "items": {
                    "required": ["name", "rules"],
                    "properties": {"rules": {"items": {"required": ["expr"], "minProperties": 2}}},
                }
            }
        },
    },
}
"""As much of the Prometheus operator's own kinds as the chart uses."""

SERVICE_OF = {"receiver": "ingest", "topics": "topics"}
"""The compose file's name of a container; others have the same."""

HELM = shutil.which("helm") or str(CHECKOUT / ".payhook" / "tools" / "bin" / "helm")
needs_helm = pytest.mark.skipif(not os.access(HELM, os.X_OK), reason="no helm: deploy/check.sh --fetch builds it")


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    command = [HELM, "template", "shop", str(CHART), "--kube-version", "1.31.0", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@functools.cache
def rendered(values: str) -> list[Any]:
    made = helm("--values", str(CHART / "ci" / f"{values}.yaml"))
    assert made.returncode == 0, made.stderr
    return [document for document in yaml.safe_load_all(made.stdout) if document]


def of_kind(values: str, *kinds: str) -> list[Any]:
    return [document for document in rendered(values) if document["kind"] in kinds]


def pods(values: str) -> dict[str, Any]:
    """The pod template of each workload, by the workload's name."""
    workloads = of_kind(values, "Deployment", "StatefulSet", "Job")
    return {one["metadata"]["name"]: one["spec"]["template"] for one in workloads}


def containers(values: str) -> Iterator[tuple[str, Any, Any]]:
    """The name in the compose file, the container, and its pod."""
    for pod in pods(values).values():
        for container in pod["spec"]["containers"]:
            name = SERVICE_OF.get(container["name"], container["name"])
            is_test = name == "processor" and "test" in container["args"]
            yield "processor-test" if is_test else name, container, pod


def shard_of(container: Any) -> int:
    """Which one a processor's container runs."""
    return int(container["args"][container["args"].index("--shard") + 1])


def selects(selector: dict[str, str], pod: Any) -> bool:
    labels: dict[str, str] = pod["metadata"]["labels"]
    return selector.items() <= labels.items()


@pytest.mark.row("F6")
@needs_helm
@pytest.mark.parametrize("values", VALUES)
def test_it_is_what_the_api_takes(values: str) -> None:
    names = [(document["kind"], document["metadata"]["name"]) for document in rendered(values)]
    assert len(names) == len(set(names))
    for document in rendered(values):
        if document["kind"] in CRDS:
            jsonschema.validate(document["spec"], CRDS[document["kind"]])
            continue
        for version in VERSIONS:
            kubernetes_validate.validate(document, version, strict=True)


@needs_helm
def test_the_schemas_would_find_a_misspelt_field() -> None:
    wrong = json.loads(json.dumps(of_kind("least", "Deployment")[0]))
    wrong["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.31", strict=True)


@needs_helm
@pytest.mark.parametrize("values", VALUES)
def test_every_container_has_as_few_rights_as_in_the_compose_file(values: str) -> None:
    for name, container, pod in containers(values):
        whole, own = pod["spec"]["securityContext"], container["securityContext"]
        assert whole["runAsNonRoot"] is True and whole["runAsUser"] == whole["runAsGroup"] == whole["fsGroup"] == 10001
        assert whole["seccompProfile"] == {"type": "RuntimeDefault"}
        assert own["readOnlyRootFilesystem"] is True and own["allowPrivilegeEscalation"] is False
        assert own["capabilities"] == {"drop": ["ALL"]} and "privileged" not in own
        assert container["resources"]["limits"]["memory"] and container["resources"]["requests"]["cpu"]
        assert re.fullmatch(r"registry\.example/payhook:\d+\.\d+\.\d+", container["image"])
        assert "command" not in container, "the image's first process hands signals on"
        assert container["args"] == SERVICES[name]["command"] or container["args"][:3] == SERVICES[name]["command"][:3]


@needs_helm
@pytest.mark.parametrize("values", VALUES)
def test_every_container_has_the_secrets_that_it_needs_and_no_others(values: str) -> None:
    given = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))["secrets"]
    given |= yaml.safe_load((CHART / "ci" / f"{values}.yaml").read_text("utf-8")).get("secrets", {})
    there = {re.sub("S", "-s", name): secret for name, secret in given.items() if secret}
    for name, container, pod in containers(values):
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
        found = {Path(path).name: mounts[path] for path in mounts if path.startswith("/run/secrets/")}
        assert found.keys() - {"kafka", "redis"} == NEEDED[name] & there.keys(), name
        assert ("kafka" in found) is ("kafka" in there)
        for secret, mount in found.items():
            assert mount["readOnly"] and volumes[mount["name"]]["secret"]["secretName"] == there[secret]
        assert {mount["name"] for mount in container["volumeMounts"]} - {"data"} <= volumes.keys()


@needs_helm
@pytest.mark.parametrize("values", VALUES)
def test_the_services_take_the_settings_that_they_are_given(
    values: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (config,) = (one for one in of_kind(values, "ConfigMap") if one["metadata"]["name"] == "shop-config")
    file = tmp_path / "payhook.toml"
    file.write_text(config["data"]["payhook.toml"], "utf-8")
    for name, container, _ in containers(values):
        with monkeypatch.context() as patched:
            for variable in container["env"]:
                patched.setenv(variable["name"], variable.get("value", "redis://a-secret:6379/0"))
            patched.setenv("PAYHOOK_CONFIG", str(file))
            settings = load_settings(reaches_lake=False)
        ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
        if name == "ingest":
            assert ports == {"webhooks": settings.ingest.port, "metrics": settings.ingest.metrics_port}
            assert not settings.storage.url, "it doesn't touch the lake"
        if name in ("processor", "processor-test"):
            mode: Mode = "live" if name == "processor" else "test"
            assert ports == {"metrics": metrics_port(settings, mode, shard_of(container))}
        if name in ("ingest", "catch-up"):
            assert str(settings.ingest.secrets_dir) == "/run/secrets/receiver"
        if name in ("console", "alerts"):
            _check_addresses(values, metrics_urls(settings), settings.console.ingest_url)
        if name in ("processor", "console", "maintenance", "catch-up", "alerts"):
            assert settings.storage.url.startswith("s3://"), "no volume is shared"


def _check_addresses(values: str, urls: dict[str, str], ingest: str) -> None:
    """Each is a service of the chart, or a pod of it, on a port that it has."""
    services = {one["metadata"]["name"]: one for one in of_kind(values, "Service")}
    alone = {one["metadata"]["name"]: one for one in of_kind(values, "StatefulSet")}
    hosts = [urlsplit(url) for name, url in urls.items() if name != "alerts"]
    for parts in [*hosts, urlsplit(ingest)]:
        pod, _, service = str(parts.hostname).rpartition(".")
        assert parts.port in [port["port"] for port in services[service]["spec"]["ports"]]
        if pod:
            name, _, number = pod.rpartition("-")
            workload = alone[name]
            assert int(number) < workload["spec"]["replicas"]
            assert workload["spec"]["serviceName"] == service
            assert services[service]["spec"]["clusterIP"] == "None"
            assert selects(services[service]["spec"]["selector"], workload["spec"]["template"])
    assert services[str(urlsplit(urls["ingest"]).hostname)]["spec"]["clusterIP"] == "None", "each receiver is asked"


@needs_helm
@pytest.mark.parametrize("values", VALUES)
def test_a_pod_has_longer_to_end_than_its_services_take(values: str) -> None:
    drains = {"ingest": 2 * GRACE_S + 5, "processor": PROCESSOR_STOP_S, "processor-test": PROCESSOR_STOP_S}
    drains |= {"maintenance": END_S, "catch-up": END_S, "console": GRACE_S, "alerts": GRACE_S}
    for name, container, pod in containers(values):
        if name != "topics":
            assert pod["spec"]["terminationGracePeriodSeconds"] > drains[name] + 10
            assert container.get("livenessProbe") or name in ("maintenance", "catch-up")


@needs_helm
@pytest.mark.parametrize("values", VALUES)
def test_a_processor_that_waits_for_a_person_is_not_started_again_by_a_probe(values: str) -> None:
    """It isn't ready then, but it lives."""
    for name, container, _ in containers(values):
        if name.startswith("processor"):
            assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
            assert container["livenessProbe"]["httpGet"]["path"] == "/metrics"
    (management,) = (one for one in of_kind(values, "StatefulSet") if one["metadata"]["name"] == "shop-management")
    assert management["spec"]["replicas"] == 1


@needs_helm
@pytest.mark.parametrize("values", VALUES)
def test_volumes_are_of_one_pod(values: str) -> None:
    assert not of_kind(values, "PersistentVolumeClaim")
    for workload in of_kind(values, "StatefulSet"):
        for claim in workload["spec"]["volumeClaimTemplates"]:
            assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]


@needs_helm
@pytest.mark.parametrize("values", ["least", "whole"])
def test_only_those_talk_to_one_another_that_have_to(values: str) -> None:
    policies = {one["metadata"]["name"]: one["spec"] for one in of_kind(values, "NetworkPolicy")}
    nothing = policies.pop("shop-default")
    assert nothing["policyTypes"] == ["Ingress", "Egress"] and "ingress" not in nothing
    for pod in pods(values).values():
        assert selects(nothing["podSelector"]["matchLabels"], pod)
        assert sum(selects(one["podSelector"]["matchLabels"], pod) for one in policies.values()) == 1
    (management,) = (pod for name, pod in pods(values).items() if name == "shop-management")
    for name in ("shop-receiver", "shop-processor"):
        rules = policies[name]["ingress"]
        metrics = [rule for rule in rules if rule["ports"][0]["port"] == "metrics"]
        assert len(metrics) == 1
        assert [selects(peer["podSelector"]["matchLabels"], management) for peer in metrics[0]["from"]] == [True]
    assert ("ingress" in policies["shop-management"]) is (values == "whole")
    receiver_out = {port["port"] for rule in policies["shop-receiver"]["egress"] for port in rule["ports"]}
    kafka = {9093} if values == "whole" else {9092, 9093, 9094}
    assert receiver_out == {*kafka, 6379, 443}
    assert {port["port"] for rule in policies["shop-topics"]["egress"] for port in rule["ports"]} == kafka


@needs_helm
@pytest.mark.parametrize(("values", "replicas"), [("least", 1), ("whole", 2), ("shards", 2)])
def test_each_processor_that_stands_by_is_asked_how_it_is_as_well(values: str, replicas: int) -> None:
    sets = [one for one in of_kind(values, "StatefulSet") if "processor" in one["metadata"]["name"]]
    assert {one["spec"]["replicas"] for one in sets} == {replicas}
    service = sets[0]["spec"]["serviceName"]
    pods_ = {f"{one['metadata']['name']}-{number}.{service}" for one in sets for number in range(replicas)}
    (console,) = (container for name, container, _ in containers(values) if name == "console")
    (urls,) = (one["value"] for one in console["env"] if one["name"] == "PAYHOOK_CONSOLE__METRICS_URLS")
    asked = {name: url for name, url in json.loads(urls).items() if name.startswith("processor")}
    assert set(asked.values()) == {f"http://{pod}:9102/metrics" for pod in pods_}
    assert len(asked) == len(pods_)


@needs_helm
def test_each_shard_is_a_workload_of_its_own() -> None:
    found = {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]["containers"][0]["args"][3:]
        for one in of_kind("shards", "StatefulSet")
        if "processor" in one["metadata"]["name"]
    }
    assert found == {
        "shop-processor-live": ["--mode", "live", "--shard", "0"],
        "shop-processor-live-shard1": ["--mode", "live", "--shard", "1"],
        "shop-processor-test": ["--mode", "test", "--shard", "0"],
        "shop-processor-test-shard1": ["--mode", "test", "--shard", "1"],
    }
    shards = [
        one["value"] for _, made, _ in containers("shards") for one in made["env"] if one["name"].endswith("SHARDS")
    ]
    assert shards == ["2"] * len(list(containers("shards"))), "receivers and the console know of both too"


@needs_helm
def test_the_pages_of_all_shards_have_the_names_that_the_processes_have(monkeypatch: pytest.MonkeyPatch) -> None:
    (console,) = (container for name, container, _ in containers("shards") if name == "console")
    for variable in console["env"]:
        if variable["name"] != "PAYHOOK_CONFIG":
            monkeypatch.setenv(variable["name"], variable["value"])
    settings = load_settings(reaches_lake=False)
    named = [name for mode in settings.ingest.taken_modes for name in list_processors(settings, mode)]
    assert named == ["processor", "processor.1", "processor-test", "processor-test.1"]
    urls = metrics_urls(settings)
    assert {name for name in urls if name.startswith("processor")} == {*named, *(f"{name}-1" for name in named)}


@needs_helm
def test_one_pod_of_a_shard_stays_through_each_drain() -> None:
    """Where one stands by. A budget of a single pod would stop the drain."""
    budgets = [one["spec"] for one in of_kind("shards", "PodDisruptionBudget") if "minAvailable" not in one["spec"]]
    sets = [one for one in of_kind("shards", "StatefulSet") if "processor" in one["metadata"]["name"]]
    assert [one["maxUnavailable"] for one in budgets] == [1] * len(sets)
    for one in sets:
        assert one["spec"]["replicas"] == 2
        assert sum(selects(budget["selector"]["matchLabels"], one["spec"]["template"]) for budget in budgets) == 1
    assert len(of_kind("least", "PodDisruptionBudget")) == 1


@needs_helm
def test_receivers_are_scaled_and_never_all_moved_at_once() -> None:
    (receivers,), (scaler,), (budget,) = (
        of_kind("least", kind) for kind in ("Deployment", "HorizontalPodAutoscaler", "PodDisruptionBudget")
    )
    assert "replicas" not in receivers["spec"], "each upgrade would set it back"
    assert scaler["spec"]["scaleTargetRef"]["name"] == receivers["metadata"]["name"]
    assert scaler["spec"]["minReplicas"] > budget["spec"]["minAvailable"], "else no node can be drained"
    assert selects(budget["spec"]["selector"]["matchLabels"], receivers["spec"]["template"])
    assert of_kind("small", "Deployment")[0]["spec"]["replicas"] == 1 and not of_kind(
        "small", "HorizontalPodAutoscaler"
    )


@needs_helm
def test_only_webhooks_are_reached_from_outside() -> None:
    (ingress,) = of_kind("whole", "Ingress")
    (rule,) = ingress["spec"]["rules"]
    assert [path["path"] for path in rule["http"]["paths"]] == ["/webhooks/"] and ingress["spec"]["tls"]
    assert not [one for one in of_kind("whole", "Service") if one["spec"].get("type", "ClusterIP") != "ClusterIP"]


@needs_helm
def test_the_topics_are_made_before_anything_asks_for_them() -> None:
    hooks = [one for one in rendered("least") if "helm.sh/hook" in one["metadata"].get("annotations", {})]
    assert [one["kind"] for one in hooks] == ["ConfigMap", "Job"], "what a hook needs is a hook itself"
    weights = [int(one["metadata"]["annotations"]["helm.sh/hook-weight"]) for one in hooks]
    assert weights == sorted(weights)
    used = [volume for volume in hooks[1]["spec"]["template"]["spec"]["volumes"] if "configMap" in volume]
    assert [volume["configMap"]["name"] for volume in used] == [hooks[0]["metadata"]["name"]]


@needs_helm
def test_prometheus_scrapes_the_one_page_and_has_the_one_file_of_rules() -> None:
    (monitor,), (rules,) = of_kind("whole", "ServiceMonitor"), of_kind("whole", "PrometheusRule")
    written = (CHECKOUT / "deploy" / "prometheus" / "rules" / "payhook.yml").read_text("utf-8")
    assert rules["spec"] == yaml.safe_load(written)
    (service,) = (
        one
        for one in of_kind("whole", "Service")
        if monitor["spec"]["selector"]["matchLabels"].items() <= one["metadata"]["labels"].items()
    )
    assert service["metadata"]["labels"][monitor["spec"]["jobLabel"]] == "payhook", "rules ask for up of this job"
    assert monitor["spec"]["endpoints"][0]["port"] in [port["name"] for port in service["spec"]["ports"]]
    assert not of_kind("least", "ServiceMonitor", "PrometheusRule"), "their kinds may not be known there"


def test_the_chart_has_the_rules_by_a_link() -> None:
    assert (CHART / "rules" / "payhook.yml").resolve() == CHECKOUT / "deploy" / "prometheus" / "rules" / "payhook.yml"


def test_the_chart_is_of_the_project_s_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert SERVICES["ingest"]["image"] == f"payhook:{chart['appVersion']}"


@needs_helm
@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("image.repository=", "image.repository"),
        ("image.tag=latest", "image.tag"),
        ("kafka.bootstrapServers=", "kafka.bootstrapServers"),
        ("storage.url=/var/lib/lake", "storage.url"),
        ("redis.url=", "redis"),
        ("redis.urlSecret=both", "redis"),
        ("secrets.receiver=", "secrets.receiver"),
        ("processor.modes={live,live}", "processor.modes"),
        ("processor.shards=0", "processor.shards"),
        ("processor.shards=5", "topics.partitions must be a multiple of processor.shards"),
        ("receiver.replica=3", "replica"),
        ("receiver.ingress.enabled=true", "receiver.ingress"),
    ],
)
def test_values_that_cannot_work_are_refused_by_name(setting: str, named: str) -> None:
    refused = helm("--values", str(CHART / "ci" / "least.yaml"), "--set", setting)
    assert refused.returncode != 0 and named in refused.stderr
