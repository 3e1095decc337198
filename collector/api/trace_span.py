"""One span of a trace with its values, cut for people, and one value alone."""

import json
import re
from typing import Annotated, Final

from fastapi import Path, Query, Response
from pydantic import JsonValue, TypeAdapter

from collector.api.halves import TraceId, read_stored
from collector.api.parameters import NOT_FOUND, Reader, api_router, json_response
from collector.api.parts import TheParts
from collector.api.traces import file_headers, results_of
from collector.problem import ProblemError
from collector.store.store import Store
from scouter.client.models.traces import CutText, SpanDetail
from scouter.evaluate.show.trace_view import SpanView, view_span
from scouter.evaluate.spans.tree import SpanTree

_BASE64: Final = re.compile(r"(data:[\w/+.;=-]{0,100},)?[A-Za-z0-9+/=_\r\n-]{256,}")
_LEVELS: Final = 64
"""Values inside values that are looked through; what is deeper stays as it is."""


def cut_texts(
    value: JsonValue, most: int, pointer: str = "", levels: int = _LEVELS
) -> tuple[JsonValue, list[CutText]]:
    """Cut every long text inside a value.

    Args:
        value: As JSON.
        most: Characters that are left of a text.
        pointer: To the value.
        levels: Values inside values that are looked through.

    Returns:
        The value with short texts, and what was cut, in the order of the value.

    Cost: linear in the number of values inside, not in the length of texts.
    """
    if isinstance(value, str):
        if len(value) <= most:
            return value, []
        is_binary = _BASE64.fullmatch(value[:4096]) is not None
        cut = CutText(pointer=pointer, characters=len(value), is_binary=is_binary)
        return "" if is_binary else value[:most], [cut]
    if not levels or not isinstance(value, dict | list):
        return value, []
    cuts: list[CutText] = []

    def part(key: str | int, each: JsonValue) -> JsonValue:
        short, found = cut_texts(each, most, f"{pointer}/{escaped(key)}", levels - 1)
        cuts.extend(found)
        return short

    if isinstance(value, dict):
        return {key: part(key, each) for key, each in value.items()}, cuts
    return [part(at, each) for at, each in enumerate(value)], cuts


def escaped(key: str | int) -> str:
    """A key as one step of a JSON pointer."""
    return str(key).replace("~", "~0").replace("/", "~1")


def value_at(value: JsonValue, pointer: str) -> JsonValue:
    """Follow a JSON pointer.

    Raises:
        LookupError: Nothing is there.
    """
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value[key]
        elif isinstance(value, list) and key.isdigit():
            value = value[int(key)]
        else:
            raise LookupError(pointer)
    return value


_SPAN: Final = TypeAdapter(SpanView)
_CUTS: Final = TypeAdapter(list[CutText])
_SpanId = Annotated[str, Path(description="16 hex digits.", max_length=16)]


router = api_router("/traces/{trace_id}/spans")


def _span_view(store: Store, space: str, trace_id: str, span_id: str) -> tuple[str, JsonValue]:
    for joined in (False, True):  # it may be one of a trace that belongs to it
        wanted, found = read_stored(store, space, trace_id, joined=joined)
        tree = SpanTree(found.spans)
        if span_id.lower() in tree.span_ids:
            at = tree.span_ids.index(span_id.lower())
            view = view_span(tree, at, results_of(found))
            return wanted, _SPAN.dump_python(view, mode="json")
    raise ProblemError(404, f"the trace {wanted} has no span {span_id!r} that is stored")


@router.get("/{span_id}", response_model=SpanDetail, responses=NOT_FOUND)
def span(
    parts: TheParts,
    caller: Reader,
    trace_id: TraceId,
    span_id: _SpanId,
    text_limit: Annotated[
        int | None,
        Query(
            ge=32,  # an id stays whole
            description="Characters that are left of each text; `cut` names the rest.",
        ),
    ] = None,
) -> Response:
    """One span with its values, messages and the results that are about it."""
    wanted, view = _span_view(parts.store, caller.space, trace_id, span_id)
    cuts: list[CutText] = []
    if text_limit is not None:
        view, cuts = cut_texts(view, text_limit)
    shown = _CUTS.dump_python(cuts, mode="json")
    return json_response({"trace_id": wanted, "span": view, "cut": shown})


@router.get("/{span_id}/value", response_class=Response, responses=NOT_FOUND)
def value(
    parts: TheParts,
    caller: Reader,
    trace_id: TraceId,
    span_id: _SpanId,
    pointer: Annotated[
        str, Query(max_length=4096, description="JSON pointer (RFC 6901) into `span`.")
    ],
) -> Response:
    """One value of a span as a file: a text as it is, anything else as JSON."""
    _, view = _span_view(parts.store, caller.space, trace_id, span_id)
    try:
        found = value_at(view, pointer)
    except (LookupError, ValueError):
        raise ProblemError(404, f"pointer: the span has nothing at {pointer[:200]!r}") from None
    is_text = isinstance(found, str)
    text = found if is_text else json.dumps(found, ensure_ascii=False, indent=2)
    return Response(
        text.encode("utf-8", "replace"),
        media_type="text/plain" if is_text else "application/json",
        headers=file_headers(f"{span_id.lower()}.{'txt' if is_text else 'json'}"),
    )
