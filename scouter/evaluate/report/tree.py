"""A report scored from its fields up to the whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Annotated, Final, TypeAlias, cast

from pydantic import Field, JsonValue, TypeAdapter

from scouter.errors import DataError
from scouter.evaluate.judge.port import JudgeError
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.report.field_judge import FieldJudge, Match
from scouter.evaluate.report.field_metrics import METRICS, field_score
from scouter.evaluate.report.metrics_config import AVERAGE, JUDGE, FieldConfig, MetricsConfig
from scouter.evaluate.report.rules import Compat

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
