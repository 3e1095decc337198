"""A run is found by the fields that name records, and not by other words of its file."""

import json
from pathlib import Path
from typing import Any

import pytest

from collector.store.erase import EraseTarget
from collector.store.file_store import FileStore
from collector.store.letter_reads import LetterSearch
from collector.store.runs import RunSearch
from tests.contracts.store_data import SPACE
from tests.contracts.store_people import run

TRACE = "0af7651916cd43dd8448eb211c80319c"
DEEP: Any = json.loads('{"a":' * 300 + '"s-7"' + "}" * 300)


def attribute(key: str, text: str) -> dict[str, Any]:
    return {"traces": {"attributes": [{"key": key, "value": {"stringValue": text}}]}}


@pytest.mark.parametrize(
    ("content", "is_found"),
    [
        pytest.param({"results": [{"session_id": "s-7"}]}, True, id="session"),
        pytest.param({"results": [{"session_id": "s-77"}]}, False, id="longer"),
        pytest.param({"results": [{"record_uid": "s-7"}]}, True, id="record-uid"),
        pytest.param({"results": [{"record_id": "s-7"}]}, True, id="record-id"),
        pytest.param({"reasked": {"scenarios": [{"scenario_id": "s-7"}]}}, True, id="scenario"),
        pytest.param({"results": [{"trace_id": TRACE}]}, True, id="trace"),
        pytest.param({"traces": {"spans": [{"traceId": TRACE.upper()}]}}, True, id="span"),
        pytest.param({"contexts": {"s-7": "short"}}, True, id="uid-of-a-context"),
        pytest.param({"contexts": {"u": {"ids": ["x", "s-7"]}}}, True, id="in-a-context"),
        pytest.param({"contexts": {"u": '{"id": "s-7"}'}}, True, id="in-a-text-of-json"),
        pytest.param({"contexts": {"u": DEEP}}, True, id="deep-in-a-context"),
        pytest.param({"contexts": {"u": {"s-7": 1}}}, False, id="key-in-a-context"),
        pytest.param({"scenarios": [{"tags": ["s-7"]}]}, True, id="tag-of-a-scenario"),
        pytest.param(attribute("session.id", "s-7"), True, id="session-of-a-span"),
        pytest.param(attribute("gen_ai.agent.name", "s-7"), False, id="other-attribute"),
        pytest.param({"s-7": 1}, False, id="field"),
        pytest.param({"results": [{"tasks": [{"task_id": "s-7"}]}]}, False, id="task"),
        pytest.param({"results": [{"tasks": [{"expected": "s-7"}]}]}, False, id="expected"),
        pytest.param({"contexts": {"u": {"user": "ann"}}}, True, id="the-tag-in-a-context"),
        pytest.param({"results": [{"tags": {"user": "ann"}}]}, True, id="the-tag"),
        pytest.param(attribute("user", "ann"), True, id="the-tag-of-a-span"),
        pytest.param({"turns": [{"user": "ann"}]}, False, id="the-question-ann"),
    ],
)
def test_runs_that_speak_of_it(content: dict[str, Any], is_found: bool) -> None:
    search = RunSearch(LetterSearch(["s-7"], [TRACE], ("user", "ann")))
    assert search.finds(json.dumps(content).encode()) is is_found


def test_an_erasure_keeps_runs_that_hold_the_word_by_chance(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    about = {"results": [{"session_id": "agent"}]}
    chance: Any = {
        "agent": "shop",
        "results": [{"session_id": "s", "tasks": [{"expected": "agent"}]}],
    }
    for name, body in (("about", about), ("chance", chance)):
        store.append_run(run(name, body=json.dumps(body).encode()))
    erased = store.erase(EraseTarget(space=SPACE, session_id="agent"))
    left = [each.run_id for each in store.runs(SPACE)]
    store.close()
    assert (erased.runs, left) == (1, ["chance"])
