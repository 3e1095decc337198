"""Scenarios: the question to an agent in a replay, and what is expected of it, as data."""

import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib import import_module
from operator import not_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    PlainValidator,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    model_serializer,
)

from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.compare.gates import Gates
from scouter.evaluate.files.field_errors import Loc
from scouter.evaluate.files.read import (
    Document,
    check_extension,
    dotted,
    read_document,
    read_json_lines,
)
from scouter.evaluate.tasks.task_list import TaskList, TasksByKind
from scouter.model.attributes import SCENARIO_ID_MAX_CHARS
from scouter.model.ids import uuid7

if TYPE_CHECKING:
    from scouter.evaluate.api.records import EvalResults
    from scouter.evaluate.api.replay import EvalMetrics, ScenarioEvalResults, ScenarioResult
    from scouter.evaluate.engine.plan import Plan
    from scouter.evaluate.tasks.task import Task, TasksFile

    DatasetResults = dict[str, EvalResults]
    ScenarioResults = tuple[ScenarioResult, ...]
else:  # loaded with the first results that there are

    def _of_results(name: str) -> object:
        """A field that is read and written as a type of the results, which load with the first."""

        @cache
        def adapter() -> TypeAdapter[Any]:
            return TypeAdapter(getattr(import_module("scouter.evaluate.api.replay"), name))

        def read(value: object) -> object:
            return adapter().validate_python(value)

        def write(value: object, info: SerializationInfo) -> object:
            return adapter().dump_python(value, mode="json" if info.mode_is_json() else "python")

        return Annotated[Any, PlainValidator(read), PlainSerializer(write)]

    DatasetResults, EvalMetrics, ScenarioResults = map(
        _of_results, ("DatasetResults", "EvalMetrics", "ScenarioResults")
    )

MAX_SCENARIOS: Final = 1_000_000

_EXTENSIONS: Final = (".jsonl", ".json", ".yaml", ".yml")
_RUN_RESULTS: Final = frozenset({"dataset_results", "scenario_results", "metrics"})
"""Keys that the original's dump of an evaluated collection carries beside its scenarios."""
_SHAPES: Final = "a list of scenarios, or an object with the key 'scenarios'"
_NOT_IN_ID: Final = {"id", "tasks", "tags", "required", "unreviewed", "expected_trajectory"}
"""Fields without a part in a made id: a run is compared with one before the scenario was tagged."""
_NO_CONTENT: Final = {"id", "tasks", "tags", "required", "unreviewed"}
_UNSET: Final = cast(Any, ...)

Tag: TypeAlias = Annotated[str, Field(min_length=1, max_length=128)]
"""A group of scenarios, such as `refunds`; case matters."""


def _is_none(value: object) -> bool:
    return value is None


def _read_list(value: object) -> object:
    return [] if value is None else value


class EvalScenario(TasksByKind, BaseModel):
    """One scenario: a first query, the course of the conversation, and the demands on its end.

    The tasks read `{response, expected_outcome, metadata, turns}`, where `response` is the agent's
    last answer and `turns` are all exchanges, and the spans of the scenario.

    Args:
        initial_query: The first message to the agent.
        tasks: Evaluated once, at the end; a list of tasks, a `TasksFile`, or their wire form.
        id: Stable name; comparisons between runs match scenarios by it. By default a uuid that
            is made from all the other fields, so that the same content has the same id.
        expected_outcome: A good end; `${expected_outcome}` in tasks.
        predefined_turns: Messages that follow the first one, after any answer of the agent.
        simulated_user_persona: Role of the simulated user; makes the scenario interactive.
        termination_signal: The text by which the simulated user ends the conversation; makes the
            scenario interactive.
        max_turns: Most agent turns of an interactive scenario, at least 1.
        metadata: Anything; tasks can read it, the replay does not.
        tags: Groups that the scenario belongs to; gates can name them. No part of a made id.
        required: True stops a release where an attempt does not pass. No part of a made id.
        unreviewed: True says that a model made the scenario and no person has looked at it; a
            release check refuses it unless requested. No part of a made id.
        expected_trajectory: The calls of tools that a good run makes, as a `TrajectoryTask` reads
            them; in the context of tasks where it is given.

    Raises:
        ConfigError: The tasks do not form a plan.
        pydantic.ValidationError: A field has the wrong type, or there is no such field.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, ignored_types=(cached_property,), defer_build=True
    )

    id: str = Field(min_length=1, max_length=SCENARIO_ID_MAX_CHARS, default="")
    initial_query: str
    expected_outcome: str | None = None
    predefined_turns: Annotated[list[str], BeforeValidator(_read_list)] = Field(
        default_factory=list
    )
    simulated_user_persona: str | None = Field(default=None, min_length=1)
    termination_signal: str | None = Field(default=None, min_length=1)
    max_turns: int = Field(default=10, ge=1, le=10_000)
    tasks: TaskList = ()
    metadata: dict[str, JsonValue] | None = None
    tags: Annotated[list[Tag], BeforeValidator(_read_list)] = Field(
        default_factory=list, exclude_if=not_
    )
    required: bool = Field(default=False, exclude_if=False.__eq__)
    unreviewed: bool = Field(default=False, exclude_if=False.__eq__)
    expected_trajectory: list[JsonValue] | None = Field(default=None, exclude_if=_is_none)

    def __init__(
        self,
        initial_query: str = _UNSET,
        tasks: "Sequence[Task] | TasksFile | None" = None,
        id: str | None = None,
        expected_outcome: str | None = None,
        predefined_turns: Sequence[str] | None = None,
        simulated_user_persona: str | None = None,
        termination_signal: str | None = None,
        max_turns: int = 10,
        metadata: Mapping[str, JsonValue] | None = None,
        *,
        tags: Sequence[str] | None = None,
        required: bool = False,
        unreviewed: bool = False,
        expected_trajectory: Sequence[JsonValue] | None = None,
        **unknown: object,
    ) -> None:
        data: dict[str, object] = {"tasks": tasks, "max_turns": max_turns, "required": required}
        data |= {"tags": tags, "unreviewed": unreviewed} | unknown
        if initial_query is not _UNSET:
            data["initial_query"] = initial_query
        if id is not None:
            data["id"] = id
        super().__init__(
            expected_outcome=expected_outcome,
            predefined_turns=predefined_turns,
            simulated_user_persona=simulated_user_persona,
            termination_signal=termination_signal,
            metadata=metadata,
            expected_trajectory=expected_trajectory,
            **data,
        )
        if not self.id:
            vars(self)["id"] = _id_of(self)  # the last step of making it; frozen from here on
        if self.tasks:
            _ = self.plan  # a scenario that cannot be evaluated is refused when it is made

    @cached_property
    def plan(self) -> "Plan":
        """The tasks, compiled once.

        Raises:
            ConfigError: There are none, or they do not form a plan.
        """
        from scouter.evaluate.engine.plan import compile_plan  # the engine, with all it needs

        try:
            plan = compile_plan(self.tasks)
        except ConfigError as error:
            raise ConfigError(f"scenario {self.id!r}: {error}") from error
        if plan.session is not None:
            raise ConfigError(
                f"scenario {self.id!r}: task {plan.session.tasks[0].id!r} has the scope session; a "
                "scenario's own tasks run once per attempt without one, only profiles have it"
            )
        return plan

    @property
    def content(self) -> dict[str, JsonValue]:
        """The question to the agent and what tasks can read, fields at their default left out."""
        return self.model_dump(mode="json", exclude=_NO_CONTENT, exclude_defaults=True)

    def is_interactive(self) -> bool:
        """Tell whether a simulated user drives the conversation."""
        return self.simulated_user_persona is not None or self.termination_signal is not None

    def is_multi_turn(self) -> bool:
        """Tell whether fixed messages follow the first one."""
        return bool(self.predefined_turns)

    def has_tasks(self) -> bool:
        """Tell whether the scenario itself is judged."""
        return bool(self.tasks)


class EvalScenarios(BaseModel):
    """The scenarios of one replay, with unique ids, and after a run its results.

    Scenarios without an id of their own and with equal content get `-2`, `-3` … behind theirs.

    Args:
        scenarios: In the order in which they run.
        collection_id: Name of the collection across runs; can be set. By default a new uuid.
        gates: Pass rates that a run of these scenarios has to reach; see `check_gates`.

    Raises:
        ConfigError: Two scenarios have the same id.
    """

    model_config = ConfigDict(extra="forbid", validate_assignment=True, defer_build=True)

    collection_id: str = Field(min_length=1, default_factory=uuid7)
    scenarios: tuple[EvalScenario, ...] = Field(max_length=MAX_SCENARIOS, frozen=True)
    gates: Gates | None = Field(default=None, frozen=True)
    dataset_results: DatasetResults = {}
    """Per alias, the results of the last run; empty before the first."""
    scenario_results: ScenarioResults = ()
    """Results of the scenarios' attempts in the last run; empty before the first."""
    metrics: EvalMetrics | None = None
    """The last run in a few numbers; None before the first."""

    def __init__(
        self,
        scenarios: Sequence[EvalScenario] = _UNSET,
        collection_id: str | None = None,
        gates: Gates | None = None,
        **unknown: object,
    ) -> None:
        named: dict[str, object] = {} if gates is None else {"gates": gates}
        if scenarios is not _UNSET:  # pydantic tells of a missing field
            named["scenarios"] = scenarios
        if collection_id is not None:
            named["collection_id"] = collection_id
        super().__init__(**named, **unknown)
        vars(self)["scenarios"] = _numbered(self.scenarios)
        seen: set[str] = set()
        for scenario in self.scenarios:
            if scenario.id in seen:
                raise ConfigError(f"two scenarios have the id {scenario.id!r}; ids are unique")
            seen.add(scenario.id)

    @classmethod
    def from_path(cls, path: str | Path) -> "EvalScenarios":
        """Read scenarios from a `.jsonl`, `.json`, `.yaml` or `.yml` file.

        JSON lines hold one scenario per line; a `collection_id` in them is ignored. JSON and YAML
        hold a list of scenarios, or `{"collection_id": …, "gates": …, "scenarios": […]}`, which is
        also what `model_dump_json()` writes.

        Raises:
            FileFormatError: Names the file, the line, the field and what was expected.

        Cost: linear in the size of the file.
        """
        if check_extension(path, _EXTENSIONS) == ".jsonl":
            places, collection_id, gates = _line_places(path), None, None
        else:
            places, collection_id, gates = _document_places(path)
        from scouter.evaluate.tasks.base import prompts_beside

        with prompts_beside(path):
            scenarios = _read_scenarios(places)
        return cls(scenarios=scenarios, collection_id=collection_id, gates=gates)

    def is_evaluated(self) -> bool:
        """Tell whether the collection holds the results of a run."""
        return self.metrics is not None

    def keep_results(self, results: "ScenarioEvalResults") -> None:
        """Hold the results of a run, in place of those of an earlier one."""
        self.dataset_results = results.dataset_results
        self.scenario_results = results.scenario_results
        self.metrics = results.metrics

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave results out where there are none."""
        fields = cast("dict[str, Any]", write(self))
        if not self.is_evaluated():
            fields = {name: value for name, value in fields.items() if name not in _RUN_RESULTS}
        if self.gates is None:
            fields.pop("gates", None)
        return fields

    def __len__(self) -> int:
        return len(self.scenarios)

    def __iter__(self) -> Iterator[EvalScenario]:  # type: ignore[override]  # pydantic's own yields field pairs, which nobody needs here
        return iter(self.scenarios)

    def __getitem__(self, index: int) -> EvalScenario:
        return self.scenarios[index]


def _id_of(scenario: EvalScenario) -> str:
    """Make an id in the shape of a uuid from the content; equal content, equal id.

    Fields at their defaults are left out, so that a field of a later version changes no id.
    """
    from scouter.evaluate.tasks.task import tasks_digest

    content = scenario.model_dump(exclude=_NOT_IN_ID, exclude_defaults=True)
    text = json.dumps([content, tasks_digest(scenario.tasks)], sort_keys=True)
    digest = hashlib.sha256(text.encode("ascii")).digest()
    return str(uuid.UUID(bytes=digest[:16], version=5))  # 5: made from a name


def scenarios_digest(scenarios: Iterable[EvalScenario]) -> str:
    """Name the content of scenarios: everything that they say, in their order.

    Returns:
        64 hex digits.

    Cost: linear in their size.
    """
    sha = hashlib.sha256()
    for scenario in scenarios:
        text = json.dumps(scenario.model_dump(mode="json"), sort_keys=True)
        sha.update(text.encode("ascii") + b"\n")
    return sha.hexdigest()


def _numbered(scenarios: Sequence[EvalScenario]) -> tuple[EvalScenario, ...]:
    """Number the scenarios that share an id which nobody gave them."""
    seen: Counter[str] = Counter()
    found: list[EvalScenario] = []
    for scenario in scenarios:
        if "id" not in scenario.model_fields_set:
            seen[scenario.id] += 1
            if seen[scenario.id] > 1:
                name = f"{scenario.id}-{seen[scenario.id]}"
                scenario = scenario.model_copy(update={"id": name})
        found.append(scenario)
    return tuple(found)


def _line_places(path: str | Path) -> list[tuple[Document, Loc, JsonValue]]:
    places: list[tuple[Document, Loc, JsonValue]] = []
    for document in read_json_lines(path):
        value = document.value
        if isinstance(value, dict) and "collection_id" in value:
            value = {key: item for key, item in value.items() if key != "collection_id"}
            if not value:
                continue
        places.append((document, (), value))
    if not places:
        raise FileFormatError(str(path), "the file is empty", expected="one scenario per line")
    return places


def _document_places(
    path: str | Path,
) -> tuple[list[tuple[Document, Loc, JsonValue]], str | None, Gates | None]:
    document = read_document(path)
    value, prefix, collection_id, gates = document.value, (), None, None
    if isinstance(value, dict):
        if "scenarios" not in value:
            raise document.error(f"no 'scenarios' among {sorted(value)}", expected=_SHAPES)
        for key in value:
            if key not in {"scenarios", "collection_id", "gates", *_RUN_RESULTS}:
                raise document.error("unknown field", (key,), "collection_id, gates, scenarios")
        collection_id = value.get("collection_id")
        if collection_id is not None and not (isinstance(collection_id, str) and collection_id):
            raise document.error("not a name", ("collection_id",), "text")
        gates = _read_gates(document, value.get("gates"))
        value, prefix = value["scenarios"], ("scenarios",)
    if not isinstance(value, list):
        raise document.error("no list of scenarios", prefix, _SHAPES)
    if not value:
        raise document.error("there are no scenarios", prefix, "at least one")
    places: list[tuple[Document, Loc, JsonValue]] = [
        (document, (*prefix, index), item) for index, item in enumerate(value)
    ]
    return places, collection_id, gates


def _read_gates(document: Document, value: JsonValue) -> Gates | None:
    if value is None:
        return None
    try:
        return Gates.model_validate(value)
    except ValueError as error:
        raise document.wrap(error, ("gates",), Gates) from error


def _read_scenarios(
    places: Sequence[tuple[Document, Loc, JsonValue]],
) -> list[EvalScenario]:
    scenarios: list[EvalScenario] = []
    first: dict[str, str] = {}
    for document, loc, value in places:
        if not isinstance(value, dict):
            raise document.error(
                f"a {type(value).__name__} is no scenario", loc, "an object with 'initial_query'"
            )
        try:
            scenario = EvalScenario.model_validate(value)
        except ValueError as error:
            raise document.wrap(error, loc, EvalScenario) from error
        is_named = "id" in scenario.model_fields_set
        if is_named and scenario.id in first:
            raise document.error(
                f"the id {scenario.id!r} is already used {first[scenario.id]}",
                (*loc, "id"),
                "an id of its own for each scenario",
            )
        if is_named:
            line = document.line_of((*loc, "id"))
            first[scenario.id] = f"at {dotted(loc)}" if line is None else f"on line {line}"
        scenarios.append(scenario)
    return scenarios
