"""Whatever a model answers: a case is in the file as it was written, or it is named as left out."""

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from scouter.errors import FileFormatError
from scouter.evaluate.judge.ask import JudgeCaller
from scouter.evaluate.judge.port import JudgeRequest
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.replay.made.cases import Made, Making, make_cases
from scouter.replay.made.material import Story, all_attacks, read_stories, write_cases
from scouter.replay.made.tools import Tool, Tools
from scouter.replay.progress import progress_bar

TEXTS = st.one_of(
    st.text(),
    st.sampled_from(
        ["", " ", "${turns}", "# a", "a\n  b: c\n", "unreviewed: true", "\ud800", "\x00", "\x85",
         "\u2028", "no", "1e5", "'", '"', "\\", "{", "[1", '{"q": 1}', '{"q": NaN}', "[" * 2_000]
    ),
)  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
CALLS: st.SearchStrategy[Any] = st.one_of(
    VALUES,
    st.fixed_dictionaries(
        {
            "tool": st.sampled_from(["look", "lok", ""]),
            "arguments": st.one_of(
                VALUES,
                st.fixed_dictionaries({"q": VALUES}),
                st.fixed_dictionaries({"q": VALUES}).map(json.dumps),
            ),
        }
    ),
)
OPTIONAL: dict[str, st.SearchStrategy[Any]] = {
    "turns": st.one_of(VALUES, st.lists(TEXTS, max_size=3)),
    "calls": st.one_of(VALUES, st.lists(CALLS, max_size=3)),
    "must_not": st.one_of(VALUES, TEXTS),
    "why": st.one_of(VALUES, TEXTS),
    "id": TEXTS,
}
ANSWERS: st.SearchStrategy[Any] = st.one_of(
    VALUES, st.fixed_dictionaries({"initial_query": TEXTS}, optional=OPTIONAL)
)
TOOLS = Tools([Tool.of("look", "Look.", {"type": "object", "properties": {"q": {}}})])


@pytest.mark.parametrize("name", ["a.yaml", "a.jsonl"])
@given(st.lists(ANSWERS, max_size=4), st.sampled_from([None, *all_attacks()]), st.booleans())
def test_a_case_is_written_or_named(
    name: str, answers: list[JsonValue], attack: Any, is_interactive: bool
) -> None:
    making = Making(
        tools=TOOLS, stories=[Story(id="s", story="Ann.")], attacks=[attack] if attack else [],
        count=4, is_interactive=is_interactive, date="2026-01-01",
    )  # fmt: skip
    (question,), made = making.questions, Made()
    question.read(answers, "openai/small", made)
    assert len(made.scenarios) + len(made.left_out) == len(answers)
    if not made.scenarios:
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        write_cases(path, made.scenarios)
        read = list(EvalScenarios.from_path(path))
    assert read == [EvalScenario.model_validate(each) for each in made.scenarios]
    assert all(each.unreviewed for each in read)


def nested(levels: int) -> JsonValue:
    value: JsonValue = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "arguments",
    [
        '{"q": ' + "[" * 2_000 + "]" * 2_000 + "}",
        {"q": nested(300)},
        '{"q": "\\ud800"}',
        {"q": "\ud800"},
        {"q": float("nan")},
        {"q": float("inf")},
        {"q": 10**5_000},
        '{"q": 1e999}',
    ],
    ids=["deep-text", "deep", "half-in-text", "half", "nan", "inf", "long", "large"],
)
def test_arguments_that_no_file_may_have(arguments: JsonValue) -> None:
    making = Making(tools=TOOLS, stories=[Story(id="s", story="Ann.")], date="2026-01-01")
    made = Made()
    calls: JsonValue = [{"tool": "look", "arguments": arguments}]
    making.questions[0].read([{"initial_query": "a", "calls": calls}], "openai/small", made)
    assert (made.scenarios, len(made.left_out)) == ([], 1)


def test_only_what_csv_takes_for_the_end_of_a_row_ends_a_story(tmp_path: Path) -> None:
    """Python takes ten more letters for the end of a line."""
    path = tmp_path / "stories.csv"
    story = "Ann bought\u2028a lamp.\x85It broke\x0b."
    path.write_text(
        f'story,id\r\n{story},a\r\n"{story}\nTwice.",b\r\n', encoding="utf-8", newline=""
    )
    stories = [(each.id, each.story) for each in read_stories(path)]
    assert stories == [("a", story), ("b", f"{story}\nTwice.")]


def test_what_is_no_csv_is_named_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "stories.csv"
    for text, problem in (
        ('story\na\n"b', "stories.csv, line 2: no CSV: "),
        ("story,id\nOne, two,a\n", "row 1 has not 2 cells, as the header has"),
        ("story,id\n", "there is no row"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(FileFormatError, match=problem):
            read_stories(path)


@pytest.mark.parametrize("slow", [0, 1])
def test_what_was_answered_is_there_however_long_the_others_take_to_end(slow: int) -> None:
    stories = [Story(id=name, story=name) for name in ("slow-0", "slow-1", "Ann.")]
    making = Making(tools=TOOLS, stories=stories, date="2026-01-01")
    judge = _AnswersAnn(f"slow-{slow}")

    async def interrupted() -> Made:
        with progress_bar(3, 0, False) as progress:
            task = asyncio.create_task(make_cases(making, JudgeCaller.of(judge), progress))
            await judge.both_wait.wait()
            task.cancel()
            return await task

    made = asyncio.run(interrupted())
    assert made.is_interrupted
    assert [each["initial_query"] for each in made.scenarios] == ["Hello."]
    assert [name for name, _ in made.failed] == ["slow-0", "slow-1"]


class _AnswersAnn:
    """A judge that never answers the other stories; one of them takes its time to end."""

    def __init__(self, slow: str) -> None:
        self._slow = slow
        self._waiting = 0
        self.both_wait = asyncio.Event()

    async def __call__(self, request: JudgeRequest) -> JsonValue:
        text = str(request.messages)
        if "slow-" not in text:
            return {"cases": [{"initial_query": "Hello."}]}
        self._waiting += 1
        if self._waiting == 2:
            self.both_wait.set()
        try:
            return await asyncio.Event().wait()
        finally:
            for _ in range(5 if self._slow in text else 0):
                await asyncio.sleep(0)
