"""Files of labels: every form a label can have, and what is said of those that are none."""

from pathlib import Path

import pytest

from scouter.agent.calibration.labels import Label, gather, read_labels
from scouter.errors import FileFormatError


def read(folder: Path, name: str, text: str) -> tuple[list[Label], list[str]]:
    (folder / name).write_text(text, encoding="utf-8")
    found = read_labels(folder / name)
    problems = [str(each).removeprefix(f"{folder}/") for each in found.problems]
    return [label for _, label in found.labels], problems


@pytest.mark.parametrize(
    ("word", "is_good"),
    [
        ('"pass"', True), ('"Passed "', True), ('"good"', True), ("true", True), ('"yes"', True),
        ("1", True), ('"1"', True), ('"fail"', False), ('"FAILED"', False), ('"bad"', False),
        ("false", False), ('"no"', False), ("0", False), ('"0"', False),
    ],
)  # fmt: skip
def test_words(tmp_path: Path, word: str, is_good: bool) -> None:
    labels, problems = read(tmp_path, "a.jsonl", f'{{"uid": "r", "label": {word}}}')

    assert problems == []
    assert [label.label for label in labels] == [is_good]


def test_null_is_nothing(tmp_path: Path) -> None:
    empty = '"score": null, "length": null, "judge": null, "context": null'
    labels, problems = read(tmp_path, "a.jsonl", f'{{"uid": "r", "label": "pass", {empty}}}')

    assert problems == []
    assert labels == [Label(uid="r", label=True)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"uid": "r", "label": "maybe"}', "field 'label': "),
        ('{"uid": "r", "label": 2}', "field 'label': "),
        ('{"uid": "r"}', "expected either label"),
        ('{"uid": "r", "label": "pass", "score": 3}', "expected either label"),
        ('{"label": "pass"}', "which record?"),
        ('{"uid": "r", "score": "many"}', "field 'score': "),
        ('{"uid": "r", "label": "pass", "length": -1}', "field 'length': "),
        ('{"uid": "r", "label": "pass", "rate": "ann"}', "field 'rate': "),
        ('{"uid": "r", "score": 1e999}', ""),
        ("[1]", ""),
        ('{"uid": ', ""),
    ],
)
def test_a_bad_line_is_named_and_costs_only_itself(tmp_path: Path, line: str, words: str) -> None:
    good = '{"uid": "r", "label": "pass"}'
    labels, problems = read(tmp_path, "a.jsonl", f"{good}\n\n{line}\n{good}\n")

    assert len(labels) == 2
    assert len(problems) == 1
    assert problems[0].startswith("a.jsonl, line 3")
    assert words in problems[0]


def test_csv(tmp_path: Path) -> None:
    """Quotes, commas and line breaks in cells; empty cells are not there; JSON in `context`."""
    text = (
        "uid,context.question,context.answer,context,label,score,rater,notes\n"
        'a,"Open, when?","9\nto 18",,pass,,ann,fine\n'
        'b,q,a,"{""city"": ""Paris"", ""answer"": ""x""}",,3.5,,\n'
        "\n"
        "c,q,a,{broken,pass,,,\n"
        "d,q\n"
        "e,q,a,,perhaps,,,\n"
    )
    labels, problems = read(tmp_path, "a.csv", text)

    assert [label.uid for label in labels] == ["a", "b"]
    assert labels[0].context == {"question": "Open, when?", "answer": "9\nto 18"}
    assert labels[1].context == {"city": "Paris", "question": "q", "answer": "a"}
    assert (labels[0].label, labels[0].score) == (True, None)
    assert (labels[1].label, labels[1].score) == (None, 3.5)
    assert [problem.split(":")[0] for problem in problems] == [
        "a.csv, line 6, field 'context'",
        "a.csv, line 7",
        "a.csv, line 8, field 'label'",
    ]


def test_a_column_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="field 'lable': no such column"):
        read(tmp_path, "a.csv", "uid,lable\nr,pass\n")


def test_raters_are_put_together() -> None:
    """By uid, else id, else the same context, whatever the order of its keys."""
    one = Label(context={"a": 1, "b": 2}, label=True, rater="ann", score=None)
    same = Label(context={"b": 2, "a": 1}, label=False, rater="bo")
    other = Label(uid="r", label=True)
    items = gather([(one, True), (other, True), (same, False), (one, True)])

    assert [(item.votes, item.is_good) for item in items] == [
        ([True, False, True], True),
        ([True], True),
    ]
    assert items[0].raters == {"ann", "bo"}


def test_a_tie_and_a_median() -> None:
    rows = [Label(uid="r", score=score) for score in (1, 5, 3, 4)]
    (item,) = gather([(row, (row.score or 0) >= 4) for row in rows])

    assert item.is_good is None
    assert item.score == 3
