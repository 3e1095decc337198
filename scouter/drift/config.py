"""Settings of a profile besides its tasks, as ours and as the original system writes them.

A file of the original holds besides alias, config and tasks what follows from them (`task_ids`,
`workflow`, `scouter_version`, `config.drift_type`, `config.uid`), which is left out. How its server
is to alert is left out by `AgentAlertConfig`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scouter.alert.config import AgentAlertConfig
from scouter.evaluate.files.read import load_model
from scouter.evaluate.outcome import Outcome
from scouter.model.positional import by_position
from scouter.model.record import DriftType

if TYPE_CHECKING:
    from scouter.evaluate.api.replay import ScenarioEvalResults

_DERIVED: Final = ("scouter_version", "workflow", "task_ids")
MISSING: Final = "__missing__"
"""Name by which the original calls a space or name that was not given."""


def from_foreign(data: object) -> object:
    """Turn a profile of the original into the fields of ours; anything else stays as it is.

    Args:
        data: Content of a file.
    """
    if not isinstance(data, Mapping):
        return data
    profile = dict(cast("Mapping[str, object]", data))
    if not any(key in profile for key in _DERIVED):
        return profile
    for key in _DERIVED:
        profile.pop(key, None)
    config = profile.get("config")
    if isinstance(config, Mapping):
        profile["config"] = config_from_foreign(cast("Mapping[str, object]", config))
    return profile


def config_from_foreign(data: Mapping[str, object]) -> dict[str, object]:
    """Turn the config of a profile of the original into the fields of ours."""
    config = dict(data)
    config.pop("drift_type", None)
    config.pop("uid", None)
    version = config.get("version")
    for key, absent in (("space", MISSING), ("name", MISSING)):
        if config.get(key) == absent:
            del config[key]
    if version in (None, "0.0.0"):
        config.pop("version", None)
    return config


MARGIN: Final = 0.05
"""A saved run is no live traffic: where it is small, a rate is healthy so far below its own."""
_WHOLE: Final = ""
_PARTS: Final = 1_000

Rate = Annotated[float, Field(gt=0, le=1)]


class SavedRun(BaseModel):
    """Outcomes of a run that `scouter eval --save` stored.

    Args:
        name: The file's, for people.
        margin: How far below the run's own rate is still healthy, in [0, 1]; only of runs with
            fewer than 1,000 units.
        tasks: By task, and by the empty name for whole records: how many scenarios or single
            records had a mean outcome of so many thousandths, rounded down.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: str = Field(default="", max_length=256)
    margin: float = Field(default=MARGIN, ge=0, le=1)
    tasks: dict[str, dict[Annotated[int, Field(ge=0, le=_PARTS)], Annotated[int, Field(ge=1)]]]

    @staticmethod
    def of(
        results: "ScenarioEvalResults", alias: str, name: str = "", margin: float = MARGIN
    ) -> "SavedRun":
        """Count the outcomes of a run.

        Records of one scenario, or of one session where there is none, depend on each other, so
        they are one unit. Errors and skips are in none.

        Args:
            results: Of the run.
            alias: The one whose records are counted.
            name: Of the file.
            margin: See the class.

        Raises:
            KeyError: The run has no records of that alias.
        """
        rows = results.dataset_results[alias]
        scenarios = rows.scenario_ids or [None] * len(rows.records)
        counted = (
            (
                record.session_id if scenario is None else scenario,
                [(_WHOLE, record.outcome), *((t.task_id, t.outcome) for t in record.tasks)],
            )
            for record, scenario in zip(rows.records, scenarios, strict=True)
        )
        return SavedRun.of_units(counted, name, margin)

    @staticmethod
    def of_units(
        results: Iterable[tuple[str, Iterable[tuple[str, Outcome]]]], name: str, margin: float
    ) -> "SavedRun":
        """Count outcomes by unit.

        Args:
            results: Unit and outcomes by task; those of one unit depend on each other.
            name: Of the run, or of the time that they are of.
            margin: See the class.
        """
        units: defaultdict[str, defaultdict[str, list[bool]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for unit, named in results:
            for task, outcome in named:
                if outcome in (Outcome.PASSED, Outcome.FAILED):
                    units[task][unit].append(outcome is Outcome.PASSED)
        tasks = {task: _bins(of_task.values()) for task, of_task in units.items()}
        return SavedRun(name=name, margin=margin, tasks=tasks)


def _bins(units: Iterable[list[bool]]) -> dict[int, int]:
    found: defaultdict[int, int] = defaultdict(int)
    for outcomes in units:
        found[_PARTS * sum(outcomes) // len(outcomes)] += 1
    return dict(sorted(found.items()))


class Healthy(BaseModel):
    """Healthy rates that a profile states, besides those that a collector measures.

    Args:
        rates: Healthy pass rates by task, in (0, 1]; the empty name is the whole record.
        run: A saved run.
        version: A version of the agent that the others are compared with, such as the stable one
            of a canary, in place of the one before.
        margin: How far below a measured rate is still healthy, in [0, 1): of traffic whose rate
            goes up and down by itself. Stated rates and the saved run have none of it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    rates: Mapping[str, Rate] = Field(default_factory=dict)
    run: SavedRun | None = None
    version: str = Field(default="", max_length=256)
    margin: float = Field(default=0.0, ge=0, lt=1)

    def unknown_tasks(self, known: Iterable[str]) -> list[str]:
        """Names of tasks that are none of these, sorted."""
        named = {*self.rates, *(self.run.tasks if self.run else ())}
        return sorted(named - {_WHOLE, *known})


SLICES: Final = ("tag", "tool", "model")
"""Slices that are watched unless a profile says otherwise."""
AMOUNTS: Final = ("cost", "latency")
"""What is watched of a record beside its results, unless a profile says otherwise."""
_SLICE: Final = (
    "^(tag|tool|model|prompt|prompt_digest|tools_digest|response_model|fingerprint|version)( .+)?$"
    "|^attribute .+$"
)


_ORDER: Final = ("space", "name", "version", "sample_ratio", "alert_config")
"""The original's."""


class AgentEvalConfig(BaseModel):
    """Names, version and alert of a profile; none of it is part of the profile's digest.

    Args:
        space: Where the profile lives when a person files it; the collector's own space wins.
        name: The profile's name; its alias stands in where this is empty.
        version: A label for people; records are evaluated by the digest.
        alert_config: Condition at which people are notified.
        healthy: References of the collector's detectors, besides those that they measure.
        slices: Parts of the records with a series of their own, where they have enough traffic:
            `tag`, `tool` and `model` for each value, `tag tier` for each value of one key, `tool
            search` for one tool, `prompt` and other kinds of `scouter.model.genai.setup`,
            `attribute http.route` for each value that spans have of it.
        amounts: What is watched of a record beside its results: `cost`, `latency`; all of it by
            default. An empty list watches neither.
        sample_ratio: Share of the alias' records that a queue sends, in [0, 1], of those whose
            traces stay; all records of one trace are sent or none. Does not thin a replay.
        uid: The profile's identity; a profile fills it in, and what a file says is not taken over.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    space: str = Field(default="default", min_length=1, max_length=128)
    name: str = Field(default="", max_length=128)
    version: str = Field(default="0.1.0", max_length=64)
    alert_config: AgentAlertConfig = Field(default_factory=AgentAlertConfig)
    healthy: Healthy | None = Field(default=None, exclude_if=lambda value: value is None)
    slices: tuple[Annotated[str, Field(max_length=512, pattern=_SLICE)], ...] = Field(
        default=SLICES, max_length=50, exclude_if=lambda value: value == SLICES
    )
    amounts: tuple[Literal["cost", "latency"], ...] = Field(
        default=AMOUNTS, max_length=2, exclude_if=lambda value: value == AMOUNTS
    )
    sample_ratio: float = Field(default=1.0, ge=0.0, le=1.0)
    uid: str = Field(default="", max_length=128)

    if not TYPE_CHECKING:  # whoever checks types sees the fields

        def __init__(self, *args: object, **fields: object) -> None:
            super().__init__(**by_position(type(self), _ORDER, args, fields))

    @property
    def drift_type(self) -> DriftType:
        """The kind of thing that a profile watches: here always an agent."""
        return DriftType.Agent

    @classmethod
    def load_from_json_file(cls, path: str | Path) -> "AgentEvalConfig":
        """Read a config, ours or the original's, from a `.json`, `.yaml` or `.yml` file.

        Raises:
            FileFormatError: Names the file, and the line and field where known.
        """
        return cls(**dict(load_model(path, _ConfigFile)))


class _ConfigFile(AgentEvalConfig):
    """A config that is a file of its own, in which `drift_type` says that the original wrote it."""

    @model_validator(mode="before")
    @classmethod
    def _read_foreign(cls, data: object) -> object:
        if not isinstance(data, Mapping) or "drift_type" not in data:
            return cast("object", data)
        return config_from_foreign(cast("Mapping[str, object]", data))
