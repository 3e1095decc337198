"""A profile: the tasks that one agent's records are judged by, as data."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, model_validator

from scouter.drift.config import MISSING, AgentEvalConfig, Healthy, from_foreign
from scouter.drift.watch import Watch
from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.files.read import read_document
from scouter.evaluate.tasks.score import ScoreRule
from scouter.evaluate.tasks.task_list import TaskList, TasksByKind
from scouter.model.agent_work import CallsToldBy
from scouter.model.record import DriftType, EvalRecord
from scouter.model.visible import did_you_mean, or_meant

if TYPE_CHECKING:
    from scouter.evaluate.engine.plan import Plan
    from scouter.evaluate.judge.port import AnyJudge
    from scouter.evaluate.results.rows import EvalResultSet
    from scouter.evaluate.tasks.task import Task, TasksFile
    from scouter.model.span import Span

_SUFFIXES: Final = (".yaml", ".yml", ".json")


def shipped_folder() -> Path:
    """The folder of ready-made profiles: inside the package when installed, else the checkout's."""
    package = Path(__file__).parents[1]
    installed = package / "shipped"
    return installed if installed.is_dir() else package.parent / "profiles"


def shipped_profiles() -> tuple[str, ...]:
    """Names of the ready-made profiles, sorted."""
    return tuple(sorted(path.stem for path in shipped_folder().glob("*.yaml")))


def find_profile(name_or_path: str | Path) -> Path:
    """Find a profile file by path, or a ready-made profile by its name.

    Raises:
        ConfigError: Neither exists; lists the ready-made names.
    """
    path = Path(name_or_path)
    if path.suffix in _SUFFIXES or path.is_file():
        if path.is_file():
            return path
        question = or_meant(str(path), map(str, _files_beside(path)))
        raise ConfigError(f"no profile file {str(path)!r}{question}")
    shipped = shipped_folder() / f"{path.name}.yaml"
    if path.name == str(name_or_path) and shipped.is_file():
        return shipped
    names = shipped_profiles()
    question = did_you_mean(str(path), [*names, *map(str, _files_beside(path))])
    raise ConfigError(
        f"no profile file or ready-made profile {str(path)!r}; "
        f"{question + ' ' if question else ''}there are: {', '.join(names)}"
    )


def _files_beside(path: Path) -> list[Path]:
    """Files of a folder that may be profiles, sorted."""
    try:
        return sorted(each for each in path.parent.iterdir() if each.suffix in _SUFFIXES)
    except OSError:
        return []


_SCORES: Final = TypeAdapter(dict[str, dict[str, ScoreRule]])
"""With their field around them, so that an error names the whole way."""
UNNAMED: Final = "default_genai_profile"
"""Alias of a profile that has neither alias nor name; what the original then calls it."""
_SCENARIOS: Final = "this is a file of scenarios and no profile"
_PROFILE: Final = "a profile, which has its tasks under `tasks`"


def _is_scenarios(value: JsonValue) -> bool:
    """Tell whether what is no profile has the form of scenarios: a collection, a list, or one."""
    if isinstance(value, list):
        return bool(value) and isinstance(value[0], dict) and "initial_query" in value[0]
    return isinstance(value, dict) and ("scenarios" in value or "initial_query" in value)


def _name_of(config: object) -> str:
    """The name in a config that may still be a file's content."""
    if isinstance(config, Mapping):
        name = cast(Mapping[str, object], config).get("name")
        return name if isinstance(name, str) and name != MISSING else ""
    return config.name if isinstance(config, AgentEvalConfig) else ""


def _with_scores(data: object) -> object:
    """Write the `scores` of a profile as tasks behind the others."""
    if not isinstance(data, Mapping):
        return data
    profile = dict(cast("Mapping[str, object]", data))
    if not profile.get("scores"):
        return profile
    from scouter.evaluate.tasks.task import task_items  # all kinds of tasks

    rules = _SCORES.validate_python({"scores": profile["scores"]})["scores"]
    tasks = () if profile.get("tasks") is None else task_items(profile["tasks"])
    profile["tasks"] = [*tasks, *(rule.task(name) for name, rule in rules.items())]
    return profile


class AgentEvalProfile(TasksByKind, BaseModel):
    """The tasks for one agent (or sub-agent), under the alias that its records are sent to.

    A profile never changes. Its identity is space, name and the digest of its tasks, so that two
    people who write the same tasks have the same profile, and a changed task makes another one.

    Args:
        tasks: The tasks, or a `TasksFile`. Ids are unique and dependencies form no cycle.
        config: Names, version and alert.
        alias: Its name in `span.add_queue_item(alias, …)`; the config's name if not given, and
            `UNNAMED` where there is neither.
        watch: Traces that are evaluated without a record; no part of the digest.
        scores: Scores of other evaluators and of people that are watched, by name. Each is written
            as a `Score` task, and its `healthy` level as one of `config.healthy.rates`.
        calls_told_by: Source of the agent's calls of tools, for all tasks that read spans and do
            not say it themselves: `spans`, `messages` or `nobody`.

    Raises:
        ConfigError: The tasks do not form a plan; names the task.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, ignored_types=(cached_property,), defer_build=True
    )

    alias: str = Field(min_length=1, max_length=128)
    description: str = Field(default="", max_length=10_000)
    config: AgentEvalConfig = Field(default_factory=AgentEvalConfig)
    calls_told_by: CallsToldBy | None = Field(default=None, exclude_if=lambda value: value is None)
    tasks: TaskList = Field(default=(), max_length=1_000)
    watch: Watch | None = Field(default=None, exclude_if=lambda watch: watch is None)
    scores: dict[str, ScoreRule] = Field(default_factory=dict, max_length=100, exclude=True)

    def __init__(
        self,
        tasks: "Sequence[Task] | TasksFile | None" = None,
        config: AgentEvalConfig | None = None,
        alias: str | None = None,
        watch: Watch | None = None,
        **data: object,
    ) -> None:
        config = AgentEvalConfig() if config is None else config
        alias = alias or _name_of(config) or UNNAMED
        super().__init__(tasks=tasks, config=config, alias=alias, watch=watch, **data)
        if self.calls_told_by is not None:
            from scouter.evaluate.tasks.task import with_calls_told_by  # all kinds of tasks

            reported = with_calls_told_by(self.tasks, self.calls_told_by)
            object.__setattr__(self, "tasks", reported)
        levels = {
            name.strip().lower(): rule.healthy
            for name, rule in self.scores.items()
            if rule.healthy is not None
        }
        if levels:
            healthy = self.config.healthy or Healthy()
            stated = healthy.model_copy(update={"rates": {**healthy.rates, **levels}})
            config = self.config.model_copy(update={"healthy": stated})
            object.__setattr__(self, "config", config)
        object.__setattr__(self, "scores", {})  # so that it equals what is read of its own JSON
        healthy = self.config.healthy
        unknown = [] if healthy is None else healthy.unknown_tasks(task.id for task in self.tasks)
        if unknown:
            raise ConfigError(
                f"profile {self.alias!r}: config.healthy names {', '.join(map(repr, unknown))}, "
                f"which no task is called; there are: {', '.join(task.id for task in self.tasks)}"
            )
        # Compiles the plan: a profile that cannot be compiled is refused when it is built.
        named = self.config.model_copy(update={"uid": self.uid})
        object.__setattr__(self, "config", named)

    @model_validator(mode="before")
    @classmethod
    def _read_foreign(cls, data: object) -> object:
        return _with_scores(from_foreign(data))

    @cached_property
    def plan(self) -> "Plan":
        """The tasks, compiled once."""
        from scouter.evaluate.engine.plan import compile_plan  # the engine, with all it needs

        try:
            return compile_plan(self.tasks)
        except ConfigError as error:
            raise ConfigError(f"profile {self.alias!r}: {error}") from error

    @property
    def digest(self) -> str:
        """64 hex digits over the tasks: the version that a record is judged by."""
        return self.plan.digest

    @property
    def is_named(self) -> bool:
        """False where nobody gave it an alias or a name; a queue needs one to send it records."""
        return self.alias != UNNAMED

    @property
    def drift_type(self) -> DriftType:
        """The kind of thing that it watches: here always an agent."""
        return DriftType.Agent

    @property
    def name(self) -> str:
        """The config's name, or the alias where that is empty."""
        return self.config.name or self.alias

    @property
    def space(self) -> str:
        """The config's space."""
        return self.config.space

    @property
    def version(self) -> str:
        """The config's version label."""
        return self.config.version

    @property
    def uid(self) -> str:
        """32 hex digits over space, name and digest: the profile's identity in one word."""
        identity = json.dumps([self.space, self.name, self.digest])
        return hashlib.sha256(identity.encode()).hexdigest()[:32]

    def has_assertions(self) -> bool:
        """Tell whether any task reads the context."""
        return bool(self.assertion_tasks)

    def has_llm_tasks(self) -> bool:
        """Tell whether any task asks a model."""
        return any(task.judge_prompt is not None for task in self.tasks)

    def has_trace_assertions(self) -> bool:
        """Tell whether any task reads spans."""
        return bool(self.trace_assertion_tasks)

    def has_agent_assertions(self) -> bool:
        """Tell whether any task reads tool calls and responses."""
        return bool(self.agent_assertion_tasks)

    @property
    def takes_marks(self) -> bool:
        """Tell whether a collector judges traces for the profile's mark on their spans alone.

        `active_profile`, `set_entity` and `eval_profiles=` mark spans. A profile with a `watch`
        takes marks, and one all of whose tasks read spans: any other task would look for a context
        that is not there.
        """
        return self.watch is not None or self.reads_nothing_else

    @cached_property
    def reads_nothing_else(self) -> bool:
        """True if every task reads spans, so that a record without a context can be judged."""
        from scouter.evaluate.engine.plan import needs_no_context  # the engine, with all it needs

        own = [task for task in self.tasks if task.scope != "score"]
        return bool(own) and all(map(needs_no_context, own))

    def get_execution_plan(self) -> "Plan":
        """The compiled tasks; `stages` are the ids in the order in which they are run."""
        return self.plan

    def print_execution_plan(self) -> None:
        """Print the stages and what each task waits for to the standard output."""
        from rich.console import Console  # left out of the import of profiles

        from scouter.evaluate.engine.plan import plan_text

        Console(soft_wrap=True, highlight=False, markup=False).print(plan_text(self.plan))

    def save_to_json(self, path: str | Path | None = None) -> Path:
        """Write the profile as JSON, to `{alias}.json` in the working folder by default.

        Returns:
            The file written.
        """
        target = Path(f"{self.alias}.json") if path is None else Path(path)
        target.write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")
        return target

    @classmethod
    def from_file(cls, path: str | Path) -> "AgentEvalProfile":
        """Read what `save_to_json` wrote, or the same as YAML.

        Args:
            path: The file, or the name of a ready-made profile such as `agent_health`.

        Raises:
            ConfigError: There is no such file and no ready-made profile of that name; or (then a
                FileFormatError) its content is wrong, with the line and the field where known.
        """
        file = find_profile(path)
        from scouter.evaluate.tasks.base import prompts_beside

        document = read_document(file)
        with prompts_beside(file):
            try:
                return cls.model_validate(document.value)
            except ValueError as error:
                if _is_scenarios(document.value):
                    raise FileFormatError(str(file), _SCENARIOS, expected=_PROFILE) from error
                raise document.wrap(error, model=cls) from error


class Drifter:
    """Judges records by a profile, as a collector would, without a queue or a collector.

    Args:
        judge: Answers the profile's judge tasks; see `EvalDataset.evaluate`.
    """

    def __init__(self, judge: "AnyJudge | None" = None) -> None:
        self._judge = judge

    def compute_drift(
        self,
        data: EvalRecord | Iterable[EvalRecord],
        drift_profile: AgentEvalProfile,
        spans: "Iterable[Span] | None" = None,
    ) -> "EvalResultSet":
        """Run the tasks of a profile over records.

        Args:
            data: One record, or some.
            drift_profile: The tasks.
            spans: Spans of the records' traces.

        Raises:
            TypeError: Something among the records is none.

        Cost: linear in records and spans.
        """
        from scouter.evaluate.dataset import EvalDataset  # the engine, with all it needs
        from scouter.evaluate.results.rows import EvalResultSet

        records = [data] if isinstance(data, EvalRecord) else data
        dataset = EvalDataset(records, drift_profile.tasks, spans)
        results = dataset.evaluate(judge=self._judge)
        return EvalResultSet(tuple(aligned.eval_set for aligned in results))
