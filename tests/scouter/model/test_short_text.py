"""Kind: an id that the sender takes and the collector refuses; both have one form of every text."""

import enum
import unicodedata
import uuid
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.errors import DataError
from scouter.model.record import EvalRecord
from scouter.model.short_text import short_text, stored_tags, tag_text


class Team(str, enum.Enum):  # noqa: UP042 - the older way, which shows itself as Team.RED
    RED = "red"


AS_THEY_ARE = {
    "plain": "anna",
    "empty": "",
    "blank": "   ",
    "persian": "علی\u200cرضا",
    "family": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "right-to-left": "דנה\u200f",
    "direction": "a\u202eb\u2066c",
    "soft-hyphen": "co\u00adop",
    "byte-order-mark": "\ufeffa",
    "wide-space": "山田\u3000太郎",
    "hard-space": "a\u00a0b",
    "private": "\ue000",
    "unassigned": "\U000e0fff",
    "longest": "x" * 512,
}
REPAIRED = {
    "tab": ("a\tb", "a␉b"),
    "nul": ("a\x00b", "a␀b"),
    "line": ("a\nb", "a␊b"),
    "delete": ("a\x7fb", "a␡b"),
    "next-line": ("a\x85b", "a\ufffdb"),
    "line-separator": ("a\u2028b", "a␤b"),
    "half-a-character": ("a\ud83db", "a\ufffdb"),
    "two-halves": ("\ud83d\ude00", "\U0001f600"),
    "too-long": ("x" * 513, "x" * 495 + "…" + sha256(b"x" * 513).hexdigest()[:16]),
    "too-long-and-a-tab": (
        "x" * 600 + "\t", "x" * 495 + "…" + sha256(("x" * 600 + "␉").encode()).hexdigest()[:16],
    ),
}  # fmt: skip
FORMS = {**{name: (text, text) for name, text in AS_THEY_ARE.items()}, **REPAIRED}


@pytest.mark.parametrize("name", FORMS)
def test_every_field_of_a_record_has_the_form(name: str) -> None:
    """Given at once, set later, and on the wire."""
    text, form = FORMS[name]
    record = EvalRecord({}, text, text, uid=text, tags={text: "v"})
    later = EvalRecord({})
    later.record_id = later.session_id = text
    later.add_tag(text, "v")

    uid, record_id, session_id, *_, tags = record.freeze()
    assert (uid, record_id, session_id, dict(tags)) == (form, form, form, {form: "v"})
    _, record_id, session_id, *_, tags = later.freeze()
    assert (record_id, session_id, dict(tags)) == (form, form, {form: "v"})


@given(st.text(st.characters() | st.characters(categories=["Cs", "Cc", "Cf"]), max_size=700))
def test_the_form_of_the_form_is_the_form(text: str) -> None:
    form = short_text(text)
    assert short_text(form) == form
    assert len(form) <= 512
    assert not {unicodedata.category(letter) for letter in form} & {"Cc", "Cs", "Zl", "Zp"}
    assert tag_text(tag_text(text * 9)) == tag_text(text * 9)


def test_long_ids_that_differ_stay_different() -> None:
    ids = {short_text("x" * 600 + end) for end in ("", "a", "b", "\t")}
    assert (len(ids), {len(each) for each in ids}) == (4, {512})


@pytest.mark.parametrize(
    ("value", "form"),
    [
        pytest.param(42, "42", id="integer"),
        pytest.param(1.5, "1.5", id="float"),
        pytest.param(uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005", id="uuid"),
        pytest.param(Team.RED, "red", id="enum"),
        pytest.param(10**5000, hex(10**5000)[:495], id="more-digits-than-python-writes"),
    ],
)
def test_what_stands_for_a_text(value: Any, form: str) -> None:
    record = EvalRecord({}, value, value, tags={value: value})
    assert record.record_id.startswith(form)
    assert record.session_id == record.record_id == next(iter(record.tag_map))
    assert len(record.record_id) <= 512


@pytest.mark.parametrize("field", ["id", "session_id", "uid"])
def test_what_does_not_is_refused_by_the_field(field: str) -> None:
    given: Any = {field: ["a"]}
    with pytest.raises(DataError, match=f"{field} is a list; expected text"):
        EvalRecord({}, **given)


def test_a_tags_value_keeps_its_lines_and_is_longer() -> None:
    assert tag_text("a\n\tb") == "a\n\tb"
    assert tag_text("y" * 4096) == "y" * 4096
    digest = sha256(b"y" * 5000).hexdigest()[:16]
    assert tag_text("y" * 5000) == "y" * 4079 + "…" + digest


def test_tags_beyond_the_most_are_left_out_and_said() -> None:
    record = EvalRecord({}, tags={str(n): "" for n in range(70)})
    *_, tags = record.freeze()

    assert len(tags) == 64
    assert list(tags)[-2:] == ["62", "scouter.truncated"]
    assert tags["scouter.truncated"] == "70 tags"
    assert stored_tags(tags) == tags
