"""The healthy state of a profile's tasks, as somebody states it: what a collector holds them to."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from scouter.evaluate.outcome import Outcome

if TYPE_CHECKING:
    from scouter.evaluate.api.replay import ScenarioEvalResults

MARGIN: Final = 0.05
"""A saved run is no live traffic: where it is small, a rate is healthy so far below its own."""
_WHOLE: Final = ""
_PARTS: Final = 1_000

Rate = Annotated[float, Field(gt=0, le=1)]


class SavedRun(BaseModel):
    """Outcomes of a run that `scouter eval --save` kept.

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
        version: A version of the agent that the others are held against, such as the stable one
            of a canary, in place of the one before.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    rates: Mapping[str, Rate] = Field(default_factory=dict)
    run: SavedRun | None = None
    version: str = Field(default="", max_length=256)

    def unknown_tasks(self, known: Iterable[str]) -> list[str]:
        """Names of tasks that are none of these, sorted."""
        named = {*self.rates, *(self.run.tasks if self.run else ())}
        return sorted(named - {_WHOLE, *known})
