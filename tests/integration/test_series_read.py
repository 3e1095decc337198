"""Dashboard and rules read series that a real collector has, with the labels that it gives them."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from scouter.alert.config import AgentAlertConfig, AlertCondition
from scouter.drift.config import AgentEvalConfig
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.prometheus.rules import Objective, dashboard_text, rules_text
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.mock.llm_server import LLMTestServer
from tests.support.collector_process import CollectorProcess
from tests.support.processes import wait_until
from tests.support.prometheus_server import PrometheusServer, run_prometheus

UNSEEN: Final = {
    "scouter_judge_drifting": {"space", "alias", "task"},
    "scouter_lost_total": {"space", "kind"},
    "scouter_trouble": {"space", "trouble"},
    "scouter_trouble_firing": {"space", "trouble"},
}
"""Labels of series that no test should wait for: gold items, a damaged store, the first minute."""
_SCRAPED: Final = {"up": {"job", "instance"}}
"""Series of Prometheus itself; each scraped series has these labels as well."""
FREE: Final = {
    "scouter_records_waiting", "scouter_evaluation_stalled_seconds", "scouter_evaluation_behind",
    "scouter_evaluation_catching_up",
    "scouter_process_resident_memory_bytes", "scouter_store_size_bytes",
    "scouter_watch_last_look_timestamp_seconds",
    "scouter_join_wait_seconds_bucket", "scouter_evaluation_latency_seconds_bucket",
}  # fmt: skip
"""Series without labels, or with `le` alone."""
_READ: Final = re.compile(r"(?<![:\w])(scouter_\w+|up)\b(?!:)(\{[^}]*\})?")
_LABEL: Final = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_BY: Final = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")


def profile() -> AgentEvalProfile:
    """A task with a judge, one without, and a stated level, so that a fall is soon proven."""
    prompt = Prompt("Rate ${answer}.", "model-1", "house", output_type=Score)
    condition = AlertCondition(0.9, "Below")
    return AgentEvalProfile(
        [
            AssertionTask("right", "answer", 42, "Equals"),
            LLMJudgeTask("tone", prompt, 3, "score", "GreaterThanOrEqual"),
        ],
        AgentEvalConfig(name="bot", alert_config=AgentAlertConfig(alert_condition=condition)),
        alias="bot",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """A collector that can ask a model, after traffic, and a Prometheus that saw all of it."""

    collector: CollectorProcess
    prometheus: PrometheusServer
    rules: Sequence[Mapping[str, Any]]
    """Those that Prometheus evaluates."""


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Busy]:
    folder = tmp_path_factory.mktemp("busy")
    own = [Objective(name="bot", alias="bot", share=0.9)]
    texts = {"all.yml": rules_text(), "own.yml": rules_text(["bot"], own)}
    rules = [
        rule
        for text in texts.values()
        for group in yaml.safe_load(text)["groups"]
        for rule in group["rules"]
    ]
    # Prometheus spreads the first evaluation of a group over its interval.
    files = {name: text.replace("interval: 1m", "interval: 250ms") for name, text in texts.items()}
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv("HOUSE_KEY", "of-a-test")
        model = stack.enter_context(LLMTestServer({"score": 4, "reason": "fine"}))
        providers = {
            "house": {
                "kind": "openai", "base_url": model.url, "key_variable": "HOUSE_KEY",
                "prices": {"model-1": {"input_per_million": 2.0, "output_per_million": 8.0}},
            }
        }  # fmt: skip
        (folder / "providers.yaml").write_text(yaml.safe_dump({"providers": providers}))
        collector = CollectorProcess(
            folder, "--profile", profile().save_to_json(folder / "bot.json"),
            "--providers-file", folder / "providers.yaml", "--deadline-s", "200ms",
        )  # fmt: skip
        collector.start()
        stack.callback(collector.close)
        prometheus = stack.enter_context(run_prometheus(config_of(collector, *files), files))
        prometheus.wait_target_up("scouter")
        send(collector)
        yield Busy(collector=collector, prometheus=prometheus, rules=rules)


def send(collector: CollectorProcess) -> None:
    records: list[dict[str, Any]] = [
        {"uid": f"u{n}", "profile": "bot", "trace_id": f"{n + 1:032x}", "context": {"answer": 41}}
        for n in range(60)
    ]
    records.append({"uid": "lost", "profile": "nobody", "context": {}})
    answer = httpx.post(
        f"{collector.url}/v1/records",
        json={"records": records},
        headers={"scouter-dropped": "sender=9f31c04e, full=0/3"},
        timeout=120,
    )
    assert answer.status_code == 200, answer.text


def queries_of_rules(text: str) -> Iterator[str]:
    for group in yaml.safe_load(text)["groups"]:
        for rule in group["rules"]:
            yield rule["expr"]


def queries_of_dashboard() -> list[str]:
    board = json.loads(dashboard_text())
    return [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())] + [
        each["definition"].removeprefix("label_values(").rsplit(",", 1)[0]
        for each in board["templating"]["list"]
        if each["type"] == "query"
    ]


def asked(query: str) -> str:
    """A query as Grafana sends it, with all values picked."""
    for name in ("space", "alias", "task"):
        query = query.replace(f"${name}", ".*")
    return query.replace("$__rate_interval", "1m")


def labels_by_name(text: str) -> dict[str, set[str]]:
    """Labels of every series of a scrape; of none where a family has no samples."""
    found = {
        f"{family.name}_total" if family.type == "counter" else family.name: set[str]()
        for family in text_string_to_metric_families(text)
    }
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_every_name_and_label_is_there(busy: Busy) -> None:
    own = [Objective(name="bot", alias="bot", share=0.9)]
    queries = [
        *queries_of_dashboard(),
        *queries_of_rules(rules_text()),
        *queries_of_rules(rules_text(["bot"], own)),
    ]
    read = {match[1] for query in queries for match in _READ.finditer(query)}

    def scrape() -> dict[str, set[str]]:
        return labels_by_name(httpx.get(f"{busy.collector.url}/metrics", timeout=120).text)

    def seen() -> bool:
        shown = scrape()
        return all(shown.get(name) for name in read - UNSEEN.keys() - _SCRAPED.keys() - FREE)

    wait_until(seen, what=f"all of {sorted(read)} have samples")
    shown = scrape()
    assert UNSEEN.keys() <= read
    assert all(shown.get(name, set()) in (set(), labels) for name, labels in UNSEEN.items())
    assert UNSEEN.keys() - shown.keys() == {"scouter_judge_drifting"}, "shown where gold items are"
    known = {**shown, **UNSEEN, **_SCRAPED}
    for query in queries:
        of_query = set[str]()
        for match in _READ.finditer(query):
            name, selector = match[1], match[2] or ""
            assert name in known, f"{name} of {query}"
            of_query |= known[name]
            assert set(_LABEL.findall(selector)) <= known[name] | _SCRAPED["up"], query
        if of_query:  # others read what recording rules have made
            for labels in _BY.findall(query):
                assert {each.strip() for each in labels.split(",")} <= of_query, query


def config_of(collector: CollectorProcess, *rules: str) -> str:
    quick = ("scrape_interval", "scrape_timeout", "evaluation_interval")
    return yaml.safe_dump(
        {
            "global": dict.fromkeys(quick, "250ms"),
            "rule_files": list(rules),
            "scrape_configs": [
                {"job_name": "scouter", "static_configs": [{"targets": [collector.address]}]}
            ],
        }
    )


def test_prometheus_answers_every_rule(busy: Busy) -> None:
    """Each rule is evaluated; each record, and each series that an alert asks for, is there."""
    wanted = {rule["record"] for rule in busy.rules if "record" in rule}
    for rule in busy.rules:
        for match in _READ.finditer(rule["expr"]):
            # A limit is learnt from 200 records with traces; here are 60 without.
            if match[1] not in UNSEEN and 'kind="amount"' not in match[0]:
                wanted.add(match[0])
    for each in sorted(wanted):
        wait_until(lambda each=each: busy.prometheus.query(each), what=f"a series of {each}")

    def evaluated() -> bool:
        states = busy.prometheus.rules()
        return len(states) == len(busy.rules) and set(states.values()) == {("ok", "")}

    wait_until(evaluated, what=f"all rules are evaluated: {busy.prometheus.rules()}")


def test_prometheus_answers_every_picture(busy: Busy) -> None:
    """After traffic no panel is empty."""
    for query in map(asked, queries_of_dashboard()):
        wait_until(lambda query=query: busy.prometheus.query(query), what=f"a series of {query}")
    total = 'scouter_task_results_total{task="tone",outcome="passed"}'
    wait_until(lambda: busy.prometheus.total(total) == 60, what="all judged results are counted")
