"""The files under `deploy/` fit each other, the collector and the programs that read them."""

import itertools
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from collector.metrics import CollectorMetrics
from collector.settings import CollectorSettings
from scouter.drift.shipped import find_profile
from tests.support.components import ROOT, require_program

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


def test_promtool_runs_the_rule_cases() -> None:
    promtool = require_program("promtool", "promtool")
    run(promtool, "test", "rules", RULES.with_name("scouter_test.yml"))


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


def test_rules_read_only_series_and_labels_that_the_collector_has() -> None:
    """A renamed metric would silence its alert without an error anywhere."""
    registry = CollectorMetrics(dict, lambda: 0).registry
    known = {
        name
        for family in registry.collect()
        for name in (family.name, f"{family.name}_total", f"{family.name}_bucket")
    }
    rules = [rule for group in load(RULES)["groups"] for rule in group["rules"]]
    texts = [
        text for rule in rules for text in (rule["expr"], *rule.get("annotations", {}).values())
    ]
    read = {name for text in texts for name in re.findall(r"(?<![:\w])scouter_\w+\b(?!:)", text)}

    assert read <= known
    assert "scouter_evaluations_total" in read


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


def test_the_collectors_flags_and_profiles_are_real() -> None:
    command = [str(word) for word in services()["collector"]["command"]]
    flags = {word for word in command if word.startswith("--")}
    shown = run(
        sys.executable, "-m", "scouter.cli.app", "collector", "--help",
        COLUMNS="200", TERM="dumb", NO_COLOR="1",
    )  # fmt: skip
    assert flags <= set(re.findall(r"--[a-z][a-z-]*", shown))
    profiles = [after for flag, after in itertools.pairwise(command) if flag == "--profile"]
    assert all(find_profile(name).is_file() for name in profiles)


def test_the_image_sets_real_settings_and_copies_what_the_package_needs() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    names = re.findall(r"SCOUTER_COLLECTOR_(\w+)=", text)
    copied = re.findall(r"^COPY ([^-].*) \S+$", text, re.MULTILINE)

    assert {name.lower() for name in names} <= set(CollectorSettings.model_fields)
    assert all((ROOT / source).exists() for line in copied for source in line.split())


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
