"""Faults of a value as one sentence: place, fault and expectation."""

import re
from ast import literal_eval
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias, cast, get_args, get_origin

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import ErrorDetails

Loc: TypeAlias = tuple[str | int, ...]

_QUOTED: Final = re.compile(r"'([^']*)'")
_OF_TASK: Final = re.compile(r"""task ('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"): (\w*)""")
_OF_PLACE: Final = re.compile(r"tasks\[(\d+)\]: (?:the (id) )?")


@dataclass(frozen=True, slots=True)
class ReadAs:
    """Says in a field's annotation as which type its values are read, where that loads later."""

    load: Callable[[], object]


def first_problem(error: ValidationError, model: object = None) -> tuple[Loc, str, str | None]:
    """Take the first problem of a validation apart: where, what, and what was expected.

    Args:
        error: From pydantic; one that a validator of ours caused is looked into.
        model: The type that was validated against, to name the fields there are.
    """
    details = _most_telling(error.errors())
    loc: Loc = details["loc"]
    cause = details.get("ctx", {}).get("error")
    if isinstance(cause, ValidationError):
        inner, problem, expected = first_problem(cause, _type_at(model, loc))
        return (*loc, *inner), problem, expected
    if isinstance(cause, ValueError):
        return loc, str(cause), None
    return _words(details, model)


def _most_telling(problems: Sequence[ErrorDetails]) -> ErrorDetails:
    """The first problem; of a field that is missing beside an unknown one, the unknown one.

    A misspelt name is both, and the name that was written is what a reader can find.
    """
    first = problems[0]
    if first["type"] != "missing":
        return first
    where = first["loc"][:-1]
    unknown = [
        other
        for other in problems
        if other["type"] == "extra_forbidden" and other["loc"][:-1] == where
    ]
    near = [other for other in unknown if _nearest(str(other["loc"][-1]), [str(first["loc"][-1])])]
    return near[0] if near else first


def _words(details: ErrorDetails, model: object) -> tuple[Loc, str, str | None]:
    loc, kind, message = details["loc"], details["type"], details["msg"]
    if kind == "missing":
        return loc, "the field is missing", "a value"
    if kind == "extra_forbidden":
        return loc, "unknown field", _known_fields(str(loc[-1]), _type_at(model, loc[:-1]))
    context = details.get("ctx", {})
    if kind == "too_short" and context.get("min_length") == 1:
        return loc, "it is empty", "at least one"
    if kind == "union_tag_invalid":
        tag = str(context.get("tag"))
        place = (*loc, *_QUOTED.findall(str(context.get("discriminator"))))
        return place, f"{short(tag)} does not fit", _one_of(tag, str(context["expected_tags"]))
    if kind == "union_tag_not_found":
        return loc, message, None
    if kind in {"enum", "literal_error"}:
        found = details["input"]
        return loc, f"{short(found)} does not fit", _one_of(found, str(context["expected"]))
    if message.startswith("Input should be "):
        wanted = message.removeprefix("Input should be ")
        return loc, f"{short(details['input'])} does not fit", wanted
    return loc, message, None


def _one_of(found: object, expected: str) -> str:
    """Name the nearest of the words first, if one is near."""
    words: list[str] = _QUOTED.findall(expected)
    near = _nearest(found, words)
    return _near_first(near, words, repr) if near else expected


def _near_first(near: str, words: Iterable[str], shown: Callable[[str], str] = str) -> str:
    others = ", ".join(shown(word) for word in words if word != near)
    return f"{near!r}, or another of {others}" if others else repr(near)


def _nearest(found: object, words: Iterable[str]) -> str | None:
    """The word that was probably meant, upper and lower case and underscores aside."""
    if not isinstance(found, str):
        return None
    plain = {word.lower().replace("_", ""): word for word in words}
    import difflib  # only mistakes need it

    near = difflib.get_close_matches(found.lower().replace("_", "")[:100], plain, n=1)
    return plain[near[0]] if near else None


def _known_fields(name: str, model: object) -> str:
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return "no such field here"
    fields = list(model.model_fields)
    near = _nearest(name, fields)
    return _near_first(near, fields) if near else f"one of {', '.join(fields)}"


def _type_at(annotation: object, loc: Sequence[str | int]) -> object:
    """Follow a pydantic location through types; None where that is not possible."""
    for part in loc:
        annotation = _child_type(annotation, part)
    return _bare(annotation)


def _bare(annotation: object) -> object:
    """Without `Annotated` and without the `None` of an optional field."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    options = [option for option in get_args(annotation) if option is not type(None)]
    if len(options) == 1 and type(None) in get_args(annotation):
        return _bare(options[0])
    return annotation


def _child_type(annotation: object, part: str | int) -> object:
    annotation = _bare(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        field = annotation.model_fields.get(str(part))
        if field is None:
            return None
        reported = (each.load() for each in field.metadata if isinstance(each, ReadAs))
        return next(reported, field.annotation)
    options = get_args(annotation)
    origin = get_origin(annotation)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return options[-1]
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return options[0]
    return next((option for option in options if _is_tagged(_bare(option), part)), None)


def _is_tagged(model: object, part: str | int) -> bool:
    """Tell whether a member of a union is the one that a location names by tag or by class."""
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return False
    tags = [
        tag
        for field in model.model_fields.values()
        if get_origin(field.annotation) is Literal
        for tag in get_args(field.annotation)
    ]
    return part in tags or part == model.__name__


def existing(value: JsonValue, loc: Loc) -> Loc:
    """Drop the parts of a pydantic location that name types and not keys.

    The last one stays where it may be a field that is missing.
    """
    found: list[str | int] = []
    node: Any = value
    for position, part in enumerate(loc):
        if isinstance(node, list) and isinstance(part, int) and part < len(cast(list[Any], node)):
            node = cast(list[Any], node)[part]
        elif isinstance(node, dict) and part in node:
            node = cast(dict[Any, Any], node)[part]
        elif position < len(loc) - 1 or _is_kind(cast(object, node), part):
            continue
        found.append(part)
    return tuple(found)


def _is_kind(node: object, part: str | int) -> bool:
    """Tell whether a part names what a task says it is."""
    return isinstance(node, dict) and cast(dict[Any, Any], node).get("task_type") == part


def value_at(value: JsonValue, loc: Loc) -> JsonValue:
    """The value at a place; None where there is none."""
    for part in loc:
        if isinstance(value, dict) and isinstance(part, str):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value


def place_of_task(value: JsonValue, loc: Loc, problem: str) -> Loc:
    """Find the task that a problem with a whole plan is about.

    A plan is checked when all its tasks have been read. So its errors name a task by its id or its
    index (`task 'x': depends_on names …`), not by its place in a file.

    Args:
        value: The document.
        loc: Place of the plan: a list of tasks, or an object with `tasks`.
        problem: The error's message.

    Returns:
        The task, or its field where the message begins with one; `loc` where it is not found.
    """
    inside = value_at(value, loc)
    if isinstance(inside, dict) and "tasks" in inside:
        loc, inside = (*loc, "tasks"), inside["tasks"]
    by_index, by_id = _OF_PLACE.search(problem), _OF_TASK.search(problem)
    if by_index and isinstance(inside, list) and int(by_index[1]) < len(inside):
        return _field_of(value, (*loc, int(by_index[1])), by_index[2] or "")
    if by_id:
        name = str(literal_eval(by_id[1]))
        for place, task in _tasks_in(inside, loc):
            found = task.get("id")
            if isinstance(found, str) and found.strip().lower() == name:
                return _field_of(value, place, by_id[2])
    return loc


def _tasks_in(value: JsonValue, loc: Loc) -> Iterable[tuple[Loc, dict[str, JsonValue]]]:
    """The tasks of a list, or of an object of lists by kind, with their places."""
    if isinstance(value, list):
        for index, task in enumerate(value):
            if isinstance(task, dict):
                yield (*loc, index), task
    elif isinstance(value, dict):
        for bucket, tasks in value.items():
            if isinstance(tasks, list):
                yield from _tasks_in(tasks, (*loc, bucket))


def _field_of(value: JsonValue, loc: Loc, name: str) -> Loc:
    task = value_at(value, loc)
    return (*loc, name) if isinstance(task, dict) and name and name in task else loc


def short(value: object, limit: int = 60) -> str:
    """A value as Python writes it, cut behind some characters."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
