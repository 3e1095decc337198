"""Records and scores as senders write them, checked item by item."""

import json
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Annotated, Final, cast

import pydantic_core
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    SkipValidation,
    ValidationError,
)

from collector.items.limits import Limits, check_json_marks
from collector.items.times import parse_time_ns
from scouter.errors import DataError
from scouter.evaluate.engine.sessions import is_session_uid
from scouter.evaluate.spans.derived import is_derived_uid
from scouter.model.attributes import RESOURCE_TAGS
from scouter.model.ids import is_trace_id
from scouter.model.json_value import plain_text, to_json_bytes
from scouter.model.log_event import RESULT_EVENT, ForeignResult, foreign_results
from scouter.model.score import PEOPLE, is_score_uid, score_uid
from scouter.model.short_text import (
    MOST_CHARACTERS,
    given_text,
    short_text,
    stored_tags,
    tag_text,
)
from scouter.model.span import Attributes, Span, struct

_DEFAULT: Final = Limits()
_write: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), check_circular=False, allow_nan=False
).encode
"""Encoder for digests: it writes the same text for the same item in every version."""


def _trace_id(text: str | None) -> str | None:
    if not text:
        return None
    lower = text.lower()
    if not is_trace_id(lower):
        raise ValueError("expected 32 hex digits, not all zero")
    return lower


def _time_ns(value: int | str | None) -> int | None:
    return None if value is None else parse_time_ns(value)


def _no_session(uid: str) -> str:
    if is_session_uid(uid):
        raise ValueError("this form is reserved for evaluations on sessions")
    if is_derived_uid(uid):
        raise ValueError("this form is reserved for records that are derived from traces")
    if is_score_uid(uid):
        raise ValueError("this form is reserved for scores")
    return uid


def stored_text(value: object) -> object:
    """A uid, or another short text of a record, as it is stored; what is no text as it is."""
    return short_text(given_text("", value)) if isinstance(value, _TEXTS) else value


def _tag_value(value: object) -> object:
    return tag_text(given_text("", value)) if isinstance(value, _TEXTS) else value


def _tags(tags: object) -> object:
    return stored_tags(cast("dict[str, str]", tags)) if isinstance(tags, dict) else tags


def _whole(value: object) -> object:
    return plain_text(value) if isinstance(value, str) else value


def _no_control(name: str) -> str:
    if short_text(name) != name:
        raise ValueError("control characters are not allowed here")
    return name


def _cut(text: str) -> str:
    return text[:_MOST_EXPLANATION]


def _score_name(name: str) -> str:
    if not 0 < len(name.strip()) <= _MOST_NAME:
        raise ValueError(f"expected 1 to {_MOST_NAME} characters, got {len(name.strip())}")
    return name.strip()


_MOST_NAME: Final = 120
_MOST_EXPLANATION: Final = 4_096
"""Characters of an explanation, as of those that are sent on."""
_TEXTS: Final = (str, int, float)
ShortText = Annotated[str, BeforeValidator(stored_text)]
TagText = Annotated[str, BeforeValidator(_tag_value)]
ProfileRef = Annotated[
    str,
    Field(min_length=1, max_length=MOST_CHARACTERS),
    BeforeValidator(_whole),
    AfterValidator(_no_control),
]


class RecordItem(BaseModel):
    """One record in `POST /v1/records`, or one message of the topic of records."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    uid: Annotated[ShortText, AfterValidator(_no_session)] = Field(
        default="", description="Key of the record; made from it if missing."
    )
    profile: ProfileRef = Field(
        description="The profile that judges it: digest, uid, alias or name."
    )
    record_id: ShortText | None = Field(default=None, description="The user's name for it.")
    session_id: ShortText | None = Field(default=None, description="Its conversation.")
    trace_id: Annotated[str | None, AfterValidator(_trace_id)] = Field(
        default=None, description="32 hex digits: the trace that tasks look at."
    )
    created_at: Annotated[int | str | None, AfterValidator(_time_ns)] = Field(
        default=None, description="Nanoseconds since the epoch, or RFC 3339."
    )
    context: Annotated[JsonValue, SkipValidation] = Field(  # as JSON gave it
        default=None, description="The value that tasks read."
    )
    tags: Annotated[dict[ShortText, TagText] | None, BeforeValidator(_tags)] = Field(
        default=None, description="Text pairs to filter by."
    )


class ScoreItem(BaseModel):
    """A score of an evaluator or a person; at least one of value and label."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    name: Annotated[ShortText, AfterValidator(_score_name)] = Field(
        description="Of the score, such as `helpfulness`; 120 characters at most."
    )
    value: Annotated[float | None, Field(allow_inf_nan=False)] = None
    label: ShortText = Field(default="", description="Such as `pass`.")
    explanation: Annotated[str, BeforeValidator(_whole), AfterValidator(_cut)] = ""
    source: ShortText = Field(default="", description="Who says it; `human` for people.")
    error: ShortText = Field(default="", description="Reason why there is neither.")
    is_event: bool = Field(default=False, description="It need not be watched.")
    by: ShortText = Field(default="", description="The person.")
    id: ShortText = Field(default="", description="Key of the score; made of it if missing.")
    of: ShortText = Field(default="", description="Uid of the record that it is about.")
    span: ShortText = Field(default="", description="Id of the span that it is about.")
    at: Annotated[int | str | None, AfterValidator(_time_ns)] = Field(
        default=None, description="Time at which it was given."
    )

    @property
    def is_of_people(self) -> bool:
        """True if a person says it."""
        return self.source == PEOPLE


class ScoredItem(RecordItem):
    """A score in the place of a record; `created_at` is the time of what it is about."""

    profile: ProfileRef | None = None  # type: ignore[assignment] every profile that names it
    score: ScoreItem


@struct
class CheckedRecord:
    """A usable record and the digest of what its sender said."""

    item: RecordItem
    uid: str
    digest: str


def check_record(value: object, max_bytes: int | None = None) -> CheckedRecord:
    """Check one item.

    Args:
        value: The item as read from JSON.
        max_bytes: Largest size as JSON; None where the batch is smaller than that.

    Raises:
        DataError: It cannot be used; names the field.
    """
    if max_bytes is not None:
        size = len(json_bytes(value))
        if size > max_bytes:
            raise DataError(f"{size} bytes; at most {max_bytes} of a record are taken")
    try:
        is_score = isinstance(value, dict) and "score" in value
        item = (ScoredItem if is_score else RecordItem).model_validate(value)
        if isinstance(item.context, (dict, list)):
            to_json_bytes(item.context)  # its limit of depth is the one limit
    except ValidationError as error:
        raise DataError(_explain(error)) from error
    except RecursionError as error:
        raise DataError("context: nested too deeply") from error
    if isinstance(item, ScoredItem):
        return _checked_score(item)
    said = [
        item.profile, item.record_id or "", item.session_id or "", item.trace_id,
        item.created_at, item.context, dict(item.tags or {}),
    ]  # fmt: skip
    try:
        digest = sha256(_write(said).encode()).hexdigest()
    except TypeError as error:
        raise DataError(f"context: {error}") from error
    except ValueError as error:  # the readers of JSON make infinity of 1e400
        raise DataError(
            "context: a number is beyond what a 64-bit float holds, such as 1e400; send it as text"
        ) from error
    return CheckedRecord(item=item, uid=item.uid or digest[:32], digest=digest)


def _checked_score(item: ScoredItem) -> CheckedRecord:
    """Identity of a score: its id or, without one, all but when it came."""
    score = item.score
    # An event of a span may come as a log record, too, with another time.
    is_dated = score.is_event and not item.trace_id
    what = score.model_dump(mode="json", exclude={"id"} if is_dated else {"id", "at"})
    said = _write([what, item.profile, item.trace_id, item.session_id, item.record_id])
    uid = score_uid("id", score.name, score.id) if score.id else score_uid("said", said)
    return CheckedRecord(item=item, uid=uid, digest=sha256(said.encode()).hexdigest())


def read_records_body(data: bytes, limits: Limits = _DEFAULT) -> list[object]:
    """Read `{"records": […]}`.

    Returns:
        The items, not checked yet.

    Raises:
        DataError: The body as a whole is something else.
        TooLargeError: It is beyond a limit.
    """
    check_json_marks(data)
    body = read_json(data)
    items = body.get("records") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(items, list):
        raise DataError('expected an object with a list of records: {"records": [{…}, …]}')
    limits.check_items(len(items))
    return cast(list[object], items)


def read_json(data: bytes) -> JsonValue:
    """Read strict JSON: no NaN, bounded depth. Half characters are left for the item's check.

    Raises:
        DataError: It is not JSON; says where.
    """
    try:
        return pydantic_core.from_json(data, allow_inf_nan=False)
    except ValueError as error:
        if b"\\u" in data:
            try:  # one escape of half a character must not cost the other items of a batch
                return json.loads(data, parse_constant=_no_constant)
            except (ValueError, RecursionError):
                pass  # what the stricter reader said is the better message
        raise DataError(f"not JSON: {error}") from error


def read_otlp_json(data: bytes, groups: str) -> Mapping[str, object]:
    """Read the JSON form of an OTLP request.

    Args:
        data: UTF-8.
        groups: Name of its list of groups, such as `resourceSpans`.

    Raises:
        DataError: It is not JSON, or has another shape.
        TooLargeError: It is beyond a limit.
    """
    check_json_marks(data)
    raw = read_json(data)
    if not isinstance(raw, dict) or (raw and groups not in raw):
        raise DataError(f'expected an object with "{groups}"')
    return cast("Mapping[str, object]", raw)


def json_bytes(value: object) -> bytes:
    """Write what `read_json` gave, also where it holds what cannot be accepted."""
    try:
        return pydantic_core.to_json(value, inf_nan_mode="strings")
    except (ValueError, RecursionError):  # half a character, or deeper than that writer goes
        try:
            return json.dumps(value).encode()
        except RecursionError:
            return b'"nested too deeply to be written"'


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _explain(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    if problems[0]["loc"] == ():
        return "a record has to be an object, or its JSON as text"
    parts = [
        f"{'.'.join(map(str, problem['loc']))}: {problem['msg'].removeprefix('Value error, ')}"
        for problem in problems[:5]
    ]
    more = f" (and {len(problems) - 5} more)" if len(problems) > 5 else ""
    return "; ".join(parts) + more


def scored_items(spans: Iterable[Span]) -> Iterator[object]:
    """The scores in spans and log events, as `check_record` takes them.

    Cost: 0.1 µs for a span without any.
    """
    for span in spans:
        if span.name == RESULT_EVENT or any(each.name == RESULT_EVENT for each in span.events):
            yield from (
                score_of(each, span.resource.attributes)
                for each in foreign_results((span,))
                if each.name.strip()
            )


def score_of(found: ForeignResult, resource: Attributes) -> dict[str, JsonValue]:
    """A score as `check_record` takes it, with the attributes of its process."""
    score: dict[str, JsonValue] = {
        "name": found.name, "value": found.score, "label": found.label, "source": found.source,
        "explanation": found.explanation, "error": found.error,
        "at": found.time_ns or None,  # a sender without a clock; the time of arrival counts
        "id": found.key and f"{found.trace_id}:{found.key}", "span": found.span_id,
        "is_event": True,
    }  # fmt: skip
    return {
        "score": score,
        "trace_id": found.trace_id or None,
        "session_id": found.session,
        "created_at": found.time_ns or None,
        "tags": {name: str(resource[name]) for name in RESOURCE_TAGS if resource.get(name)},
    }
