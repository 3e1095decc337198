"""Causes of trouble from what senders and judges really do, to their end, by a clock of its own."""

import time
from pathlib import Path

import pytest

from collector.alerts.health import CALM_NS, LOOK_NS
from collector.alerts.troubles import HOUR_NS
from scouter.mock.llm_server import LLMTestServer
from tests.collector.conftest import Start
from tests.collector.judging.test_service import begin, send, wait_decided


def test_each_cause_says_what_to_do_and_ends(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOUSE_KEY", "of-a-test")
    with LLMTestServer({"score": 4, "reason": "r"}) as server:
        service = begin(start, tmp_path, server, judge_daily_budget_usd=0.0001, drift="off")
        health, now_ns = service.collector.watch.health, time.time_ns()
        assert health.look(now_ns) == []
        send(service, 42)
        service.wait_for(1)
        wait_decided(service)
        for n in range(12):
            nameless = {"uid": f"bad{n}", "profile": "", "context": "none"}
            refused = service.http.post("/v1/records", json={"records": [nameless]})
            assert refused.status_code == 200
        report = {"scouter-dropped": "sender=9f31c04e, full=0/40"}
        answer = service.http.post("/v1/records", json={"records": []}, headers=report)
        assert answer.status_code == 200
        assert service.collector.worker.catch_up()
        now_ns += LOOK_NS
        found = {each.trouble.value: each.message for each in health.look(now_ns)}
        for trouble, count, remedy in (
            ("judge_budget", "2 judge tasks", "raise judge_daily_budget_usd"),
            ("dead_letters", "12 things", "scouter letters list"),
            ("dropped", "40 records and spans", "where queues were full, enlarge them"),
        ):
            message = found.pop(trouble)
            assert message.startswith(count)
            assert remedy in message
        assert found == {}
        shown = {each["trouble"] for each in service.get("/api/v1/alerts")["trouble"]}
        assert shown == {"judge_budget", "dead_letters", "dropped"}
        end_ns = now_ns + HOUR_NS + CALM_NS + 10 * LOOK_NS
        while now_ns < end_ns:
            now_ns += LOOK_NS
            health.look(now_ns)
        assert health.findings() == []
        assert service.get("/api/v1/alerts")["trouble"] == []
