"""The origin of an agent's exception."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.scenario import EvalScenario
from scouter.replay.calls import own_frames
from tests.scouter.replay.bench import Bench, equals

AGENT = """\
import json

def lookup(key):
    return {}[key]

def answer(message):
    return lookup(message)

async def answer_async(message):
    return lookup(message)

def parse(message):
    return json.loads(message)

def recurse(message):
    return recurse(message)

def wrapped(message):
    try:
        lookup(message)
    except KeyError as error:
        raise ValueError("two\\nlines") from error
"""


@pytest.fixture
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[str], Any]]:
    """The functions of `agent.py`, which lies in the working folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "agent.py"
    path.write_text(AGENT, encoding="utf-8")
    names: dict[str, Any] = {}
    exec(compile(AGENT, str(path), "exec"), names)  # noqa: S102 our own text
    return names


@pytest.mark.parametrize("options", [{}, {"concurrency": 2}, {"timeout_s": 60}])
@pytest.mark.parametrize(
    ("name", "line", "frames"),
    [
        ("answer", "KeyError: 'k' (agent.py:4 in lookup)", ["7 in answer", "4 in lookup"]),
        ("answer_async", "KeyError: 'k' (agent.py:4 in lookup)", ["10 in answer_async", "4 in lo"]),
        ("parse", "JSONDecodeError: Expecting value: line 1 column 1 ", ["13 in parse"]),
        ("wrapped", "ValueError: two (agent.py:22 in wrapped)", ["22 in wrapped"]),
    ],
)  # fmt: skip
def test_the_agents_own_frames_are_stored(
    bench: Bench, agents: dict[str, Callable[[str], Any]], tmp_path: Path,
    name: str, line: str, frames: list[str], options: dict[str, Any],
) -> None:  # fmt: skip
    """Neither this package nor the library that raised is among them."""
    scenario = EvalScenario("k", [equals("response", 1)], id="s")
    orchestrator = bench.orchestrator(scenario, agent_fn=agents[name])
    journal = tmp_path / f"{name}.jsonl"
    results = orchestrator.run(on_error="record", resume=journal, **options)
    (found,) = results.scenario_results
    assert found.error_line.startswith(line)
    assert len(found.error_frames) == len(frames)
    for frame, expected in zip(found.error_frames, frames, strict=True):
        assert frame.startswith(f"agent.py:{expected}")
    again = orchestrator.run(on_error="record", resume=journal, **options)
    assert again.scenario_results[0].error_line == found.error_line
    assert ScenarioEvalResults.model_validate_json(results.model_dump_json()) == results


def test_a_recursion_keeps_the_last_five(agents: dict[str, Callable[[str], Any]]) -> None:
    with pytest.raises(RecursionError) as caught:
        agents["recurse"]("x")
    assert own_frames(caught.value) == ("agent.py:16 in recurse",) * 5


def test_an_error_of_a_library_alone_names_the_library() -> None:
    with pytest.raises(ValueError, match="Expecting") as caught:
        json.loads("{")
    caught.value.__traceback__ = caught.tb.tb_next  # without the frame of this test
    assert "json" in own_frames(caught.value)[-1]
    assert own_frames(TimeoutError("never raised")) == ()
