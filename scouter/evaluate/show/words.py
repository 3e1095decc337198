"""Checks in words: what is measured on which spans, and how it is compared."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from scouter.evaluate.operators.comparison import ComparisonOperator as Op

_FIELD: Final = re.compile(r"\{(\w+)\}")
_TEMPLATE: Final = re.compile(r"\$\{([^{}]+)\}")
_LITERAL: Final = re.compile(r'[\[{"]|(?:-?\d[\d.eE+-]*|true|false|null)$')
"""JSON that is recognised by its looks."""
_LONGEST: Final = 200
"""Characters of a value inside of a sentence."""
_MOST_PARTS: Final = 80
"""Parts of a sentence: a filter may be of any size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a sentence."""

    text: str
    is_given: bool = False
    """Stands in the profile, letter by letter."""


Words: TypeAlias = tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A value that a task compares, in words."""

    subject: Words
    """`the duration of the trace`; of a measure that is true or false the whole claim."""
    denial: Words = ()
    """The opposite of the claim; empty for any other measure."""
    unit: str = ""


def phrase(form: str, /, **given: object) -> Words:
    """Fill a sentence.

    Args:
        form: Words with the names of values in braces.
        given: Values of a profile; words are put in as they are.
    """
    found: list[Part] = []
    for at, text in enumerate(_FIELD.split(form)):
        if at % 2:
            found += _given(given[text])
        elif text:
            found.append(Part(text=text))
    return tuple(found)


def _given(value: object) -> Words:
    if isinstance(value, tuple):
        return cast("Words", value)
    text = value if isinstance(value, str) and value.strip() else _json(value)
    short = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
    return (Part(text=short, is_given=True),)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def listed(values: Sequence[object], between: str = ", ") -> Words:
    """Several values, one behind the other; words are taken as they are."""
    found: list[Part] = []
    for each in values:
        if found:
            found.append(Part(text=between))
        found += _given(each)
    return tuple(found)


def plain(words: Words) -> str:
    """Words as one text, with texts of the profile in quotes that they hardly have inside."""
    return "".join(
        f"“{part.text}”" if part.is_given and not _LITERAL.match(part.text) else part.text
        for part in words
    )


_COMPARED: Final[Mapping[str, str]] = {
    Op.Equals: "is {x}",
    Op.NotEqual: "is not {x}",
    Op.GreaterThan: "is more than {x}",
    Op.GreaterThanOrEqual: "is at least {x}",
    Op.LessThan: "is less than {x}",
    Op.LessThanOrEqual: "is at most {x}",
    Op.Contains: "contains {x}",
    Op.NotContains: "does not contain {x}",
    Op.StartsWith: "begins with {x}",
    Op.EndsWith: "ends with {x}",
    Op.Matches: "matches the pattern {x}",
    Op.MatchesRegex: "matches the pattern {x}",
    Op.HasLengthEqual: "has {x} characters or items",
    Op.HasLengthGreaterThan: "has more than {x} characters or items",
    Op.HasLengthLessThan: "has less than {x} characters or items",
    Op.HasLengthGreaterThanOrEqual: "has at least {x} characters or items",
    Op.HasLengthLessThanOrEqual: "has at most {x} characters or items",
    Op.SequenceMatches: "is, in this order, {x}",
    Op.ContainsAll: "contains all of {x}",
    Op.ContainsAny: "contains any of {x}",
    Op.ContainsNone: "contains none of {x}",
    Op.ContainsWord: "contains the word {x}",
    Op.DeepEquals: "is exactly {x}",
    Op.SetEquals: "has, in any order, the items {x}",
    Op.MatchesJsonSchema: "is valid under the schema {x}",
}
_OF_TWO: Final[Mapping[str, str]] = {
    Op.InRange: "is between {x} and {y}",
    Op.NotInRange: "is not between {x} and {y}",
    Op.ApproximatelyEquals: "is {x}, or off by at most {y}",
    Op.WithinAbsoluteTolerance: "is {x}, or off by at most {y}",
    Op.WithinRelativeTolerance: "is {x}, or off by at most {y} times of it",
    Op.SimilarityAtLeast: "is similar to {x}, by a ratio of at least {y}",
}
_PROPERTIES: Final[Mapping[str, tuple[str, str]]] = {
    Op.IsNumeric: ("is a number", "is no number"),
    Op.IsString: ("is a text", "is no text"),
    Op.IsBoolean: ("is true or false", "is neither true nor false"),
    Op.IsNull: ("is null", "is not null"),
    Op.IsArray: ("is a list", "is no list"),
    Op.IsObject: ("is an object", "is no object"),
    Op.IsEmail: ("is an e-mail address", "is no e-mail address"),
    Op.IsUrl: ("is a URL", "is no URL"),
    Op.IsUuid: ("is a UUID", "is no UUID"),
    Op.IsIso8601: ("is a date or a time", "is no date and no time"),
    Op.IsJson: ("is JSON", "is no JSON"),
    Op.IsPositive: ("is above zero", "is not above zero"),
    Op.IsNegative: ("is below zero", "is not below zero"),
    Op.IsZero: ("is zero", "is not zero"),
    Op.IsEmpty: ("is empty", "is not empty"),
    Op.IsNotEmpty: ("is not empty", "is empty"),
    Op.HasUniqueItems: ("has no item twice", "has an item twice"),
    Op.IsAlphabetic: ("has letters only", "has other characters than letters"),
    Op.IsAlphanumeric: ("has letters and digits only", "has others than letters and digits"),
    Op.IsLowerCase: ("is in lower case", "is not in lower case"),
    Op.IsUpperCase: ("is in upper case", "is not in upper case"),
}


def compared(operator: str, expected: object, unit: str = "") -> Words:
    """The comparison of a task in words.

    Args:
        operator: Its name.
        expected: The value that is expected.
        unit: Of that value, with a space before it.
    """
    if operator in _PROPERTIES:
        return phrase(_PROPERTIES[operator][expected is False])
    if operator in _OF_TWO and isinstance(expected, list):
        pair = cast("list[object]", expected)
        if len(pair) == 2:
            return phrase(_OF_TWO[operator] + unit, x=pair[0], y=pair[1])
    form = _COMPARED.get(operator, f"{operator} {{x}}")
    return phrase(form + unit, x=_expected(cast("object", expected)))


def _expected(value: object) -> object:
    """A value that is read from the record, in words; any other as it is."""
    path = _TEMPLATE.fullmatch(value) if isinstance(value, str) else None
    return value if path is None else phrase("the record's {path}", path=path[1])


def sentence(measure: Measure, operator: str, expected: object) -> Words:
    """The condition of passing: a measure and its comparison."""
    if not measure.denial:
        return (*measure.subject, Part(text=" "), *compared(operator, expected, measure.unit))
    if isinstance(expected, bool) and operator in (Op.Equals, Op.DeepEquals, Op.NotEqual):
        is_claim = expected is (operator != Op.NotEqual)
        return measure.subject if is_claim else measure.denial
    return (*measure.subject, Part(text=": this "), *compared(operator, expected))


_FILTERS: Final[Mapping[str, str]] = {
    "ByName": "named {name}",
    "ByNamePattern": "whose name matches {pattern}",
    "WithAttribute": "with the attribute {key}",
    "WithAttributeValue": "whose attribute {key} is {value}",
    "WithStatus": "with the status {status}",
    "Sequence": "in a run of the names {names}",
    "ByKind": "of the kind {span_kind}",
    "ByService": "of the service {name}",
    "ByScope": "made by the library {name}",
    "WithEvent": "with an event {name}",
    "WithEventAttribute": "with an event {name} that has {key}",
    "WithEventAttributeValue": "with an event {name} whose {key} is {value}",
    "Not": "other than those {filter}",
    "ChildOf": "whose parent is one {filter}",
    "ParentOf": "with a child {filter}",
    "DescendantOf": "below one {filter}",
    "AncestorOf": "above one {filter}",
}
_JOINED: Final = {"And": " and ", "Or": " or "}


def selected(wire: Mapping[str, Any]) -> Words:
    """A span filter in words that stand behind `spans`.

    Args:
        wire: As a profile has it: `{"ByName": {"name": "search"}}`.
    """
    return _shortened(_selected(wire))


def _shortened(words: Words) -> Words:
    return words if len(words) <= _MOST_PARTS else (*words[:_MOST_PARTS], Part(text=" …"))


def _selected(wire: Mapping[str, Any]) -> Words:
    ((tag, fields),) = wire.items()
    if tag in _JOINED:
        parts: list[Mapping[str, Any]] = fields["filters"]
        return _shortened(listed([_inner(each) for each in parts[:_MOST_PARTS]], _JOINED[tag]))
    if tag == "WithDuration":
        bounds = (("at least", fields.get("min_ms")), ("at most", fields.get("max_ms")))
        each = [phrase(f"{word} {{ms}} ms", ms=ms) for word, ms in bounds if ms is not None]
        return phrase("that took {bounds}", bounds=listed(each, " and "))
    if "filter" in fields:
        fields = {**fields, "filter": _inner(fields["filter"])}
    return _filled(_FILTERS, tag, fields)


def _inner(wire: Mapping[str, Any]) -> Words:
    """A filter inside of another one."""
    words = _selected(wire)
    return phrase("({words})", words=words) if _JOINED.keys() & wire else words


def _filled(forms: Mapping[str, str], tag: str, fields: Mapping[str, Any]) -> Words:
    """Words for a tagged value; one of a later kind as it stands."""
    if tag not in forms:
        return phrase("of {tag}: {fields}", tag=tag, fields=fields)
    given: dict[str, object] = {}
    for name, value in fields.items():
        if name == "filter" and isinstance(value, dict):
            given[name] = _selected(cast("dict[str, Any]", value))
        else:
            given[name] = listed(cast("list[object]", value)) if isinstance(value, list) else value
    return phrase(forms[tag], **given)


_TRACE: Final[Mapping[str, str]] = {
    "SpanSequence": "the spans of the trace are, in time order, exactly {span_names}",
    "SpanSet": "there is a span of each of these names: {span_names}",
    "SpanCount": "the number of spans {filter}",
    "SpanExists": "there is a span {filter}",
    "SpanAttribute": "the attribute {attribute_key} of each span {filter}",
    "SpanDuration": "the duration of each span {filter}",
    "TraceDuration": "the duration of the trace",
    "TraceSpanCount": "the number of spans in the trace",
    "TraceErrorCount": "the number of spans with the status Error",
    "TraceServiceCount": "the number of services in the trace",
    "TraceMaxDepth": "the number of parents above the deepest span",
    "TraceAttribute": "the attribute {attribute_key} of the root span",
    "ModelCallCount": "the number of model calls of {agent}",
    "ModelCost": "the cost of the model calls of {agent}",
}
_AGENT: Final[Mapping[str, str]] = {
    "ToolCalled": "the tool {name} was called",
    "ToolNotCalled": "the tool {name} was not called",
    "ToolCalledWithArgs": "the tool {name} was called with {arguments}",
    "ToolCallSequence": "the tools {names} were called in this order",
    "ToolCallCount": "the number of calls of {name}",
    "RepeatedToolCallCount": "the number of calls of {name} that repeat an earlier one",
    "ToolArgument": "the argument {argument_key} of the first call of {name}",
    "ToolResult": "the result of the first call of {name}",
    "ToolError": "the error of the first call of {name} that failed",
    "ToolErrorCount": "the number of failed calls of {name}",
    "UnrecoveredToolErrorCount": "the number of failed calls of {name} that no later one made good",
    "EmptyResultCount": "the number of calls of {name} that gave nothing back",
    "UnsourcedArgumentCount": "the number of values of arguments {keys} that have no source",
    "UnsourcedNumberCount": "the number of numbers in the last answer that have no source",
    "GuardrailVerdict": "the strictest verdict of {name}",
    "GuardrailAction": "the action upon the strictest verdict of {name}",
    "ResponseCitesResult": "the last answer cites a result of {name}",
    "ResponseContent": "the text of the last answer",
    "ResponseIsBlank": "whether the last answer has neither a text nor a call of a tool",
    "ResponseModel": "the model that answered",
    "ResponseFinishReason": "the reason for the end of the last answer",
    "ResponseInputTokens": "the number of tokens that the model read",
    "ResponseOutputTokens": "the number of tokens that the model wrote",
    "ResponseTotalTokens": "the number of tokens that the model read and wrote",
    "ResponseField": "{path} of the response",
}
_DENIALS: Final[Mapping[str, str]] = {
    "SpanSequence": "the spans of the trace are, in time order, not {span_names}",
    "SpanSet": "one of these names has no span: {span_names}",
    "SpanExists": "there is no span {filter}",
    "ToolCalled": _AGENT["ToolNotCalled"],
    "ToolNotCalled": _AGENT["ToolCalled"],
    "ToolCalledWithArgs": "the tool {name} was not called with {arguments}",
    "ToolCallSequence": "the tools {names} were not called in this order",
    "ResponseCitesResult": "the last answer cites no result of {name}",
}
_OF_ALL: Final = {
    "ToolCallCount": "all tools", "ToolErrorCount": "all tools",
    "RepeatedToolCallCount": "all tools", "ResponseCitesResult": "any tool",
    "UnrecoveredToolErrorCount": "all tools", "EmptyResultCount": "all tools",
    "GuardrailVerdict": "all guardrails", "GuardrailAction": "all guardrails",
    "GuardrailCount": "all guardrails",
}  # fmt: skip
"""Words for a name that is null."""
_AGGREGATED: Final[Mapping[str, str]] = {
    "Count": "the number of values", "Sum": "the sum", "Average": "the average",
    "Min": "the least", "Max": "the greatest", "First": "the first", "Last": "the last",
}  # fmt: skip


def measured(wire: Mapping[str, Any]) -> Measure:
    """The measure of a trace or agent assertion in words.

    Args:
        wire: As a profile has it: `{"SpanCount": {"filter": …}}`.
    """
    tag: str
    fields: dict[str, Any]
    ((tag, fields),) = wire.items()
    if fields.get("name", "") is None and tag in _OF_ALL:
        fields = fields | {"name": phrase(_OF_ALL[tag])}
    if tag.startswith("Model") and fields.get("agent") is None:
        fields = fields | {"agent": phrase("all agents")}
    if tag == "ModelTokens":
        form = f"the number of {fields.get('part', 'total')} tokens of {{agent}}"
        return Measure(subject=phrase(form, agent=fields["agent"]))
    if tag == "AttributeFilter":
        return _each_attribute(fields)
    if tag == "SpanAggregation":
        form = f"{_AGGREGATED[fields['aggregation']]} of {{key}} on the spans {{spans}}"
        spans = _selected(fields["filter"])
        return Measure(subject=phrase(form, key=fields["attribute_key"], spans=spans))
    if tag == "GuardrailCount":
        form = "the number of checks by {name}"
        for name in ("verdict", "action"):
            form += f" with the {name} {{{name}}}" if fields.get(name) is not None else ""
        return Measure(subject=phrase(form, **fields))
    return Measure(
        subject=_shortened(_filled({**_TRACE, **_AGENT}, tag, fields)),
        denial=_shortened(_filled(_DENIALS, tag, fields)) if tag in _DENIALS else (),
        unit=" ms" if tag in ("SpanDuration", "TraceDuration") else "",
    )


def _each_attribute(fields: Mapping[str, Any]) -> Measure:
    ((kind, task),) = fields["task"].items()
    measure = at_path(task) if kind == "Assertion" else measured(task["assertion"])
    given = {
        "key": fields["key"],
        "inner": sentence(measure, task["operator"], task["expected_value"]),
    }
    spans = "each span that has" if fields["mode"] == "All" else "a span that has"
    form = f"in the attribute {{key}} of {spans} it, {{inner}}"
    return Measure(
        subject=phrase(form, **given), denial=phrase(f"it is not so that {form}", **given)
    )


def at_path(task: Mapping[str, Any]) -> Measure:
    """The value that an assertion reads, in words."""
    path, item = task.get("context_path"), task.get("item_context_path")
    whole = phrase("the whole value") if path is None else phrase("{path}", path=path)
    if item is None:
        return Measure(subject=whole)
    return Measure(subject=phrase("{item} of each item of {whole}", item=item, whole=whole))
