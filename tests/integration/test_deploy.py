"""The files under `deploy/` fit each other, the collector and the programs that read them."""

import itertools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, cast

import httpx
import kubernetes_validate
import pytest
import yaml
from typer.testing import CliRunner

from collector.access.tokens import TokenFile
from collector.settings.model import CollectorSettings
from scouter.cli.app import make_app
from scouter.drift.profile import AgentEvalProfile, find_profile
from scouter.drift.prometheus.rules import rules_text
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.otlp import encode_request
from scouter.model.span import Span
from tests.support.collector_process import CollectorProcess
from tests.support.components import ROOT, require_program
from tests.support.processes import ManagedProcess, free_ports, wait_until

DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
RULES = DEPLOY / "prometheus" / "rules" / "scouter.yml"


def load(path: Path) -> dict[str, Any]:
    return cast(dict[str, Any], yaml.safe_load(path.read_text()))


def run(*args: str | Path, **env: str) -> str:
    """Run a program that must end well; returns what it printed."""
    done = subprocess.run(
        [str(arg) for arg in args], capture_output=True, text=True, timeout=120, check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **env},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# --- Prometheus and Alertmanager ---


def test_promtool_accepts_configuration_and_rules(tmp_path: Path) -> None:
    """Beside the token that `deploy/README.md` says to make."""
    promtool = require_program("promtool", "promtool")
    folder = shutil.copytree(DEPLOY / "prometheus", tmp_path / "prometheus")
    (folder / "token").write_text("sct_…")
    shown = run(promtool, "check", "config", folder / "prometheus.yml")
    assert "SUCCESS: 1 rule files found" in shown


def test_the_commands_about_the_rules_run_in_their_order(tmp_path: Path) -> None:
    """As the page has them, in a copy beside a profile: the second file replaces the first.

    The first of them tries the cases of the shipped rules.
    """
    programs = [Path(require_program("promtool", "promtool")).parent, Path(sys.executable).parent]
    folder = shutil.copytree(DEPLOY / "prometheus", tmp_path / "deploy" / "prometheus")
    task = AssertionTask("t", "answer", "Paris", "Contains")
    AgentEvalProfile([task], alias="geographer").save_to_json(tmp_path / "geographer.json")
    page = (DEPLOY / "README.md").read_text(encoding="utf-8").split("\n## The alerts\n")[1]
    commands = re.findall(r"^    (.+)$", page.split("\n## ")[0], flags=re.MULTILINE)
    assert len(commands) == 4
    assert commands[0] == "promtool test rules deploy/prometheus/rules/scouter_test.yml"
    path = ":".join(map(str, programs))
    run("bash", "-ec", f"cd {tmp_path}; PATH={path}:$PATH; " + "\n".join(commands))
    assert 'alias=~"geographer"' in (folder / "rules" / "scouter.yml").read_text("utf-8")


def test_amtool_accepts_the_configuration() -> None:
    amtool = require_program("alertmanager", "amtool")
    shown = run(amtool, "check-config", DEPLOY / "alertmanager" / "alertmanager.yml")
    assert "SUCCESS" in shown


def test_every_alert_has_a_case_and_a_line_in_the_readme() -> None:
    rules = [rule for group in load(RULES)["groups"] for rule in group["rules"]]
    alerts = {rule["alert"] for rule in rules if "alert" in rule}
    cases = load(RULES.with_name("scouter_test.yml"))["tests"]
    fired = {
        case["alertname"]
        for test in cases
        for case in test.get("alert_rule_test", [])
        if case.get("exp_alerts")
    }
    quiet = {
        case["alertname"]
        for test in cases
        for case in test.get("alert_rule_test", [])
        if not case.get("exp_alerts")
    }
    readme = (DEPLOY / "README.md").read_text()
    named = set(re.findall(r"^\| `(Scouter\w+)`", readme, re.MULTILINE))

    assert (fired, quiet, named) == (alerts, alerts, alerts)


def test_the_shipped_rules_are_those_of_the_command() -> None:
    """For all profiles; a rule that is changed by hand would be lost with the next version."""
    assert RULES.read_text() == rules_text()


# --- Kafka ---


def test_topics_are_created_with_equal_partition_counts() -> None:
    """`echo` stands where Kafka's tool would, and shows what it would have been told."""
    shown = run(
        "sh", DEPLOY / "kafka" / "create-topics.sh",
        BOOTSTRAP="kafka:9092", PARTITIONS="6", KAFKA_TOPICS="echo",
    )  # fmt: skip
    common = "--partitions 6 --replication-factor 1"
    start = "--bootstrap-server kafka:9092 --create --if-not-exists --topic"
    defaults = CollectorSettings()

    assert shown.splitlines() == [
        f"{start} {defaults.kafka_records_topic} {common}",
        f"{start} {defaults.kafka_spans_topic} {common}",
    ]


# --- Docker ---


def services() -> dict[str, dict[str, Any]]:
    return load(COMPOSE)["services"]


def mounts() -> list[str]:
    """Sources of all mounts that are files."""
    sources = [
        volume.split(":")[0] for each in services().values() for volume in each.get("volumes", [])
    ]
    return [source for source in sources if source.startswith(".")]


@pytest.mark.parametrize("source", mounts())
def test_every_mounted_file_exists(source: str) -> None:
    """But the token, which is made on the spot, and never committed."""
    is_token = source == "./prometheus/token"
    assert (DEPLOY / source).exists() or is_token


def test_every_named_volume_is_declared() -> None:
    declared = set(load(COMPOSE)["volumes"])
    used = {
        volume.split(":")[0] for each in services().values() for volume in each.get("volumes", [])
    }
    assert used - set(mounts()) == declared


def test_nothing_is_published_beyond_this_machine() -> None:
    ports = [port for each in services().values() for port in each.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_services_know_each_other_by_name() -> None:
    """Targets in the configuration files are services of the compose file, at ports they serve."""
    prometheus = load(DEPLOY / "prometheus" / "prometheus.yml")
    (scrape,) = prometheus["scrape_configs"]
    (manager,) = prometheus["alerting"]["alertmanagers"]
    targets = [
        target
        for entry in (*scrape["static_configs"], *manager["static_configs"])
        for target in entry["targets"]
    ]
    published = {
        f"{name}:{port.rsplit(':', 1)[1]}"
        for name, each in services().items()
        for port in each.get("ports", [])
    }
    assert set(targets) <= published
    assert scrape["job_name"] == "scouter"  # the rules ask for this job


@cache
def collector_flags() -> set[str]:
    """The flags that `scouter collector --help` shows."""
    plain = {"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"}
    done = CliRunner().invoke(make_app(), ["collector", "--help"], env=plain)
    assert done.exit_code == 0, done.output
    return set(re.findall(r"--[a-z][a-z-]*", done.output))


def test_the_collectors_flags_and_profiles_are_real() -> None:
    command = [str(word) for word in services()["collector"]["command"]]
    assert {word for word in command if word.startswith("--")} <= collector_flags()
    profiles = [after for flag, after in itertools.pairwise(command) if flag == "--profile"]
    assert all(find_profile(name).is_file() for name in profiles)


def test_the_image_sets_real_settings_and_copies_what_the_package_needs() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    names = re.findall(r"SCOUTER_COLLECTOR_(\w+)=", text)
    copied = re.findall(r"^COPY ([^-].*) \S+$", text, re.MULTILINE)

    assert "install -d -m 0700 -o scouter /data" in text
    assert {name.lower() for name in names} <= set(CollectorSettings.model_fields)
    assert all((ROOT / source).exists() for line in copied for source in line.split())


def test_every_service_is_confined() -> None:
    """No root of its own to write to, no capability, bounded memory, a check, an exact version."""
    for name, each in services().items():
        assert each["cap_drop"] == ["ALL"], name
        assert each["security_opt"] == ["no-new-privileges:true"], name
        assert each["read_only"] is (name != "kafka"), name  # its start writes into its root
        assert re.fullmatch(r"\d+[mg]", each["mem_limit"]), name
        assert re.search(r":v?\d+\.\d+\.\d+$", each["image"]), name
        if each.get("restart"):
            assert each["healthcheck"]["test"][0] == "CMD", name
        else:
            assert name == "topics", "it ends when it is done"
    bases = re.findall(r"^FROM (\S+)", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert all(re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base) for base in bases)
    assert "USER 10001:10001" in (DEPLOY / "Dockerfile").read_text()


# --- Kubernetes ---


def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / "scouter.yaml").read_text()))


def stateful_set() -> dict[str, Any]:
    (found,) = [each for each in manifests() if each["kind"] == "StatefulSet"]
    return found["spec"]


def pod() -> dict[str, Any]:
    return stateful_set()["template"]["spec"]


def containers() -> list[dict[str, Any]]:
    return [*pod()["initContainers"], *pod()["containers"]]


@pytest.mark.parametrize("version", ["1.29", "1.33", "1.37"])
def test_kubernetes_accepts_the_manifests(version: str) -> None:
    """By the schemas of its versions, in which there is no field that they do not name."""
    of_fleet = load(DEPLOY / "fleet" / "kubernetes.yaml")["items"]
    for each in (*manifests(), *of_fleet):
        kubernetes_validate.validate(each, version, strict=True)
    wrong: dict[str, Any] = {**manifests()[1], "spec": {"selektor": {}}}
    with pytest.raises(kubernetes_validate.ValidationError, match="selektor"):
        kubernetes_validate.validate(wrong, version, strict=True)


def test_the_pod_is_confined() -> None:
    """As the "restricted" standard of Kubernetes asks, and with a root that is only read."""
    security = pod()["securityContext"]
    assert (security["runAsNonRoot"], security["runAsUser"]) == (True, 10001)
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod()["automountServiceAccountToken"] is False
    for each in containers():
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip
        assert each["resources"]["limits"]["memory"]
        written = {at["mountPath"] for at in each["volumeMounts"] if not at.get("readOnly")}
        assert written == {"/data", "/tmp"}  # noqa: S108 the pod's own
    assert stateful_set()["replicas"] == 1


def test_the_parts_of_the_manifests_fit() -> None:
    """Labels, ports, volumes, the image's version, and what the collector itself has to know."""
    (service,) = [each["spec"] for each in manifests() if each["kind"] == "Service"]
    (settings,) = [each for each in manifests() if each["kind"] == "ConfigMap"]
    (collector,) = pod()["containers"]
    labels = stateful_set()["template"]["metadata"]["labels"]
    assert service["selector"] == stateful_set()["selector"]["matchLabels"] == labels
    ports = {each["name"]: each["containerPort"] for each in collector["ports"]}
    assert {each["targetPort"]: each["port"] for each in service["ports"]} == ports
    assert ports == {"http": 4318, "grpc": 4317}
    for name, path in (("startup", "/healthz"), ("liveness", "/healthz"), ("readiness", "/readyz")):
        assert collector[f"{name}Probe"]["httpGet"] == {"path": path, "port": "http"}
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    volumes = {each["name"] for each in pod()["volumes"]}
    volumes |= {each["metadata"]["name"] for each in stateful_set()["volumeClaimTemplates"]}
    for each in containers():
        assert {at["name"] for at in each["volumeMounts"]} == volumes
        assert each["image"] == services()["collector"]["image"] == f"scouter:{version}"
    assert collector["args"] == ["collector", "--config", "/etc/scouter/collector.yaml"]
    given = yaml.safe_load(settings["data"]["collector.yaml"])
    assert given.keys() <= CollectorSettings.model_fields.keys()
    assert all(find_profile(name).is_file() for name in given["profile"])


def test_the_pods_first_token_is_made_once(tmp_path: Path) -> None:
    """And is printed nowhere; a collector that other machines reach starts with it."""
    (first,) = pod()["initContainers"]
    shell, flag, command = first["command"]
    program = f"{sys.executable} -m scouter.cli.app"
    command = command.replace("/opt/scouter/bin/scouter", program)
    command = command.replace("/data/store", str(tmp_path / "store"))
    for _ in range(2):
        assert run(shell, flag, command, PYTHONPATH=str(ROOT)) == ""
    (found,) = TokenFile(tmp_path / "store").all()
    assert found.name == "first"


# --- systemd ---


def test_systemd_accepts_the_unit_and_calls_it_safe(tmp_path: Path) -> None:
    """Its program is not here: it is replaced by one that is."""
    systemd = require_program("systemd", "systemd-analyze")
    text = (DEPLOY / "systemd" / "scouter-collector.service").read_text()
    assert text.count("/opt/scouter/bin/scouter collector\n") == 1
    unit = tmp_path / "scouter-collector.service"
    unit.write_text(text.replace("ExecStart=/opt/scouter/bin/scouter", "ExecStart=/bin/true"))
    done = subprocess.run(
        [systemd, "verify", "--man=no", unit], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    shown = run(systemd, "security", "--offline=true", unit)
    (level,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", shown)
    assert float(level) < 2
    names = re.findall(r"SCOUTER_COLLECTOR_(\w+)=/", text)
    assert {name.lower() for name in names} <= set(CollectorSettings.model_fields)


class Confined(CollectorProcess):
    """A collector under what the unit forbids."""

    def __init__(self, folder: Path, calls: Path, *flags: str | Path) -> None:
        super().__init__(folder, *flags)
        self._calls = calls

    def command(self) -> list[str]:
        return [sys.executable, str(ROOT / "tests" / "support" / "sandbox.py"), str(self._calls)]


def calls_of(systemd: str, unit: str) -> set[str]:
    """The system calls that a unit's `SystemCallFilter` lines allow, as systemd knows them."""
    shown = run(systemd, "syscall-filter", "--no-pager")
    sets: dict[str, list[str]] = {}
    inside: list[str] = []
    for line in shown.splitlines():
        if line.startswith("@"):
            sets[line.strip()] = inside = []
        elif line.strip() and line.startswith(" ") and not line.strip().startswith("#"):
            inside.append(line.strip())

    def expand(name: str) -> set[str]:
        parts = sets.get(name)
        return {name} if parts is None else {call for part in parts for call in expand(part)}

    allowed: set[str] = set()
    for sign, names in re.findall(r"^SystemCallFilter=(~?)(.*)$", unit, re.MULTILINE):
        calls = {call for name in names.split() for call in expand(name)}
        allowed = allowed - calls if sign else allowed | calls
    return allowed


def test_a_collector_works_under_what_the_unit_forbids(tmp_path: Path) -> None:
    """Its system calls, no memory that is writable and executable, no new rights, its umask.

    Three parts need systemd as the first process, and are not tried here: its own user, the
    read-only view of the file system and the limits on address families.
    """
    systemd = require_program("systemd", "systemd-analyze")
    unit = (DEPLOY / "systemd" / "scouter-collector.service").read_text()
    for line in ("MemoryDenyWriteExecute=yes", "NoNewPrivileges=yes", "UMask=0077",
                 "SystemCallErrorNumber=EPERM"):  # fmt: skip
        assert f"\n{line}\n" in unit
    calls = calls_of(systemd, unit)
    assert {"read", "futex", "execve"} <= calls
    assert not {"mount", "reboot", "ptrace", "chroot", "setrlimit"} & calls
    (tmp_path / "calls").write_text("\n".join(sorted(calls)))
    sandbox = ROOT / "tests" / "support" / "sandbox.py"
    tried = [sys.executable, sandbox, tmp_path / "calls", "this"]
    done = subprocess.run(tried, capture_output=True, text=True, check=False)
    if "seccomp" in done.stderr or "prctl" in done.stderr:
        pytest.skip(f"this kernel confines no process: {done.stderr.splitlines()[-1]}")
    collector = Confined(tmp_path, tmp_path / "calls", "--profile", "agent_health")
    collector.start()
    try:
        limits = Path(f"/proc/{collector.process.pid}/status").read_text()
        assert "NoNewPrivs:\t1\n" in limits
        assert "Seccomp:\t2\n" in limits
        record = {"uid": "u1", "profile": "agent_health", "trace_id": "a" * 32}
        span = Span(trace_id="a" * 32, span_id="b" * 16, name="step", start_ns=1, end_ns=2)
        body = encode_request([span]).SerializeToString()
        media = {"content-type": "application/x-protobuf"}
        sent = httpx.post(f"{collector.url}/v1/traces", content=body, headers=media, timeout=120)
        assert sent.status_code == 200
        sent = httpx.post(f"{collector.url}/v1/records", json={"records": [record]}, timeout=120)
        assert sent.status_code == 200
        wait_until(lambda: collector.evaluations(), what="an evaluation")
    finally:
        code = collector.stop()
    assert code == 0
    files = [each for each in (tmp_path / "data").rglob("*") if each.is_file()]
    assert files
    assert {each.stat().st_mode & 0o077 for each in files} == {0}


# --- the image, as far as no engine for containers is needed ---


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=120).status_code == 200
    except httpx.TransportError:
        return False


def test_a_container_starts_only_once_there_is_a_token(tmp_path: Path) -> None:
    """With the image's settings, but for the ports; its command and entry point are real."""
    text = (DEPLOY / "Dockerfile").read_text()
    settings = dict(re.findall(r"(SCOUTER_COLLECTOR_\w+)=(\S+)", text))
    assert settings.pop("SCOUTER_COLLECTOR_DATA") == "/data"
    assert re.findall(r'^(?:ENTRYPOINT|CMD) \["(.*)"\]$', text, re.MULTILINE) == [
        "/opt/scouter/bin/scouter", "collector",
    ]  # fmt: skip
    http_port, grpc_port = free_ports(2)
    settings = {
        name: value.replace("4318", str(http_port)).replace("4317", str(grpc_port))
        for name, value in settings.items()
    }
    settings["SCOUTER_COLLECTOR_DATA"] = str(tmp_path / "data")
    program = [sys.executable, "-m", "scouter.cli.app"]
    environ = {**os.environ, **settings}
    refused = subprocess.run(
        [*program, "collector"], env=environ, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert refused.returncode != 0
    assert "token" in refused.stderr
    made = subprocess.run(
        [*program, "token", "create", "--scope", "read"], env=environ, capture_output=True,
        text=True, timeout=120, check=True,
    )  # fmt: skip
    token = made.stdout.split()[-1]
    process = ManagedProcess([*program, "collector"], log=tmp_path / "log", env=environ)
    try:
        url = f"http://127.0.0.1:{http_port}"
        wait_until(lambda: answers(f"{url}/readyz"), what="the collector")
        assert httpx.get(f"{url}/api/v1/tasks", timeout=120).status_code == 401
        bearer = {"authorization": f"Bearer {token}"}
        assert httpx.get(f"{url}/api/v1/tasks", headers=bearer, timeout=120).status_code == 200
    finally:
        assert process.stop() == 0
