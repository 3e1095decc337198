"""Tables of results: on whatever standard output is, whole ids, nothing unescaped."""

import contextlib
import io
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.show.console import emit, table_of
from scouter.evaluate.show.results_table import html_table, results_html, tasks_html
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.record import EvalRecord
from scouter.model.visible import visible

TASK = AssertionTask("tä<b>sk", "x", 1, Op.Equals)


def judged(*records: EvalRecord) -> EvalResults:
    return EvalDataset(records, [TASK]).evaluate()


def printed(results: EvalResults, show_tasks: bool = False) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        results.as_table(show_tasks=show_tasks)
    return out.getvalue()


@pytest.mark.parametrize("show_tasks", [False, True])
def test_ids_are_whole_in_any_alphabet(show_tasks: bool) -> None:
    ids = ["ü" * 60, "日本語" * 20, "\U0001f680" * 20, "[red]not a colour[/red]", "שלום" * 10]
    text = printed(judged(*(EvalRecord({"x": 1}, id=name) for name in ids)), show_tasks)
    for name in ids:
        assert name in text


def test_records_with_one_id_are_distinguished() -> None:
    records = [EvalRecord({"x": 1}, id="same"), EvalRecord({"x": 1}, id="same"), EvalRecord({})]
    text = printed(judged(*records), show_tasks=True)
    for record in records:
        assert record.uid in text


@pytest.mark.parametrize("show_tasks", [False, True])
def test_records_cannot_write_to_the_terminal(show_tasks: bool) -> None:
    """Escape sequences, line breaks and direction marks are shown, not obeyed.

    An id has pictures in place of control characters before anybody prints it.
    """
    name = "a\x1b[2Jb\nc\u202ed\x00"
    text = printed(judged(EvalRecord({"x": name}, id=name)), show_tasks)
    assert not {"\x1b", "\x00", "\u202e"} & set(text)
    assert r"a␛[2Jb␊c\u202ed␀" in text


def test_nothing_printed_can_write_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Cells of any table, and the plan of a profile, whose ids come from other people."""
    table = table_of("a\x1b[2Jb\u202e", "c\x07")
    table.add_row(Text("d\x1b[2Je\nf", style="red"))
    emit(table, Text("g\x9bh"))
    profile = AgentEvalProfile([AssertionTask("i\x1b\nj", "x", 1, Op.Equals)], alias="k")
    profile.print_execution_plan()
    text = capsys.readouterr().out

    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(text)
    assert r"d\x1b[2Je" in text
    assert r"  i\x1b\nj (" in text


def test_a_narrow_encoding_gets_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="ascii", write_through=True))
    judged(EvalRecord({"x": 1}, id="é日")).as_table()
    assert b"\\xe9\\u65e5" in raw.getvalue()


def test_empty_results_print_a_head() -> None:
    assert "Record ID" in printed(EvalResults([]))
    assert "Record ID" in results_html(EvalResults([]))


@given(st.text())
def test_visible_texts_have_no_controls_and_keep_the_rest(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert not any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in shown)
    if text.isprintable():
        assert shown == text


class Reader(HTMLParser):
    """Cells and tags, as a browser would see them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.cells: list[str] = []
        self._open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._open = tag in {"td", "th"}
        if self._open:
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self.cells[-1] += data


KNOWN_TAGS = {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}


@given(st.text(), st.text(), st.lists(st.text(), max_size=4))
def test_every_text_is_escaped(title: str, head: str, cells: list[str]) -> None:
    reader = Reader()
    reader.feed(html_table(title, [head], [[cell] for cell in cells]))
    reader.close()
    assert reader.tags <= KNOWN_TAGS
    assert reader.cells == [visible(text) for text in (head, *cells)]


def test_records_in_a_notebook() -> None:
    results = judged(
        EvalRecord({"x": 1}, id="<script>alert(1)</script>"), EvalRecord({"x": 2}), EvalRecord({})
    )
    text = results_html(results)
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "3 records, pass rate 33.3%" in text
    assert "1 passed, 1 failed, 1 errored, 0 skipped" in text
    detail = tasks_html(results.aligned_results[1])
    assert "tä&lt;b&gt;sk" in detail
    assert ">failed</td>" in detail


def test_long_tables_are_counted() -> None:
    text = html_table("", ["n"], ([at] for at in range(1_234)), limit=100)
    assert text.count("<td") == 100
    assert "… and 1,134 more" in text


def test_cells_by_type() -> None:
    text = html_table("t", list("abcd"), [[None, 0.123456, 7, Outcome.ERRORED]])
    assert ">-</td>" in text
    assert "right" in text
    assert ">0.1235</td>" in text
    assert ">errored</td>" in text
