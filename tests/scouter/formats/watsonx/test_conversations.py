"""Recorded conversations: nothing is lost between a file and an attempt."""

import json
from pathlib import Path
from typing import Any

import pytest

from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.journey.case import read_case
from scouter.evaluate.journey.message import messages_of_turns, read_messages, to_documented
from scouter.formats.watsonx.conversations import read_conversations, turns_of
from tests.support.journeys import GOOD, hr, says, user
from tests.support.watsonx_vectors import vectors

CASES = [read_case(hr(dataset_name=name)) for name in ("a", "b/c")]


def test_turns_hold_all_messages_in_their_order() -> None:
    count = 0
    for vector in vectors()["trajectory_vectors"]:
        messages = read_messages(vector["messages"])
        if any(each.role == "user" and not each.text for each in messages):
            continue
        again = messages_of_turns(turns_of(vector["messages"]))
        assert [*map(to_documented, again)] == [*map(to_documented, messages)], vector["id"]
        count += 1
    assert count > 80


@pytest.mark.parametrize(
    ("messages", "users"),
    [
        ([says("Welcome."), user("hi"), says("a"), says("b")], ["", "hi"]),
        ([user("one"), user("two"), says("a")], ["one", "two"]),
        ([], []),
    ],
)
def test_who_spoke_first(messages: list[dict[str, Any]], users: list[str]) -> None:
    turns = turns_of(messages)
    assert [turn["user"] for turn in turns] == users
    assert len(messages_of_turns(turns)) == len(messages)


def written(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(json.dumps(GOOD), encoding="utf-8")
    return folder


def test_runs_are_read_in_their_order(tmp_path: Path) -> None:
    """Run 10 follows run 9; the folder of a whole run has them in `messages`."""
    runs = [f"{stem}.run{at}.messages.json" for stem in ("a", "b_c") for at in range(1, 11)]
    written(tmp_path / "messages", *runs, "a.run1.messages.analyze.json")
    last = [user("bye")]
    (tmp_path / "messages/a.run10.messages.json").write_text(json.dumps(last), encoding="utf-8")
    found = read_conversations(tmp_path, CASES)
    assert [len(found[name]) for name in ("a", "b/c")] == [10, 10]
    assert [turn["user"] for turn in found["a"][9].turns] == ["bye"]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    written(tmp_path, "a.messages.json")
    with pytest.raises(ConfigError, match=r"no conversation of case 'b/c'; expected .*b_c\.mess"):
        read_conversations(tmp_path, CASES)
    written(tmp_path, "b_c.run1.messages.json", "b_c.run2.messages.json")
    with pytest.raises(ConfigError, match="1 of case 'a', and 2 of case 'b/c'; expected as many"):
        read_conversations(tmp_path, CASES)
    (tmp_path / "a.messages.json").write_text('{"role": "user"}', encoding="utf-8")
    with pytest.raises(FileFormatError, match="no list of messages"):
        read_conversations(tmp_path, CASES[:1])
    (tmp_path / "a.messages.json").write_text("[3]", encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"messages\[0\]: 3 is no message"):
        read_conversations(tmp_path, CASES[:1])


@pytest.mark.parametrize(
    ("users", "script", "is_cut"),
    [
        pytest.param(["a", "b"], None, True, id="nobody-knows"),
        pytest.param(["a", "b", "Good, END."], None, False, id="end"),
        pytest.param(["a", "SEND it"], None, True, id="no-word"),
        pytest.param(["a"], None, False, id="turns-left"),
        pytest.param(["a", "b"], ["b"], False, id="all-said"),
        pytest.param(["a", "b"], ["b", "c"], True, id="cut-script"),
    ],
)
def test_whether_the_end_was_seen(
    tmp_path: Path, users: list[str], script: list[str] | None, *, is_cut: bool
) -> None:
    """By the messages alone, of at most two turns."""
    messages = [part for said in users for part in (user(said), says("Yes."))]
    (tmp_path / "a.messages.json").write_text(json.dumps(messages), encoding="utf-8")
    case = read_case(hr(dataset_name="a", user_prompts=script))
    (found,) = read_conversations(tmp_path, [case])["a"]
    assert (found.cut_after(2) is not None) == is_cut
