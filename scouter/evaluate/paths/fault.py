"""The message for a path that leads nowhere."""

from pydantic import JsonValue

from scouter.evaluate.operators.show import LIMIT, kind_of, show_names
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.paths.syntax import Segment, format_path, show_segment


def missing(text: str, node: JsonValue, segment: Segment, seen: tuple[Segment, ...]) -> TaskFault:
    """Tell the place where a path stopped, and the value there.

    Args:
        text: The path.
        node: The last value that was found.
        segment: The segment that this value lacks.
        seen: The segments that led to this value.
    """
    # A key of the record that `[*]` met may be as long as the record.
    way = tuple(each[:LIMIT] if isinstance(each, str) else each for each in seen)
    where = repr(format_path(way)) if seen else "the top level"
    return TaskFault(
        Reason.MISSING_PATH,
        f"path {text!r}: no {show_segment(segment)} at {where}; {_what_is_there(node)}",
    )


def _what_is_there(node: JsonValue) -> str:
    if isinstance(node, dict):
        if not node:
            return "the object there is empty"
        return f"the keys there are {show_names(node, len(node))}"
    if isinstance(node, list):
        if not node:
            return "the list there is empty"
        return f"there is a list of {len(node)}; use an index from 0 to {len(node) - 1}, or [*]"
    return f"there is {kind_of(node)}"
