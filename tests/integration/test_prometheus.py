"""A real Prometheus scrapes the collector and raises the alarm when an agent gets worse."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import httpx
import yaml

from scouter.drift.prometheus.rules import rules_text
from scouter.transport.config import HttpConfig
from tests.support.collector_process import CollectorProcess
from tests.support.components import ROOT
from tests.support.processes import wait_until
from tests.support.prometheus_server import (
    Alert,
    PrometheusServer,
    run_alertmanager,
    run_prometheus,
)
from tests.support.traced_agent import ALIAS, TracedAgent, helper_profile, traced_agent

StartCollector = Callable[..., CollectorProcess]
DEPLOY = ROOT / "deploy" / "prometheus"
ALERT = "ScouterTaskFell"


def config_for(collector: CollectorProcess, alertmanager: str) -> str:
    """The scrape configuration of `deploy/` with other addresses and at another speed."""
    config = cast(dict[str, Any], yaml.safe_load((DEPLOY / "prometheus.yml").read_text()))
    config["global"] = {"scrape_interval": "250ms", "evaluation_interval": "250ms",
                        "scrape_timeout": "250ms"}  # fmt: skip
    config["scrape_configs"][0]["static_configs"] = [{"targets": [collector.address]}]
    del config["scrape_configs"][0]["authorization"]  # this collector has no tokens
    config["alerting"]["alertmanagers"][0]["static_configs"] = [{"targets": [alertmanager]}]
    return yaml.safe_dump(config)


def send_until(
    agent: TracedAgent, prefix: str, good: bool, done: Callable[[], bool], what: str
) -> None:
    """Keep the agent busy, ten cases at a time, until Prometheus says what is waited for."""
    sent = 0

    def step() -> bool:
        nonlocal sent
        agent.answer_all([f"{prefix}-{n}" for n in range(sent, sent + 10)], good=good)
        sent += 10
        return done()

    wait_until(step, what=what, every_s=0.1)


def firing(prometheus: PrometheusServer, task: str) -> list[Alert]:
    found = prometheus.alerts(ALERT, state="firing")
    return [each for each in found if each["labels"]["task"] == task]


def test_a_regression_is_read_from_prometheus_own_api(
    start_collector: StartCollector, tmp_path: Path
) -> None:
    """The profile states a level of 90 % for its records, so that nothing must be learnt."""
    profile = helper_profile()
    collector = start_collector("--profile", profile.save_to_json(tmp_path / "helper.json"))
    with (
        run_alertmanager(
            (ROOT / "deploy" / "alertmanager" / "alertmanager.yml").read_text()
        ) as alertmanager,
        run_prometheus(
            config_for(collector, alertmanager), {"rules/scouter.yml": rules_text()}
        ) as prometheus,
        traced_agent(HttpConfig(server_uri=collector.url), profile) as agent,
    ):
        prometheus.wait_target_up("scouter")
        passed = 'scouter_task_results_total{task="good_answer",outcome="passed"}'
        evidence = 'scouter_task_evidence{task="(record)",kind="pass"}'
        send_until(
            agent, "healthy", True,
            lambda: prometheus.total(passed) >= 150 and bool(prometheus.query(evidence)),
            "Prometheus has results",
        )  # fmt: skip
        assert prometheus.alerts(ALERT) == []

        send_until(
            agent, "worse", False, lambda: bool(firing(prometheus, "(record)")),
            "the alert fires",
        )  # fmt: skip
        (alert,) = firing(prometheus, "(record)")
        assert alert["labels"] == {
            "alertname": ALERT, "severity": "critical", "space": "default", "profile": "helper",
            "alias": ALIAS, "task": "(record)", "service": "helper",
        }  # fmt: skip
        assert alert["annotations"]["summary"] == ("helper: task (record) fails more than it did")
        assert max(prometheus.query(evidence).values()) >= 100
        _alertmanager_has(alertmanager)
        _counts_agree(collector, prometheus)


def _alertmanager_has(address: str) -> None:
    def received() -> bool:
        alerts = httpx.get(f"http://{address}/api/v2/alerts", timeout=120).json()
        return any(alert["labels"]["alertname"] == ALERT for alert in alerts)

    wait_until(received, what="the alert reaches Alertmanager", every_s=0.1)


def _counts_agree(collector: CollectorProcess, prometheus: PrometheusServer) -> None:
    """Once all is evaluated, Prometheus, `/metrics` and the API give the same numbers."""

    def settled() -> bool:
        records = collector.records()
        return records["accepted"] == records["evaluated"]

    wait_until(settled, what="every record is evaluated")
    total = collector.records()["evaluated"]
    failed = len(collector.evaluations(outcome="failed"))
    series = 'scouter_evaluations_total{task="good_answer",outcome="%s"}'
    wait_until(
        lambda: (
            prometheus.total(series % "failed") == failed
            and prometheus.total(series % "passed") == total - failed
        ),
        what=f"Prometheus counts {failed} failures of {total}",
    )
    metrics = collector.metrics()
    spans = sum(v for name, v in metrics.items() if name.startswith("scouter_spans_received_total"))
    assert spans == 4 * total


def test_every_outcome_is_shown_before_it_happens(
    start_collector: StartCollector, tmp_path: Path
) -> None:
    """So that Prometheus sees the step to the first of each."""
    profile = helper_profile()
    collector = start_collector("--profile", profile.save_to_json(tmp_path / "helper.json"))
    metrics = collector.metrics()
    for outcome in ("passed", "failed", "errored", "skipped"):
        shown = {
            name: value
            for name, value in metrics.items()
            if name.startswith("scouter_evaluations_total") and f'outcome="{outcome}"' in name
        }
        assert (len(shown), set(shown.values())) == (4, {0}), outcome
