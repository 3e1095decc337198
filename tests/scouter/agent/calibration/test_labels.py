"""Files of labels: every form a label can have, and what is said of those that are none."""

import csv
from pathlib import Path
from typing import Any

import pytest

from scouter.agent.calibration.labels import Label, Vote, gather, read_labels
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


@pytest.mark.parametrize("column", ["label", "context.answer", "context"])
def test_a_column_that_stands_twice(tmp_path: Path, column: str) -> None:
    """The last one counted, without a word."""
    with pytest.raises(FileFormatError, match=r"the column .* stands twice") as raised:
        read(tmp_path, "a.csv", f"uid,{column}, {column} \nr,pass,fail\n")

    assert (raised.value.line, raised.value.field) == (1, column)


def write_csv(path: Path, rows: list[list[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def test_a_cell_is_as_long_as_json_may_be(tmp_path: Path) -> None:
    """131,072 characters is the csv module's own limit, which others keep."""
    answer = "x, \n" * 100_000
    write_csv(tmp_path / "a.csv", [["context.answer", "label"], [answer, "pass"]])
    before = csv.field_size_limit()

    found = read_labels(tmp_path / "a.csv")

    assert found.problems == ()
    assert [label.context for _, label in found.labels] == [{"answer": answer}]
    assert csv.field_size_limit() == before == 131_072


@pytest.mark.parametrize("row", [0, 1])
def test_a_cell_that_csv_cannot_read_names_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: int
) -> None:
    """No file is long enough for it; but the csv module has the last word."""
    monkeypatch.setattr("scouter.agent.calibration.labels._MAX_CELL", 0)
    rows = [["uid", "label"], ["r", "pass"]]
    rows[row][1] = "x" * 131_073
    write_csv(tmp_path / "a.csv", rows)
    before = csv.field_size_limit()

    with pytest.raises(FileFormatError, match="field larger than field limit") as raised:
        read_labels(tmp_path / "a.csv")

    assert raised.value.line == row + 1
    assert csv.field_size_limit() == before


@pytest.mark.parametrize(
    ("context", "field", "words"),
    [
        ('{"a": NaN}', "context", "NaN is no JSON value"),
        ('{"a": [1, -Infinity]}', "context", "-Infinity is no JSON value"),
        ('{"a": 1e999}', "context", "1e999 is beyond the largest number"),
        ('{"a": {"b": 1, "b": 2}}', "context", "the key 'b' stands twice in one object"),
        ("[" * 100_000 + "]" * 100_000, "context", "nested too deeply"),
        ("9" * 5_000, "context", "has 5000 digits"),
        ("[" * 300 + "]" * 300, "context[0]", "maximum validation depth exceeded"),
    ],
    ids=["nan", "infinity", "beyond", "twice", "deep", "digits", "rather-deep"],
)
def test_json_in_csv_follows_the_rules_of_json_lines(
    tmp_path: Path, context: str, field: str, words: str
) -> None:
    """The bad line costs only itself, in both forms, and both say the same of it."""
    rows = [["uid", "context", "label"], ["a", "[1]", "pass"], ["b", context, "pass"]]
    write_csv(tmp_path / "a.csv", [*rows, ["c", "", "fail"]])
    lines = ['{"uid": "a", "context": [1], "label": "pass"}']
    lines += [f'{{"uid": "b", "context": {context}, "label": "pass"}}']
    lines += ['{"uid": "c", "label": "fail"}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")

    found, same = read_labels(tmp_path / "a.csv"), read_labels(tmp_path / "a.jsonl")

    assert [label for _, label in found.labels] == [label for _, label in same.labels]
    assert [label.uid for _, label in found.labels] == ["a", "c"]
    ((of_csv,), (of_json,)) = found.problems, same.problems
    assert (of_csv.line, of_json.line) == (3, 2)
    assert str(of_csv.field).startswith(field)
    for problem in of_csv, of_json:
        assert words in problem.problem


def votes(*labels: Label) -> list[Vote]:
    """From line 1 on; a score from 4 is good."""
    return [
        Vote(line=line, label=label, is_good=bool(label.label or (label.score or 0) >= 4))
        for line, label in enumerate(labels, start=1)
    ]


def test_raters_are_put_together() -> None:
    """By uid, else id, else the same context, whatever the order of its keys."""
    one = Label(context={"a": 1, "b": 2}, label=True, rater="ann", score=None)
    same = Label(context={"b": 2, "a": 1}, label=False, rater="bo")
    other = Label(uid="r", label=True)
    third = Label(context={"a": 1, "b": 2}, label=True, rater="cy")
    problems: list[Exception] = []
    items = gather(votes(one, other, same, third), "a.jsonl", problems)

    assert problems == []
    assert [(item.votes, item.is_good) for item in items] == [
        ([True, False, True], True),
        ([True], True),
    ]
    assert items[0].raters == {"ann", "bo", "cy"}


def test_a_tie_and_a_median() -> None:
    """Without a rater, each line is somebody's."""
    rows = [Label(uid="r", score=score) for score in (1, 5, 3, 4)]
    (item,) = gather(votes(*rows), "a.jsonl", [])

    assert item.is_good is None
    assert item.score == 3


def test_a_rater_who_repeats_a_label_has_one_vote() -> None:
    """By vote two of three pass; were lines counted, Bo would be outvoted by himself."""
    ann = Label(uid="r", label=True, rater="ann")
    bo = Label(uid="r", score=2, rater="bo")
    bo_in_words = Label(uid="r", label=False, rater="bo", length=7)
    problems: list[Exception] = []
    rows = bo_in_words, ann, bo, bo, Label(uid="r", score=5, rater="cy")

    (item,) = gather(votes(*rows), "a.jsonl", problems)

    assert problems == []
    assert (item.votes, item.raters) == ([False, True, True], {"ann", "bo", "cy"})
    assert item.is_good is True
    assert (item.scores, item.length) == ([2, 5], 7)
    assert item.repeats == [3, 4]


@pytest.mark.parametrize(
    ("first", "second", "words", "fields"),
    [
        ({"label": True}, {"label": False}, "pass in line 2 and fail in line 4", ["label"] * 2),
        ({"score": 4}, {"score": 5}, "4 in line 2 and 5 in line 4", ["score"] * 2),
        ({"label": False}, {"score": 4.5}, "fail in line 2 and 4.5 in line 4", ["label", "score"]),
    ],
)
def test_a_rater_who_contradicts_himself_has_no_vote(
    first: dict[str, Any], second: dict[str, Any], words: str, fields: list[str]
) -> None:
    """Both lines are named, and cost only themselves: other records and raters keep theirs."""
    rows = [
        Label(uid="r", label=False, rater="ann"),
        Label(uid="r", **first, rater="bo"),
        Label(uid="s", label=True, rater="bo"),
        Label(uid="r", **second, rater="bo"),
    ]
    problems: list[Exception] = []

    items = gather(votes(*rows), "a.jsonl", problems)

    assert [(item.uid, item.votes, item.raters) for item in items] == [
        ("r", [False], {"ann"}),
        ("s", [True], {"bo"}),
    ]
    assert [str(problem) for problem in problems] == [
        f"a.jsonl, line {line}, field {field!r}: 'bo' says {words} of the same record, so that "
        "neither counts; expected one line for each record and rater"
        for line, field in zip((2, 4), fields, strict=True)
    ]


def test_a_record_of_which_only_contradictions_are_said_is_none() -> None:
    rows = [Label(uid="r", label=is_good, rater="bo") for is_good in (True, True, False)]
    problems: list[Exception] = []

    assert gather(votes(*rows), "a.jsonl", problems) == []
    assert [getattr(problem, "line", None) for problem in problems] == [1, 2, 3]
