"""Questions while the worker has not stored what was acknowledged before them."""

import threading

import pytest

from collector.store.commit import Commit
from scouter.model.otlp import encode_request
from tests.collector.conftest import Start
from tests.contracts.store_data import TRACE, span


def test_an_answer_has_what_was_acknowledged_or_says_that_it_may_not(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the worker stands still nothing is said to be unknown; then everything is there."""
    monkeypatch.setattr("collector.api.parameters.CATCH_UP_S", 0.01)
    service = start()
    store, go_on = service.collector.store, threading.Event()
    commit = store.commit

    def stand(rows: Commit) -> int:
        go_on.wait(120)
        return commit(rows)

    monkeypatch.setattr(store, "commit", stand)
    try:
        sent = service.http.post(
            "/v1/traces", content=encode_request([span(1)]).SerializeToString(),
            headers={"Content-Type": "application/x-protobuf"},
        )  # fmt: skip
        assert sent.status_code == 200
        listed = service.http.get("/api/v1/traces")
        trace = service.http.get(f"/api/v1/traces/{TRACE}")
        assert (listed.status_code, listed.headers["Scouter-Behind"]) == (200, "true")
        assert (trace.status_code, trace.headers["Retry-After"]) == (503, "2")
        assert "behind" in trace.json()["detail"]
    finally:
        go_on.set()
    monkeypatch.undo()
    after = service.http.get(f"/api/v1/traces/{TRACE}")
    assert (after.status_code, "Scouter-Behind" in after.headers) == (200, False)
