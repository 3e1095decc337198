"""Datasets made of conversations: what went well is wanted again."""

import json
from pathlib import Path

import pytest

from scouter.errors import ConfigError
from scouter.evaluate.journey.evaluate import evaluate_journey
from scouter.formats.watsonx.recorded import dataset_of, read_dataset, write_datasets
from scouter.model.agent_work import ToolCall
from tests.support.journeys import calls, says, user


def call(name: str, error: str = "", **arguments: int) -> ToolCall:
    return ToolCall(name=name, arguments=dict(arguments), error=error)


def test_a_chain_of_what_was_done() -> None:
    """A call that failed is not wanted, an equal one is where it came last."""
    made = [call("a", x=1), call("b"), call("b", error="no"), call("a", x=2), call("a", x=1)]
    dataset = dataset_of("n", ["hi", "and now?"], made, "Done.")
    assert dataset is not None
    assert dataset["goals"] == {
        "b-1": ["a-1"], "a-1": ["a-2"], "a-2": ["summarize"], "summarize": [],
    }  # fmt: skip
    assert (dataset["starting_sentence"], dataset["user_prompts"]) == ("hi", ["and now?"])
    messages = [user("hi"), calls(("b", {})), calls(("a", {"x": 2})), calls(("a", {"x": 1}))]
    assert evaluate_journey(dataset, [*messages, says("Done.")]).success is True
    assert evaluate_journey(dataset, [*messages[::-1], says("Done.")]).success is False


def test_a_tool_that_is_called_as_the_summary() -> None:
    dataset = dataset_of("n", ["hi"], [call("summarize")], "Done.")
    assert dataset is not None
    assert evaluate_journey(dataset, [calls(("summarize", {})), says("Done.")]).success is True


def test_a_result_that_says_that_it_failed() -> None:
    """By a field, bare or wrapped; a call of which no result is known may have gone well."""
    bare = ToolCall(name="a", result='{"is_success": false}', has_result=True)
    inner = json.dumps({"error_details": "no room"})
    wrapped = ToolCall(name="b", has_result=True,
                       result={"type": "tool_response", "content": inner})  # fmt: skip
    silent = ToolCall(name="c", arguments={"x": 1})
    dataset = dataset_of("n", ["hi"], [bare, wrapped, silent], None)
    assert dataset is not None
    assert dataset["goals"] == {"c-1": []}
    assert dataset_of("n", ["hi"], [bare, wrapped, silent], None, compat="wxo-1.6.9") is None


def test_nothing_done_is_nothing_wanted() -> None:
    assert dataset_of("n", ["hi"], [call("a", error="no")], None) is None


def test_files_are_not_replaced_without_a_request(tmp_path: Path) -> None:
    dataset = dataset_of("u/1", ["hi"], [call("a")], "Done.")
    assert dataset is not None
    folder = tmp_path / "sets"
    (file,) = write_datasets(folder, {"u/1": dataset}, overwrite=False)
    assert file.name == "u_1.json"
    assert read_dataset(file).name == "u/1"
    with pytest.raises(ConfigError, match="is there"):
        write_datasets(folder, {"u/1": dataset}, overwrite=False)
    write_datasets(folder, {"u/1": {**dataset, "story": "x"}}, overwrite=True)
    assert json.loads(file.read_text(encoding="utf-8"))["story"] == "x"
