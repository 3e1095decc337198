"""Keys: another question has another key, the same question the same key everywhere."""

import copy
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from types import MappingProxyType
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from scouter.agent.cached_judge import cache_key
from scouter.evaluate.judge.port import JudgeRequest, Message

TEXT = st.text(st.sampled_from('ab"\\,[]{}:\x00é\ud83d\ude00😀 1'), max_size=6)
JSON: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
SCHEMA = st.none() | st.dictionaries(TEXT, JSON, max_size=2)
MESSAGES = st.lists(
    st.builds(Message, role=st.sampled_from(["user", "system", "model"]), content=TEXT),
    max_size=3,
).map(tuple)
PARTS = st.fixed_dictionaries(
    {
        "space": TEXT,
        "entry": TEXT,
        "model": TEXT,
        "settings": st.dictionaries(TEXT, JSON, max_size=2),
        "response_schema": SCHEMA,
        "messages": MESSAGES,
        "sample": st.integers(0, 3),
    }
)


def key_of(parts: dict[str, Any], task_id: str = "t", record_uid: str = "r") -> bytes:
    rest = {name: value for name, value in parts.items() if name not in {"space", "entry"}}
    request = JudgeRequest(task_id=task_id, record_uid=record_uid, provider="p", **rest)
    return cache_key(request, space=parts["space"], entry=parts["entry"])


def typed(value: Any) -> object:
    """A value in which 1, 1.0 and True differ, and so does the order inside of an object."""
    if isinstance(value, dict):
        inside = cast("dict[str, Any]", value)
        return "{", [(name, typed(each)) for name, each in inside.items()]
    if isinstance(value, list | tuple):
        return "[", [typed(each) for each in cast("list[Any]", value)]
    return type(value).__name__, repr(value)


def shape(parts: dict[str, Any]) -> object:
    known = {**parts, "settings": dict(sorted(parts["settings"].items()))}
    return typed(dict(sorted(known.items())))


@given(PARTS, PARTS)
def test_keys_are_equal_exactly_where_questions_are(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert (key_of(one) == key_of(other)) == (shape(one) == shape(other))


@given(PARTS, PARTS, st.sampled_from(sorted(["space", "entry", "model", "settings", "sample"])))
def test_one_part_is_enough(one: dict[str, Any], other: dict[str, Any], name: str) -> None:
    changed = {**one, name: other[name]}
    assert (key_of(one) == key_of(changed)) == (shape(one) == shape(changed))


@given(st.text("ab", max_size=4), st.text("ab", max_size=4), st.text("ab", max_size=4))
def test_text_does_not_move_between_parts(first: str, second: str, third: str) -> None:
    """Parts that are the same when put together, cut elsewhere, have different keys."""
    whole = first + second + third
    base: dict[str, Any] = {"settings": {}, "response_schema": None, "sample": 0}
    found: dict[bytes, tuple[object, ...]] = {}
    for at in range(len(whole) + 1):
        for messages in (
            (Message(role="user", content=whole[:at]), Message(role="user", content=whole[at:])),
            (Message(role="user", content=whole[:at]),),
        ):
            parts = {**base, "messages": messages, "model": whole[at:], "space": "", "entry": ""}
            cut = (len(messages), whole[:at], whole[at:])
            assert found.setdefault(key_of(parts), cut) == cut


@given(PARTS)
def test_who_asks_does_not_count(parts: dict[str, Any]) -> None:
    assert key_of(copy.deepcopy(parts), "another task", "another record") == key_of(parts)


def test_the_order_of_settings_does_not_count_that_of_a_form_does() -> None:
    request = JudgeRequest(
        task_id="t", messages=(), settings={"a": 1, "b": 2},
        response_schema={"properties": {"reason": {}, "score": {}}},
    )  # fmt: skip
    key = cache_key(request, space="s", entry="e")
    other = replace(request, settings=MappingProxyType({"b": 2, "a": 1}))
    assert cache_key(other, space="s", entry="e") == key
    turned = replace(request, response_schema={"properties": {"score": {}, "reason": {}}})
    assert cache_key(turned, space="s", entry="e") != key


def test_a_question_without_a_json_form() -> None:
    request = JudgeRequest(task_id="t", messages=(), settings={"a": object()})  # pyright: ignore[reportArgumentType] - as a caller without types may write
    with pytest.raises(ValueError, match="no JSON form"):
        cache_key(request, space="s", entry="e")


CODE = """
from scouter.agent.cached_judge import cache_key
from scouter.evaluate.judge.port import JudgeRequest
request = JudgeRequest(
    task_id="t", messages=({"role": "user", "content": "Grüße 😀"},), model="m",
    settings={"temperature": 0.1, "seed": 7}, response_schema={"type": "object"}, sample=2,
)
print(cache_key(request, space="default", entry="house").hex())
"""


def test_the_same_in_every_process() -> None:
    """The seed of hashes makes no difference, and later versions find a stored key."""
    found = {
        subprocess.run(
            [sys.executable, "-c", CODE],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    by_hand = (
        r'["scouter judge 1","default","house","m",[["seed",7],["temperature",0.1]],'
        r'{"type":"object"},[["user","Grüße 😀"]],2]'
    )
    assert found == {sha256(by_hand.encode()).hexdigest() + "\n"}
