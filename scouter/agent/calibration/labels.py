"""Files with what people said about records: JSON lines or CSV."""

import csv
import hashlib
import io
import json
import math
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from scouter.errors import FileFormatError
from scouter.evaluate.files.json_text import JsonFault, parse
from scouter.evaluate.files.read import MAX_BYTES, Document, check_extension, parse_json, read_text

_WORDS: Final = {
    **dict.fromkeys(("pass", "passed", "good", "true", "yes", "1"), True),
    **dict.fromkeys(("fail", "failed", "bad", "false", "no", "0"), False),
}
_CONTEXT: Final = "context."
"""Begins the name of a CSV column that holds one text of the record's context."""
_MAX_CELL: Final = MAX_BYTES
"""Characters of a CSV cell: no fewer than the file may have bytes, as in JSON lines."""
LabelOrder: TypeAlias = Literal["random", "outcome", "failed", "uncertain", "disagrees", "gold"]
"""The draw that brought a record to its labeller.

* `random`: at random, of all records.
* `outcome`: at random, of those that the judge passed, or of those that it failed.
* `failed`, `uncertain`, `disagrees`: the orders of the page that look for examples.
* `gold`: written or chosen for what it is, by people who had not seen the judge's outcome.
"""
Stratum: TypeAlias = Literal["all", "passed", "failed"]
"""Records that one was drawn from: all, or those that the judge passed or failed."""
_CELL_LIMIT: Final = threading.Lock()
"""Locked while this module has the limit on cells raised, which the whole process shares."""


def _read_word(value: object) -> object:
    """Read an outcome from a word."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    if isinstance(value, str):
        word = value.strip().lower()
        if not word:
            return None
        if word in _WORDS:
            return _WORDS[word]
    raise ValueError(
        "expected pass or fail (also passed, good, true, yes, 1 and failed, bad, false, no, 0)"
    )


def _number(value: object) -> object:
    return None if isinstance(value, str) and not value.strip() else value


_Word: TypeAlias = Annotated[bool | None, BeforeValidator(_read_word)]
_Finite: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
_Number: TypeAlias = Annotated[_Finite | None, BeforeValidator(_number)]
_Size: TypeAlias = Annotated[Annotated[int, Field(ge=1)] | None, BeforeValidator(_number)]
_Length: TypeAlias = Annotated[
    Annotated[float, Field(ge=0, allow_inf_nan=False)] | None, BeforeValidator(_number)
]


class Label(BaseModel):
    """Judgement of one person on one record; one line of a label file."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    uid: str = ""
    record_id: str = ""
    context: JsonValue = None
    """The record's, where the judge is to be called."""
    task: str = ""
    """Id of the judge task; may be left out where there is one."""
    label: _Word = None
    """Is the record good, as that task asks?"""
    score: _Number = None
    """In place of `label`: a number on the judge's scale, which the task compares."""
    rater: str = ""
    judge: _Word = None
    """Outcome of the judge on the same record, if it was called before."""
    judge_score: _Number = None
    length: _Length = None
    """Length of the answer, in any unit; without it the answer is measured."""
    is_blind: _Word = None
    """False where the person had seen the judge's outcome or other labels before."""
    session: str = ""
    """Conversation of the record; its records resemble each other."""
    order: LabelOrder | None = None
    """The draw of the record; None where it is unknown."""
    stratum: Stratum | None = None
    """Records that it was drawn from at random."""
    size: _Size = None
    """Number of records in the stratum at that moment."""
    question: str = ""
    """For people: the judge's question about the record."""
    notes: JsonValue = None
    """For people."""

    @model_validator(mode="after")
    def _is_a_label(self) -> "Label":
        if self.label is not None and self.score is not None:
            raise ValueError("expected either label (pass or fail) or score (a number), not both")
        if not self.is_given and self.order is None:
            raise ValueError("expected either label (pass or fail) or score (a number)")
        if not (self.uid or self.record_id or self.context is not None):
            raise ValueError("which record? expected uid, record_id or context")
        return self

    @property
    def is_given(self) -> bool:
        """False of a line that `scouter judge sample` wrote and nobody has filled in yet."""
        return self.label is not None or self.score is not None

    @property
    def not_drawn(self) -> str:
        """Reason why no rate can be made of the label: what it does not say; "" if one can."""
        if self.order is None:
            return "without `order`, which says how the record was chosen"
        if self.order not in ("random", "outcome", "gold"):
            return f"from the order `{self.order}`, which looks for examples"
        if self.is_blind is False:
            return "given with the judge's outcome or other labels in view"
        if self.order == "outcome" and (self.stratum in (None, "all") or self.size is None):
            return "of the order `outcome` without `stratum` (passed or failed) or `size`"
        return ""

    @property
    def key(self) -> str:
        """Tells records apart: uid, else id, else the context."""
        if self.uid or self.record_id:
            return f"uid {self.uid}" if self.uid else f"id {self.record_id}"
        text = json.dumps(self.context, sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelFile:
    """Labels of a file, and the lines that are no labels."""

    labels: tuple[tuple[int, Label], ...]
    """Each label with the number of its line, counted from 1."""
    problems: tuple[FileFormatError, ...]
    """One for each line that is no label; names line and field."""
    waiting: int
    """Lines of drawn records that nobody has labelled yet."""


def read_labels(path: str | Path) -> LabelFile:
    """Read a `.jsonl` or `.csv` file.

    A CSV file begins with a line of field names; `context` holds JSON, and a column such as
    `context.answer` one text of the context. A bad line costs only itself.

    Raises:
        FileFormatError: The file cannot be read at all, or a column has an unknown name.
    """
    extension = check_extension(path, (".jsonl", ".csv"))
    text = read_text(path)
    lines = _csv(str(path), text) if extension == ".csv" else _json_lines(str(path), text)
    labels: list[tuple[int, Label]] = []
    problems: list[FileFormatError] = []
    waiting = 0
    for document in lines:
        if isinstance(document, FileFormatError):
            problems.append(document)
            continue
        try:
            label = Label.model_validate(document.value)
        except ValueError as error:
            problems.append(document.wrap(error, model=Label))
            continue
        if label.is_given:
            labels.append((document.line or 1, label))
        else:
            waiting += 1
    return LabelFile(labels=tuple(labels), problems=tuple(problems), waiting=waiting)


def _json_lines(path: str, text: str) -> Iterator[Document | FileFormatError]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield parse_json(path, line, number)
            except FileFormatError as error:
                yield error


def _csv(path: str, text: str) -> Iterator[Document | FileFormatError]:
    rows = iter(_rows(path, text))
    _, header = next(rows, (1, list[str]()))
    names = [name.strip() for name in header]
    _check_columns(path, names)
    for line, row in rows:
        if not any(cell.strip() for cell in row):
            continue
        at = Document(path=path, value=None, line=line)
        if len(row) != len(names):
            yield at.error(f"{len(row)} fields", expected=f"{len(names)}, as in line 1")
            continue
        try:
            value = _fields(names, row)
        except JsonFault as fault:
            yield at.error(fault.problem, ("context",), "JSON")
            continue
        yield Document(path=path, value=value, line=line)


def _rows(path: str, text: str) -> list[tuple[int, list[str]]]:
    """Split a CSV text into rows, each with the number of its last line."""
    rows = csv.reader(io.StringIO(text, newline=""))
    with _long_cells():
        try:
            return [(rows.line_num, row) for row in rows]
        except csv.Error as error:  # where the next row begins is not known then
            line = rows.line_num
            raise FileFormatError(
                path, f"no CSV: {error}", line, expected="cells of CSV"
            ) from error


@contextmanager
def _long_cells() -> Generator[None]:
    """Let cells be as long as a file, and afterwards as long as they might be before.

    The csv module knows one limit for the whole process; it is never lowered here.
    """
    with _CELL_LIMIT:
        before = csv.field_size_limit()
        csv.field_size_limit(max(before, _MAX_CELL))
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _check_columns(path: str, names: Sequence[str]) -> None:
    """Refuse a column that no label has, or that is there twice."""
    known = set(Label.model_fields)
    for at, name in enumerate(names):
        if name not in known and not name.startswith(_CONTEXT):
            raise FileFormatError(
                path,
                "no such column",
                1,
                name,
                f"{', '.join(sorted(known))} or {_CONTEXT}NAME; remarks go into notes",
            )
        if name in names[:at]:
            raise FileFormatError(
                path, f"the column {name!r} stands twice", 1, name, "each column once"
            )


def _fields(names: Sequence[str], row: Sequence[str]) -> JsonValue:
    found: dict[str, JsonValue] = {}
    context: dict[str, JsonValue] = {}
    for name, cell in zip(names, row, strict=True):
        if name.startswith(_CONTEXT):
            context[name.removeprefix(_CONTEXT)] = cell
        elif name == "context":
            if cell.strip():
                found[name] = parse(cell)
        elif cell.strip():
            found[name] = cell
    if context:
        given = found.get("context")
        found["context"] = {**given, **context} if isinstance(given, dict) else context
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """A label, read as a task reads it."""

    line: int
    label: Label
    is_good: bool

    def __str__(self) -> str:
        score = self.label.score
        said = ("pass" if self.is_good else "fail") if score is None else f"{score:g}"
        return f"{said} in line {self.line}"


@dataclass(slots=True, kw_only=True)
class Item:
    """One record of one task, with what everybody said about it."""

    key: str
    uid: str
    record_id: str
    context: JsonValue
    votes: list[bool] = field(default_factory=list[bool])
    scores: list[float] = field(default_factory=list[float])
    raters: set[str] = field(default_factory=set[str])
    judged: bool | None = None
    judge_score: float | None = None
    length: float | None = None
    session: str = ""
    drawn: Label | None = None
    """A label that says that the record was drawn at random, and from what."""
    not_drawn: str = ""
    """Reason why there is none."""
    blind_votes: list[bool] = field(default_factory=list[bool])
    """Votes of people who had not seen the judge's outcome or other labels."""
    repeats: list[int] = field(default_factory=list[int])
    """Lines in which a rater says again what an earlier line says; they count once with it."""

    @property
    def judged_when_drawn(self) -> bool | None:
        """Outcome of the judge by which the record was drawn; None if it was not."""
        if self.drawn is None or self.drawn.order != "outcome":
            return None
        return self.drawn.stratum == "passed"

    @property
    def is_good(self) -> bool | None:
        """Majority of the raters; None if as many say good as say bad."""
        for_it = sum(self.votes)
        return None if 2 * for_it == len(self.votes) else 2 * for_it > len(self.votes)

    @property
    def is_good_if_drawn(self) -> bool | None:
        """Majority of the blind votes on a record that was drawn at random, or None."""
        blind = sum(self.blind_votes)
        is_tied = 2 * blind == len(self.blind_votes)
        return None if self.drawn is None or is_tied else 2 * blind > len(self.blind_votes)

    @property
    def has_only_an_id(self) -> bool:
        """True where the record is known by the user's id, and by nothing better."""
        return bool(self.record_id) and not self.uid

    @property
    def score(self) -> float | None:
        """The median of the raters' scores, the lower of two middle ones; None without any."""
        return sorted(self.scores)[(len(self.scores) - 1) // 2] if self.scores else None

    @property
    def mean_score(self) -> float | None:
        """The mean of the raters' scores, which need not be on the scale; None without any."""
        return math.fsum(self.scores) / len(self.scores) if self.scores else None


def gather(votes: Iterable[Vote], path: str, problems: list[Exception]) -> list[Item]:
    """Put together what several raters said about one record, in the order of the file.

    A rater has one vote on a record, however many lines repeat it. Lines without a rater are of
    as many people.

    Args:
        votes: On one task.
        path: Of the file, for messages.
        problems: Gets one for each line of a rater who says different things of a record; none of
            these lines counts.
    """
    said: dict[tuple[str, str | int], list[Vote]] = {}
    for vote in votes:
        person = vote.label.rater or vote.line
        said.setdefault((vote.label.key, person), []).append(vote)
    items: dict[str, Item] = {}
    for same in said.values():
        contradiction = _contradiction(same)
        if contradiction is not None:
            problems += _refusals(path, same, contradiction)
            continue
        first = same[0].label
        item = items.get(first.key)
        if item is None:
            item = items[first.key] = Item(
                key=first.key, uid=first.uid, record_id=first.record_id, context=first.context
            )
        _add(item, same)
    return list(items.values())


def _add(item: Item, same: Sequence[Vote]) -> None:
    """Add what one person said of a record, in one line or more."""
    item.votes.append(same[0].is_good)
    item.raters.add(same[0].label.rater)
    item.repeats += [vote.line for vote in same[1:]]
    if all(vote.label.is_blind is not False for vote in same):
        item.blind_votes.append(same[0].is_good)
    item.scores += [vote.label.score for vote in same if vote.label.score is not None][:1]
    for vote in same:
        label = vote.label
        item.context = label.context if item.context is None else item.context
        item.judged = label.judge if item.judged is None else item.judged
        item.judge_score = label.judge_score if item.judge_score is None else item.judge_score
        item.length = label.length if item.length is None else item.length
        item.session = item.session or label.session
        item.not_drawn = item.not_drawn or label.not_drawn
        if item.drawn is None and not label.not_drawn:
            item.drawn = label


def _contradiction(same: Sequence[Vote]) -> tuple[Vote, Vote] | None:
    """Find two votes of one person on one record of which only one can be meant."""
    scored: Vote | None = None
    for vote in same:
        if vote.is_good != same[0].is_good:
            return same[0], vote
        if vote.label.score is not None:
            scored = scored or vote
            if vote.label.score != scored.label.score:
                return scored, vote
    return None


def _refusals(path: str, same: Sequence[Vote], two: tuple[Vote, Vote]) -> Iterator[FileFormatError]:
    first, second = two
    for vote in same:
        yield FileFormatError(
            path,
            f"{vote.label.rater!r} says {first} and {second} of the same record, so that neither "
            "counts",
            vote.line,
            "label" if vote.label.score is None else "score",
            "one line for each record and rater",
        )
