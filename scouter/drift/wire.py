"""Profiles that came over the network: data from other people, taken with care.

Such a profile names no address, key, header or file. A judge is named by its provider, which is an
entry in the settings of the collector; settings of its model are taken from a list of harmless
ones. The cost of reading it and of evaluating by it is bounded by `WireLimits`. Expected
values, prompts and patterns are data, whatever is written in them: a field is refused for what it
means, never for its text.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from pydantic import JsonValue, ValidationError

from scouter.drift.config import from_foreign
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.wire_limits import WIRE_LIMITS, WireLimits
from scouter.drift.wire_tasks import TaskCosts, WireProfileError
from scouter.errors import ConfigError
from scouter.evaluate.files.field_errors import existing, first_problem
from scouter.evaluate.files.json_text import load_strictly
from scouter.evaluate.tasks.base import TaskBase
from scouter.evaluate.tasks.task import Task, parse_task, task_items
from scouter.model.json_value import plain_text

_NAMES: Final = ("alias", "name", "space", "version")


def read_wire_profile(body: bytes, limits: WireLimits = WIRE_LIMITS) -> AgentEvalProfile:
    """Read what `AgentEvalProfile.save_to_json` wrote, or the same as somebody else wrote it.

    Reads no file, opens no connection and runs no judge.

    Args:
        body: JSON as UTF-8.
        limits: How much it may hold and cost.

    Raises:
        WireProfileError: It is refused; names the task and the field where there is one.

    Cost: linear in the body; below a second for any body within the limits.
    """
    profile = from_foreign(_document(body, limits))
    if not isinstance(profile, Mapping):
        raise WireProfileError("expected an object, as AgentEvalProfile.save_to_json writes it")
    fields = dict(cast("Mapping[str, Any]", profile))
    costs = TaskCosts(limits)
    fields["tasks"] = _tasks(fields.get("tasks"), costs)
    try:
        built = AgentEvalProfile(**fields)
    except ValidationError as error:
        raise _problem(error, fields, AgentEvalProfile, "") from error
    except ConfigError as error:  # the tasks form no plan; its text names the task
        raise WireProfileError(str(error)) from error
    if built.watch is not None:
        costs.add_watch(built.watch)
    for name in _NAMES:
        if not str(getattr(built, name)).isprintable():
            raise WireProfileError("a name has no control characters", field=name)
    return built


def _document(body: bytes, limits: WireLimits) -> JsonValue:
    if len(body) > limits.body_bytes:
        raise WireProfileError(f"a profile has at most {limits.body_bytes:,} bytes")
    try:
        document = load_strictly(body.decode())
    except ValueError as error:
        raise WireProfileError(f"the body is not JSON: {str(error)[:200]}") from error
    except RecursionError as error:
        raise WireProfileError(f"more than {limits.depth} levels deep") from error
    _measure(document, limits)
    return document


def _measure(document: JsonValue, limits: WireLimits) -> None:
    """Look at the document as a whole, before anything in it is read."""
    count = variables = paths = depth = 0
    layer = [document]
    while layer:
        depth += 1
        if depth > limits.depth:
            raise WireProfileError(f"more than {limits.depth} levels deep")
        below: list[JsonValue] = []
        for value in layer:
            inside = _inside(value)
            count += len(inside)
            below += inside
            if isinstance(value, str):
                if plain_text(value) is not value:
                    raise WireProfileError("a text holds half a character (a lone surrogate)")
                pieces = value.split("${")[1:]
                variables += len(pieces)
                paths += sum(piece.lstrip().startswith("$") for piece in pieces)
        if count > limits.values:
            raise WireProfileError(f"more than {limits.values:,} values")
        layer = below
    if variables > limits.variables:
        raise WireProfileError(f"more than {limits.variables:,} variables `${{path}}`")
    if paths > limits.json_paths:
        raise WireProfileError(f"more than {limits.json_paths} JSONPaths in variables")


def _inside(value: JsonValue) -> list[JsonValue]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []


def _tasks(raw: object, costs: TaskCosts) -> list[TaskBase]:
    """Read and weigh every task; none is compiled before its weight is known."""
    try:
        items = task_items(raw)
    except ConfigError as error:
        raise WireProfileError(str(error), field="tasks") from error
    tasks: list[TaskBase] = []
    for at, item in enumerate(items):
        name = _id_of(item, at)
        costs.add_task(name)
        try:
            task = parse_task(item)
        except ValidationError as error:
            raise _problem(error, item, Task, name) from error
        except ConfigError as error:
            raise WireProfileError(str(error), name) from error
        costs.add(task)
        tasks.append(task)
    return tasks


def _id_of(item: object, at: int) -> str:
    given = cast("Mapping[str, object]", item).get("id")
    return given.strip().lower()[:256] if isinstance(given, str) and given else f"tasks[{at}]"


def _problem(error: ValidationError, value: object, model: object, task_id: str) -> Exception:
    loc, problem, expected = first_problem(error, model)
    field = ".".join(map(str, existing(cast(JsonValue, value), loc)))
    wanted = f"; expected {expected}" if expected else ""
    return WireProfileError(f"{problem}{wanted}", task_id, field)
