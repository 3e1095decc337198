"""The files under `deploy/fleet/` fit each other, the collector and the programs that read them."""

import itertools
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import grpc
import httpx
import jsonschema
import pytest
import yaml
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from collector.settings.model import ENV_PREFIX, CollectorSettings
from scouter.drift.profile import find_profile
from scouter.model.otlp import encode_request
from scouter.model.span import Span
from tests.integration.test_deploy import answers, collector_flags, load, run
from tests.support.collector_process import CollectorProcess
from tests.support.components import ROOT, require_program
from tests.support.postgresql_server import PostgresqlServer
from tests.support.processes import ManagedProcess, free_ports, wait_until

FLEET: Final = ROOT / "deploy" / "fleet"
BALANCER: Final = FLEET / "haproxy.cfg"
PYPROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())
IMAGE: Final = f"scouter-fleet:{PYPROJECT['project']['version']}"
ROLES: Final = {"gateway": 2, "worker": 3, "api": 1}
PASSWORD: Final = "${POSTGRESQL_PASSWORD:?write it into deploy/fleet/.env}"


def compose() -> dict[str, Any]:
    return load(FLEET / "compose.yaml")


def services() -> dict[str, dict[str, Any]]:
    return compose()["services"]


def members() -> dict[str, dict[str, Any]]:
    """The services that are processes of the fleet, by name."""
    return {name: each for name, each in services().items() if "--role" in each.get("command", ())}


def flags_of(command: list[str]) -> dict[str, str]:
    return {a: b for a, b in itertools.pairwise(command) if a.startswith("--")}


def settings_of(variables: dict[str, str]) -> CollectorSettings:
    """The settings that variables make; unknown ones are refused."""
    names = {name.removeprefix(ENV_PREFIX).lower(): value for name, value in variables.items()}
    assert names.keys() <= CollectorSettings.model_fields.keys()
    return CollectorSettings(**cast("dict[str, Any]", {**names, "role": "worker"}))


# --- Docker ---


def test_compose_has_the_roles_and_their_names() -> None:
    """Two gateways, three workers of different names, one api."""
    flags = [flags_of(each["command"]) for each in members().values()]
    found = [each["--role"] for each in flags]
    assert {role: found.count(role) for role in set(found)} == ROLES
    names = [each["--fleet-name"] for each in flags if each["--role"] == "worker"]
    assert len(set(names)) == len(names)
    for each in members().values():
        assert flags_of(each["command"]).keys() <= collector_flags()
        assert each["build"]["args"] == {"EXTRA": "fleet"}
        assert each["image"] == IMAGE
    assert "fleet" in PYPROJECT["project"]["optional-dependencies"]
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    assert '".[$EXTRA]"' in dockerfile
    assert "ARG EXTRA=collector\n" in dockerfile


def test_the_settings_of_the_members_are_real() -> None:
    """The same for all of them, and their places are services."""
    (variables,) = {
        tuple(sorted(each["environment"].items())): each["environment"]
        for each in (*members().values(), services()["first-token"])
    }.values()
    settings = settings_of(variables)
    assert settings.kafka == "kafka:9092"
    assert settings.postgresql == "postgresql://scouter@postgresql:5432/scouter"
    given = services()["postgresql"]["environment"]
    assert (given["POSTGRES_USER"], given["POSTGRES_DB"]) == ("scouter", "scouter")
    assert variables[f"{ENV_PREFIX}POSTGRESQL_PASSWORD"] == given["POSTGRES_PASSWORD"] == PASSWORD
    (network,) = compose()["networks"]["default"]["ipam"]["config"]
    assert settings.trusted_proxies == (network["subnet"],)
    profile = flags_of(services()["api"]["command"])["--profile"]
    assert find_profile(profile).is_file()


def test_every_service_is_confined() -> None:
    """No root of its own to write to, no capability, bounded memory, a check, an exact version."""
    for name, each in services().items():
        assert each["cap_drop"] == ["ALL"], name
        assert each["security_opt"] == ["no-new-privileges:true"], name
        assert each["read_only"] is (name != "kafka"), name  # its start writes into its root
        assert re.fullmatch(r"\d+[mg]", each["mem_limit"]), name
        assert re.search(r":\d+(\.\d+)+(-alpine)?$", each["image"]), name
        if each["restart"] == "no":
            assert name == "first-token", "it ends when it is done"
        else:
            assert each["restart"] == "unless-stopped"
            assert each["healthcheck"]["test"][0] == "CMD", name


def test_only_the_load_balancer_is_published_and_here_only() -> None:
    published = {name: each["ports"] for name, each in services().items() if "ports" in each}
    assert published == {"load-balancer": ["127.0.0.1:4318:4318", "127.0.0.1:4317:4317"]}


def test_what_services_mount_and_wait_for_is_there() -> None:
    volumes = [
        volume.split(":")[0] for each in services().values() for volume in each.get("volumes", [])
    ]
    assert {each for each in volumes if each.startswith(".")} == {f"./{BALANCER.name}"}
    assert {each for each in volumes if not each.startswith(".")} == compose()["volumes"].keys()
    for each in services().values():
        for name, how in each.get("depends_on", {}).items():
            is_checked = "test" in services()[name]["healthcheck"]
            assert how["condition"] == (
                "service_healthy" if is_checked else "service_completed_successfully"
            )


@pytest.fixture
def server() -> Iterator[PostgresqlServer]:
    server = PostgresqlServer()
    yield server
    server.stop()


def token_commands() -> tuple[str, str, str]:
    """The commands that make the first token, of compose and the api's pod, and one that waits."""
    (of_compose,) = services()["first-token"]["command"]
    pods = {name: pod(each) for name, each in workloads().items()}
    (of_api,) = pods["scouter-api"]["initContainers"]
    (waits,) = pods["scouter-worker"]["initContainers"]
    return of_compose.replace("$$", "$"), of_api["command"][-1], waits["command"][-1]


def test_the_first_token_is_made_once_and_waited_for(server: PostgresqlServer) -> None:
    """And is printed nowhere."""
    program = f"{sys.executable} -m scouter.cli.app"
    first, second, waits = (
        each.replace("/opt/scouter/bin/scouter", program) for each in token_commands()
    )
    url = f"postgresql://postgres@/postgres?host={server.folder}"
    env = {f"{ENV_PREFIX}POSTGRESQL": url, "PYTHONPATH": str(ROOT)}
    for command in (first, first, second, waits):
        assert run("sh", "-c", command, **env) == ""
    with server.connect() as connection:
        assert connection.execute(b"SELECT name, scopes FROM access_tokens").fetchall() == [
            ("first", "read")
        ]


# --- Prometheus ---


def test_prometheus_reads_every_process(tmp_path: Path) -> None:
    """Each with its role; under the job that the rules ask for."""
    promtool = require_program("promtool", "promtool")
    (scrape,) = load(FLEET / "prometheus.yml")["scrape_configs"]
    assert scrape["job_name"] == "scouter"
    found = {
        target: each["labels"]["role"]
        for each in scrape["static_configs"]
        for target in each["targets"]
    }
    roles = {name: flags_of(each["command"])["--role"] for name, each in members().items()}
    assert found == {f"{name}:4318": role for name, role in roles.items()}
    for folder in ("prometheus", "fleet"):
        shutil.copytree(ROOT / "deploy" / folder, tmp_path / folder)
        (tmp_path / folder / "token").write_text("sct_…")
    shown = run(promtool, "check", "config", tmp_path / "fleet" / "prometheus.yml")
    assert "SUCCESS: 1 rule files found" in shown


# --- the load balancer ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Balanced:
    """A load balancer in front of a collector in the place of the gateways and one of the api."""

    http: str
    grpc: str
    gateway: CollectorProcess
    api: CollectorProcess
    bearer: dict[str, str]


@pytest.fixture
def balanced(tmp_path: Path) -> Iterator[Balanced]:
    """The second gateway does not run. Both collectors know the same token."""
    program = require_program("haproxy", "haproxy")
    folders = tmp_path / "gateway", tmp_path / "api"
    _, token = TokenFile(folders[0] / "data").create("all", list(Scope), "default", None)
    shutil.copytree(folders[0], folders[1])
    gateway = CollectorProcess(folders[0], "--grpc", "127.0.0.1:0")
    api = CollectorProcess(folders[1])
    http, rpc, dead = free_ports(3)
    balancer = None
    try:
        gateway.start()
        api.start()
        text = BALANCER.read_text()
        for place, real in (
            ("gateway-1:4318", gateway.address), ("gateway-1:4317", gateway.grpc),
            ("gateway-2:4318", f"127.0.0.1:{dead}"), ("gateway-2:4317", f"127.0.0.1:{dead}"),
            ("port 4318", f"port {gateway.address.rpartition(':')[2]}"),
            (" api:4318", f" {api.address}"),
            ("bind :4318", f"bind 127.0.0.1:{http}"), ("bind :4317", f"bind 127.0.0.1:{rpc}"),
        ):  # fmt: skip
            assert place in text
            text = text.replace(place, real)
        config = tmp_path / "haproxy.cfg"
        config.write_text(text)
        subprocess.run([program, "-c", "-f", config], check=True)
        balancer = ManagedProcess([program, "-f", config, "-db"], log=tmp_path / "balancer.log")
        url = f"http://127.0.0.1:{http}"
        balancer.wait_ready(lambda: answers(f"{url}/load-balancer"))
        yield Balanced(
            http=url, grpc=f"127.0.0.1:{rpc}", gateway=gateway, api=api,
            bearer={"authorization": f"Bearer {token}"},
        )  # fmt: skip
    finally:
        if balancer is not None:
            balancer.stop()
        gateway.close()
        api.close()


def accepted(url: str, kind: str, bearer: dict[str, str]) -> int:
    sheet = httpx.get(f"{url}/api/v1/conservation", headers=bearer, timeout=120).json()
    return sheet[kind]["accepted"]


def test_the_load_balancer_divides_gateways_and_api(balanced: Balanced) -> None:
    """What is sent goes to a gateway that runs, over HTTP and gRPC; the rest goes to the api."""
    url, bearer = balanced.http, balanced.bearer
    for number in range(4):  # the gateway that does not run gets none of them
        record = {"uid": f"u{number}", "profile": "agent_health", "context": {"a": 1}}

        def is_sent(record: dict[str, Any] = record) -> bool:
            body = {"records": [record]}
            sent = httpx.post(f"{url}/v1/records", json=body, headers=bearer, timeout=120)
            assert sent.status_code in {200, 503}, sent.text  # 503: not checked yet
            return sent.is_success

        wait_until(is_sent, what="a gateway answers")
    span = Span(trace_id="a" * 32, span_id="b" * 16, name="step", start_ns=1, end_ns=2)
    with grpc.insecure_channel(balanced.grpc) as channel:
        TraceServiceStub(channel).Export(
            encode_request([span]), timeout=120, wait_for_ready=True, metadata=[*bearer.items()]
        )
    for kind, number in (("records", 4), ("spans", 1)):
        assert accepted(balanced.gateway.url, kind, bearer) == number
        assert accepted(balanced.api.url, kind, bearer) == accepted(url, kind, bearer) == 0
    assert httpx.get(f"{url}/readyz", timeout=120).status_code == 200


# --- Kubernetes ---


def manifests() -> list[dict[str, Any]]:
    return load(FLEET / "kubernetes.yaml")["items"]


def workloads() -> dict[str, dict[str, Any]]:
    kinds = ("Deployment", "StatefulSet")
    return {each["metadata"]["name"]: each for each in manifests() if each["kind"] in kinds}


def pod(workload: dict[str, Any]) -> dict[str, Any]:
    return workload["spec"]["template"]["spec"]


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in manifests() if each["kind"] == kind}


def test_the_pods_are_confined() -> None:
    """As the "restricted" standard of Kubernetes asks, and with a root that is only read."""
    for each in map(pod, workloads().values()):
        security = each["securityContext"]
        assert (security["runAsNonRoot"], security["runAsUser"]) == (True, 10001)
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert each["automountServiceAccountToken"] is False
        for container in (*each["initContainers"], *each["containers"]):
            assert container["image"] == IMAGE
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }  # fmt: skip
            assert container["resources"]["limits"]["memory"]
            mounts = {(at["name"], at["mountPath"]) for at in container["volumeMounts"]}
            assert mounts == {("tmp", "/tmp")}  # noqa: S108 the pod's own


def test_the_parts_of_the_manifests_fit() -> None:
    """Labels, ports, probes, settings and names."""
    budgets, found = of_kind("PodDisruptionBudget"), of_kind("Service")
    assert workloads().keys() == budgets.keys() == found.keys()
    for name, each in workloads().items():
        spec, (container,) = each["spec"], pod(each)["containers"]
        labels = spec["template"]["metadata"]["labels"]
        assert labels == spec["selector"]["matchLabels"] == found[name]["spec"]["selector"]
        assert labels == budgets[name]["spec"]["selector"]["matchLabels"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        served = {port["targetPort"]: port["port"] for port in found[name]["spec"]["ports"]}
        assert served == ports
        assert container["args"][0] == "collector"
        assert flags_of(container["args"]).keys() <= collector_flags()
        role = flags_of(container["args"])["--role"]
        assert name == f"scouter-{role}" == f"scouter-{container['name']}"
        assert ports.get("grpc") == (4317 if role == "gateway" else None)
        for probe, path in (("startup", "healthz"), ("liveness", "healthz"),
                            ("readiness", "readyz")):  # fmt: skip
            assert container[f"{probe}Probe"]["httpGet"] == {"path": f"/{path}", "port": "http"}
    assert {n: e["spec"]["replicas"] for n, e in workloads().items()} == {
        "scouter-gateway": 2, "scouter-worker": 3, "scouter-api": 2,
    }  # fmt: skip
    (worker,) = pod(workloads()["scouter-worker"])["containers"]
    (name,) = worker["env"]
    assert name["name"] == f"{ENV_PREFIX}FLEET_NAME"
    assert name["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    (rule,) = of_kind("Ingress")["scouter"]["spec"]["rules"]
    paths = {at["path"]: at["backend"]["service"]["name"] for at in rule["http"]["paths"]}
    assert paths == {"/v1/": "scouter-gateway", "/": "scouter-api"}


def test_the_settings_of_the_pods_are_real_and_passwords_are_secrets() -> None:
    given = of_kind("ConfigMap")["scouter-fleet"]["data"]
    settings = settings_of(given)
    assert settings.retention_days == 7
    assert all(find_profile(name).is_file() for name in settings.profile)
    assert not [name for name in given if "PASSWORD" in name]
    for each in map(pod, workloads().values()):
        for container in (*each["initContainers"], *each["containers"]):
            sources = container["envFrom"]
            assert {"configMapRef": {"name": "scouter-fleet"}} in sources
            assert {"secretRef": {"name": "scouter-fleet"}} in sources


# --- scaling ---

_WORDS: Final = {"type": "string", "minLength": 1}
_COUNT: Final = {"type": "integer", "minimum": 1}
_SCALING: Final = {
    "type": "object",
    "required": ["policies", "stabilizationWindowSeconds"],
    "additionalProperties": False,
    "properties": {
        "stabilizationWindowSeconds": {"type": "integer", "minimum": 0, "maximum": 3600},
        "policies": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "value", "periodSeconds"],
                "additionalProperties": False,
                "properties": {
                    "type": {"enum": ["Pods", "Percent"]},
                    "value": _COUNT,
                    "periodSeconds": {"type": "integer", "minimum": 1, "maximum": 1800},
                },
            },
        },
    },
}
_SCALED_OBJECT: Final = {
    "type": "object",
    "required": ["scaleTargetRef", "triggers"],
    "additionalProperties": False,
    "properties": {
        "scaleTargetRef": {
            "type": "object",
            "required": ["name"],
            "additionalProperties": False,
            "properties": {"apiVersion": _WORDS, "kind": _WORDS, "name": _WORDS},
        },
        "pollingInterval": _COUNT,
        "minReplicaCount": {"type": "integer", "minimum": 0},
        "maxReplicaCount": _COUNT,
        "advanced": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "horizontalPodAutoscalerConfig": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "behavior": {
                            "type": "object",
                            "additionalProperties": False,
                            "properties": {"scaleUp": _SCALING, "scaleDown": _SCALING},
                        }
                    },
                }
            },
        },
        "triggers": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["type", "metadata"],
                "additionalProperties": False,
                "properties": {
                    "type": {"const": "kafka"},
                    "metadata": {"type": "object", "additionalProperties": _WORDS},
                    "authenticationRef": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": _WORDS},
                    },
                },
            },
        },
    },
}
"""The fields of a ScaledObject (keda.sh/v1alpha1) that the file may use; KEDA has more."""


def test_workers_are_scaled_on_their_lag() -> None:
    """By the same topic, group, brokers and secret; no further than there are partitions."""
    authentication, scaled = yaml.safe_load_all((FLEET / "keda.yaml").read_text())
    jsonschema.validate(scaled["spec"], _SCALED_OBJECT)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**scaled["spec"], "maxReplicas": 1}, _SCALED_OBJECT)
    worker = workloads()["scouter-worker"]
    assert scaled["spec"]["scaleTargetRef"] == {
        "apiVersion": worker["apiVersion"], "kind": "StatefulSet", "name": "scouter-worker",
    }  # fmt: skip
    (trigger,) = scaled["spec"]["triggers"]
    settings = settings_of(of_kind("ConfigMap")["scouter-fleet"]["data"])
    told = trigger["metadata"]
    assert told["bootstrapServers"] == settings.kafka
    assert (told["topic"], told["consumerGroup"]) == (settings.fleet_topic, settings.fleet_group)
    assert told["username"] == settings.kafka_sasl_username
    assert told["sasl"].replace("_", "") == "scramsha512"
    assert settings.kafka_sasl_mechanism == "SCRAM-SHA-512"
    assert scaled["spec"]["minReplicaCount"] == worker["spec"]["replicas"]
    assert scaled["spec"]["maxReplicaCount"] == settings.fleet_partitions
    assert trigger["authenticationRef"]["name"] == authentication["metadata"]["name"]
    (secret,) = authentication["spec"]["secretTargetRef"]
    assert (secret["name"], secret["key"]) == (
        "scouter-fleet", f"{ENV_PREFIX}KAFKA_SASL_PASSWORD",
    )  # fmt: skip
