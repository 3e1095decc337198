"""Results of the toolkit for datasets, filters and conversations, by area."""

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import pytest

from scouter.errors import ConfigError
from scouter.evaluate.judge.port import JudgeRequest
from scouter.evaluate.report.evaluator import HISTORY_KEY, METHODS_KEY, EvalItem
from scouter.evaluate.report.trajectory_evaluator import TrajectoryEvaluator
from scouter.formats.nvidia.cases import Answered
from scouter.formats.nvidia.config import DatasetConfig
from scouter.formats.nvidia.dataset import Sizing, read_dataset
from scouter.formats.nvidia.run import latency_summary
from scouter.formats.nvidia.turns import Conversation, conversations_of, wanted_methods
from tests.scouter.formats.nvidia.run_agent import ask
from tests.support.nat_vectors import count_line, needed, raised, vectors

AREAS: Final = (
    "nat.dataset", "vss.dataset_filter", "vss.dataset_filter_env", "vss.latency", "vss.multi_turn",
)  # fmt: skip


def test_how_many(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(count_line(*AREAS))  # noqa: T201 the counts are requested


def _structure(text: str) -> dict[str, Any]:
    """Such as `disable=False question_key='query'`."""
    found: dict[str, Any] = dict(re.findall(r"(\w+_key)='([^']*)'", text))
    return {**found, "disable": "disable=True" in text}


def _filter(text: str) -> dict[str, Any]:
    """Such as `allowlist=EvalFilterEntryConfig(field={'cat': ['a*']}) denylist=None`."""
    entries = re.findall(r"(allowlist|denylist)=\w+\(field=(\{.*?\})\)", text)
    return {name: {"field": json.loads(field.replace("'", '"'))} for name, field in entries}


def _file(folder: Path, rows: list[dict[str, Any]], kind: str) -> Path:
    import pandas

    file = folder / f"data.{kind}"
    if kind == "json":
        file.write_text(json.dumps(rows), "utf-8")
    elif kind == "jsonl":
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    elif kind == "csv":
        pandas.DataFrame(rows).to_csv(file, index=False)
    else:
        pandas.DataFrame(rows).to_parquet(file)
    return file


def _read(folder: Path, given: dict[str, Any]) -> list[EvalItem]:
    kind = given.get("kind", "json")
    config = DatasetConfig.model_validate(
        {
            "_type": kind,
            "structure": _structure(given.get("structure", "")),
            "filter": _filter(given.get("filter", "")),
        }
    )
    sizing = Sizing(
        repeats=int(given.get("reps", 1)),
        adjust=given.get("adj") == "True",
        concurrency=int(given.get("conc", 8)),
        passes=int(given.get("num_passes", 0)),
    )
    file = _file(folder, given["rows"], kind)
    return read_dataset(file, config, compat="nat-1.9", sizing=sizing)


def _shown(item: EvalItem, used: set[str]) -> dict[str, Any]:
    entry = cast("Mapping[str, Any]", item.entry)
    return {
        "id": item.id,
        "id_type": type(item.id).__name__,
        "input": item.question,
        "expected": repr(item.ground_truth),
        "output": repr(item.answer),
        "extra": {name: repr(value) for name, value in entry.items() if name not in used},
    }


@pytest.mark.parametrize("vector", vectors("nat.dataset"))
def test_dataset(vector: dict[str, Any] | None, tmp_path: Path) -> None:
    vector = needed(vector)
    given = vector["input"]
    if fault := raised(vector["expected"]):
        with pytest.raises((ValueError, AttributeError), match=re.escape(fault[1])):
            _read(tmp_path, given)
        return
    names = _structure(given.get("structure", ""))
    used = {"id", names.get("question_key", "question"), names.get("answer_key", "answer")}
    assert [_shown(item, used) for item in _read(tmp_path, given)] == vector["expected"]


# --- conversations ---


def _items(rows: list[dict[str, Any]], folder: Path) -> list[EvalItem]:
    config = DatasetConfig.model_validate(
        {"_type": "json", "structure": {"question_key": "query", "answer_key": "ground_truth"}}
    )
    return read_dataset(_file(folder, rows, "json"), config)


def _turns(conversations: list[Conversation]) -> list[dict[str, Any]]:
    return [
        {
            "id": turn.id,
            "input_obj": turn.question,
            "expected_output_obj": turn.ground_truth,
            "evaluation_method": turn.entry[METHODS_KEY],
            "conv": not each.is_single,
        }
        for each in conversations
        for turn in each.turns
    ]


@pytest.mark.parametrize("vector", vectors("vss.multi_turn"))
def test_multi_turn(vector: dict[str, Any] | None, tmp_path: Path) -> None:
    vector = needed(vector)
    conversations = conversations_of(_items(vector["input"], tmp_path))
    assert _turns(conversations) == vector["expected"]
    keys = [turn.entry.get("_multi_turn_conversation_id") for turn in conversations[0].turns]
    assert len(set(keys)) == 1
    assert re.fullmatch(r"multi_turn_mt_001_[0-9a-f]{8}", str(keys[0]))


@pytest.mark.parametrize("vector", vectors("vss.dataset_filter"))
def test_dataset_filter(vector: dict[str, Any] | None, tmp_path: Path) -> None:
    vector = needed(vector)
    given = vector["input"]
    wanted = wanted_methods({"DATASET_FILTER": given["DATASET_FILTER"]})
    found = conversations_of(_items(given["dataset"], tmp_path), wanted)
    assert _turns(found) == vector["expected"]


def test_latency() -> None:
    """By hand: (2.3456 + 0) / 2; an item that did not run has none."""
    seconds = [2.3456, None, 0.0]
    answered = [
        Answered(item=EvalItem(id=str(at), question=f"q{at}"), latency_s=each)
        for at, each in enumerate(seconds)
    ]
    assert latency_summary(answered) == {
        "average_latency_seconds": 1.173,
        "items": [
            {"id": "0", "query": "q0", "latency_seconds": 2.346},
            {"id": "1", "query": "q1", "latency_seconds": None},
            {"id": "2", "query": "q2", "latency_seconds": 0.0},
        ],
    }
    assert cast("Any", latency_summary([]))["average_latency_seconds"] is None


def test_what_pandas_makes_of_a_missing_column(tmp_path: Path) -> None:
    """In `vss` the third row of the document is judged against NaN; files hold null for it."""
    rows: Any = [
        {"id": "1", "query": "a", "trajectory_ground_truth": []},
        {"id": "2", "query": "b", "evaluation_method": ["trajectory"]},
    ]
    file = _file(tmp_path, rows, "json")
    config = DatasetConfig.model_validate(
        {"_type": "json", "structure": {"question_key": "query", "answer_key": "ground_truth"}}
    )
    second = read_dataset(file, config, compat="vss")[1]
    questions: list[str] = []

    def judge(request: JudgeRequest) -> str:
        questions.append(request.messages[-1]["content"])
        return "1"

    evaluator = TrajectoryEvaluator(
        judge, custom_prompt_template_with_reference="REF {reference}", compat="vss"
    )
    [verdict] = evaluator.evaluate([second]).items
    assert (verdict.score, questions) == (1.0, ["REF NaN"])
    assert cast("Any", verdict.reasoning)["expected_tool_calls"] is None
    assert not read_dataset(file, config)[1].has_expected_calls


@pytest.mark.parametrize("vector", vectors("vss.dataset_filter_env"))
def test_dataset_filter_of_the_environment(vector: dict[str, Any] | None, tmp_path: Path) -> None:
    """The agent is really called; which of two conversations is first is the scheduler's affair."""
    vector = needed(vector)
    [expand] = [cast("Any", each.values[0]) for each in vectors("vss.multi_turn")]
    named, expected = vector["input"]["DATASET_FILTER"], vector["expected"]
    environ = {} if named is None else {"DATASET_FILTER": named}
    if fault := raised(expected):
        with pytest.raises(ConfigError, match=re.escape(fault[1])):
            wanted_methods(environ)
        return
    items = _items(expand["input"], tmp_path)
    conversations = conversations_of(items, wanted_methods(environ))
    ids = {turn.question: turn.id for each in conversations for turn in each.turns}
    events: list[str] = []

    async def agent(query: str) -> str:
        events.append(f"start {ids[query]}")
        await asyncio.sleep(0)
        events.append(f"end {ids[query]}")
        return f"ans-{ids[query]}"

    answered = ask(conversations, agent)
    assert [each.item.id for each in answered] == expected["final"]
    assert sorted(events) == sorted(expected["executed"])
    turns = [line for line in events if "mt_001" in line]
    assert turns == [line for line in expected["executed"] if "mt_001" in line]
    history = {
        str(each.item.id): each.item.entry[HISTORY_KEY]
        for each in answered
        if HISTORY_KEY in each.item.entry
    }
    assert history == expected["history"]
