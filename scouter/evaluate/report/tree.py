"""A report, read from Markdown or plain data, and scored from its fields up to the whole."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Annotated, Final, TypeAlias, cast

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pydantic import Field, JsonValue, TypeAdapter

from scouter.errors import DataError
from scouter.evaluate.judge.port import JudgeError
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.report.field_judge import FieldJudge, Match
from scouter.evaluate.report.field_metrics import (
    AVERAGE,
    JUDGE,
    METRICS,
    Compat,
    FieldConfig,
    MetricsConfig,
    field_score,
)

TITLE: Final = "title"
_TEXT_SECTION: Final = "Analysis Results"
"""The one section whose free text the originals keep."""


@dataclass(slots=True)
class _Section:
    level: int
    name: str
    fields: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    lines: list[str] = field(default_factory=list[str])


def read_report(text: str, compat: Compat = "sound") -> dict[str, JsonValue]:
    """Read a report.

    The heading `#` is the `title`, deeper headings are sections inside each other. A row of a
    table, with its header line or without one, is a field: its first cell is the name, the second
    the value; more cells make a list. A row that begins with `Field` names columns. A section
    without fields and sections is its text.

    Args:
        text: The Markdown.
        compat: `vss` keeps the text of the section `Analysis Results` alone.

    Cost: linear in the text.
    """
    report: dict[str, JsonValue] = {}
    open_sections: list[_Section] = []
    for kind, content in _blocks(text):
        if kind == "h1":
            report.setdefault(TITLE, content)
        elif kind.startswith("h"):
            level = int(kind[1:])
            while open_sections and open_sections[-1].level >= level:
                _close(open_sections, report, compat)
            open_sections.append(_Section(level, content))
        elif open_sections:
            _add(open_sections[-1], kind, content)
    while open_sections:
        _close(open_sections, report, compat)
    return report


def _close(open_sections: list[_Section], report: dict[str, JsonValue], compat: Compat) -> None:
    """Put the innermost section into the one around it."""
    section = open_sections.pop()
    around = open_sections[-1].fields if open_sections else report
    value: JsonValue = section.fields
    if not section.fields and section.lines:
        if compat != "vss":
            value = "\n".join(section.lines)
        elif section.name == _TEXT_SECTION:
            value = "".join(section.lines)
    if value or compat != "vss":
        around[section.name] = value


def _add(section: _Section, kind: str, content: str) -> None:
    """Take a row of a table, or a line of text."""
    if kind == "text" and not content.lstrip().startswith("|"):
        section.lines.append(content)
        return
    cells = content.split("\0") if kind == "row" else content.strip().strip("|").split("|")
    name, *values = (cell.strip().strip("*").strip() for cell in cells)
    if name.casefold() == "field" or not values or set(name) <= set("-: "):
        return
    section.fields[name] = values[0] if len(values) == 1 else list[JsonValue](values)


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Headings (`h1` …), rows of tables (`row`) and lines (`text`), in their order."""
    row: list[str] = []
    within = ""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "heading_open":
            within = token.tag
        elif token.type == "tr_open":
            within, row = "row", []
        elif token.type == "tr_close":
            yield "row", "\0".join(row)
        elif token.type == "paragraph_open":
            within = "text"
        elif token.type in {"fence", "code_block"}:
            yield "text", token.content.rstrip("\n")
        elif token.type == "inline" and within == "row":
            row.append(_plain(token.children or ()))
        elif token.type == "inline" and within == "text":
            yield from (("text", line) for line in _plain(token.children or ()).split("\n") if line)
        elif token.type == "inline":
            yield within, _plain(token.children or ())


def _plain(tokens: Sequence[Token]) -> str:
    """The text of a line, without its marks and images."""
    parts: list[str] = []
    for token in tokens:
        if token.type in {"text", "code_inline"}:
            parts.append(token.content)
        elif token.type in {"softbreak", "hardbreak"}:
            parts.append("\n")
    return "".join(parts).strip()


NOT_TOLD: Final = "LLM failed to score this field during discovery"
NON_EMPTY: Final = "non_empty"
DISCOVERED: Final = "llm_judge_with_field_discovery"
_Scored: TypeAlias = tuple[float | None, str | None, Reason | None]
"""A score, or what went wrong and of which kind it is; none of them where there is nothing."""
_RATIO: Final = TypeAdapter(Annotated[float, Field(ge=0, le=1)])


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionScore:
    """The score of a section or field, with those inside."""

    section_score: float | None
    """Score from 0 to 1; None where it could not be scored, or there was nothing to score."""
    method: str
    actual_value: JsonValue = None
    reference_value: JsonValue = None
    error: str | None = None
    reason: Reason | None = None
    """Kind of the error; None where there is none."""
    field_scores: Mapping[str, "SectionScore"] = field(default_factory=dict[str, "SectionScore"])
    is_absent: bool = False
    """Neither report nor reference has it; it is in no average."""
    matched: str | None = None
    """The field of the reference that a discovered one is about."""

    def to_json(self) -> dict[str, JsonValue]:
        """Write it as the evaluator's output file has it."""
        return {
            "section_score": self.section_score,
            "method": self.method,
            "actual_value": self.actual_value,
            "reference_value": self.reference_value,
            "error": self.error,
            "field_scores": {name: each.to_json() for name, each in self.field_scores.items()},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeScorer:
    """Scores reports by one tree of metrics."""

    config: MetricsConfig
    judge: FieldJudge | None = None
    compat: Compat = "sound"

    async def score(self, reference: JsonValue, actual: JsonValue) -> SectionScore:
        """Score a report.

        Args:
            reference: Content of a right report: sections and fields by name.
            actual: Content of the report.

        Raises:
            pydantic.ValidationError: In `vss`, a judge gave a number outside of 0 to 1.
        """
        key = self.config.root_key
        return await self._node(self.config.root, key, key, reference, actual)

    async def _node(
        self, config: FieldConfig, name: str, path: str, reference: JsonValue, actual: JsonValue
    ) -> SectionScore:
        if config.fields or config.allow_dynamic_field_discovery:
            return await self._section(config, name, path, reference, actual)
        method = config.method or JUDGE
        score, error, reason = await self._value(method, name, reference, actual)
        return SectionScore(
            section_score=score,
            method=method,
            actual_value=actual,
            reference_value=reference,
            error=error,
            reason=reason,
            is_absent=score is None and error is None,
        )

    async def _section(
        self, config: FieldConfig, name: str, path: str, reference: JsonValue, actual: JsonValue
    ) -> SectionScore:
        method = config.method or JUDGE
        whole = reference
        if self.compat != "vss" and reference is None:
            if _is_nothing(actual):
                return SectionScore(section_score=None, method=method, is_absent=True)
            reference = {}
        if not isinstance(reference, dict):
            kind = type(reference).__name__
            return SectionScore(
                section_score=None,
                method=method,
                actual_value=actual,
                reference_value=reference,
                error=f"Reference at '{path}' is {kind}, expected dict for section",
                reason=Reason.TYPE,
            )
        given = actual if isinstance(actual, dict) else {}
        fields = dict(await self._fields(config, path, reference, given))
        fields.update(await self._discovered(config, reference, given))
        if method == AVERAGE:
            score, error, reason = self._average(config, fields, reference)
        else:
            score, error, reason = await self._value(method, name, whole, actual)
        return SectionScore(
            section_score=score,
            method=method,
            actual_value=actual,
            reference_value=whole,
            error=error,
            reason=reason,
            field_scores=fields,
            is_absent=error is None and score is None,
        )

    async def _fields(
        self,
        config: FieldConfig,
        path: str,
        reference: Mapping[str, JsonValue],
        actual: Mapping[str, JsonValue],
    ) -> list[tuple[str, SectionScore]]:
        listed = config.fields or {}
        walks = [
            self._node(each, name, f"{path}.{name}", reference.get(name), actual.get(name))
            for name, each in listed.items()
        ]
        if self.judge is None:
            scores = [await walk for walk in walks]
        else:
            scores = await self.judge.gather(walks)
        return list(zip(listed, scores, strict=True))

    async def _discovered(
        self,
        config: FieldConfig,
        reference: Mapping[str, JsonValue],
        actual: Mapping[str, JsonValue],
    ) -> dict[str, SectionScore]:
        names = [name for name in actual if name not in (config.fields or {})]
        if not config.allow_dynamic_field_discovery or not names:
            return {}
        if self.judge is None:
            raise DataError("fields of the report are to be discovered, and there is no judge")
        listed = config.fields or {}
        unlisted = {name: each for name, each in reference.items() if name not in listed}
        shown = unlisted if self.compat != "vss" else reference
        found, error, reason = dict[str, Match | None](), NOT_TOLD, Reason.PARSE
        try:
            found = await self.judge.discover(shown, actual, names)
        except JudgeError as fault:
            error, reason = f"{fault.reason}: {fault}", fault.reason
        return {
            name: _discovered(actual[name], found.get(name), reference, error, reason)
            for name in names
        }

    def _average(
        self,
        config: FieldConfig,
        fields: Mapping[str, SectionScore],
        reference: Mapping[str, JsonValue],
    ) -> _Scored:
        """The mean of the fields' scores, and why there is none."""
        counted = [each for each in fields.values() if not each.is_absent]
        scores = [each.section_score for each in counted]
        if self.compat == "vss":
            return (fmean(score or 0.0 for score in scores) if scores else 0.0), None, None
        if config.recall_penalty:
            scores += [0.0] * len(_unmatched(config, fields, reference))
        unknown = [name for name, each in fields.items() if each.error is not None]
        if unknown:
            reason = fields[unknown[0]].reason or Reason.TYPE
            return None, f"no score of {', '.join(unknown)}", reason
        if scores:
            return fmean(cast("Sequence[float]", scores)), None, None
        # Nothing was written where the reference has something to say.
        return (0.0 if reference else None), None, None

    async def _value(
        self, method: str, name: str, reference: JsonValue, actual: JsonValue
    ) -> _Scored:
        """Score one value as a whole."""
        is_absent = method != NON_EMPTY and _is_nothing(reference) and _is_nothing(actual)
        if is_absent and self.compat != "vss":
            return None, None, None
        try:
            if method == JUDGE:
                if self.judge is None:
                    return None, "there is no judge", Reason.PROVIDER
                score = await self.judge.single(name, actual, reference)
            elif method in METRICS:
                score = field_score(method, actual, reference, self.compat)
            else:
                return None, f"there is no metric {method!r}", Reason.TYPE
        except JudgeError as error:
            if self.compat == "vss":
                return None, "Evaluation failed: metric returned None", error.reason
            return None, f"{error.reason}: {error}", error.reason
        except TaskFault as fault:
            return None, fault.message, fault.reason
        except Exception as error:  # noqa: BLE001 - one field's failure is that field's result
            return None, str(error), Reason.TYPE
        return _RATIO.validate_python(score), None, None


def _is_nothing(value: JsonValue) -> bool:
    return value is None or value in ("", [], {})


def _unmatched(
    config: FieldConfig, fields: Mapping[str, SectionScore], reference: Mapping[str, JsonValue]
) -> list[str]:
    """Fields of the reference that are not listed, and that no discovered field matches."""
    matched = {each.matched for each in fields.values()}
    listed = config.fields or {}
    return [name for name in reference if name not in listed and name not in matched]


def _discovered(
    actual: JsonValue,
    match: Match | None,
    reference: Mapping[str, JsonValue],
    error: str,
    reason: Reason,
) -> SectionScore:
    if match is None:
        return SectionScore(
            section_score=None,
            method=DISCOVERED,
            actual_value=actual,
            reference_value="[no matching reference field found in LLM response]",
            error=error,
            reason=reason,
        )
    name = match.reference_field
    missing = f"[no matching reference field: {name}]"
    return SectionScore(
        section_score=match.score,
        method=DISCOVERED,
        actual_value=actual,
        reference_value=reference.get(name, missing) if name is not None else missing,
        matched=name,
    )
