"""References that somebody states, before anything was measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from scouter.drift.healthy import Healthy
from scouter.drift.series.reference import Reference, of_level, of_run
from scouter.drift.series.sample import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Standard:
    """One reference of one task: a level, or a saved run.

    Args:
        task: Empty for the whole record.
        level: A healthy pass rate, in (0, 1]; None for a run.
        name: Of the run.
        run: Its outcomes.
        margin: See `of_run`.
    """

    task: str
    level: float | None = None
    name: str = ""
    run: Sample | None = None
    margin: float = 0.0

    def reference(self, alpha: float) -> Reference:
        """The reference, with its share of the allowed chance."""
        if self.run is not None:
            return of_run(self.name, self.run, self.margin, alpha)
        assert self.level is not None  # noqa: S101 one of both is there
        return of_level(self.level, alpha)

    def to_json(self) -> dict[str, Any]:
        """All of it, for `from_json`."""
        return {
            "task": self.task, "level": self.level, "name": self.name, "margin": self.margin,
            "run": None if self.run is None else self.run.to_json(),
        }  # fmt: skip

    @staticmethod
    def from_json(state: dict[str, Any]) -> "Standard":
        """Read what `to_json` wrote."""
        run = None if state["run"] is None else Sample.from_json(state["run"])
        return Standard(
            task=state["task"], level=state["level"], name=state["name"], run=run,
            margin=state["margin"],
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """All that is stated about the tasks of one profile.

    Args:
        standards: In any order.
        version: The version that others are held against; empty for the one before.
    """

    standards: Sequence[Standard] = ()
    version: str = ""

    @staticmethod
    def of(healthy: Healthy | None, level: float | None = None) -> "Stated":
        """Take what a profile states.

        Args:
            healthy: References in the profile; None without any.
            level: Of whole records, where nothing else is said about them.
        """
        rates = {} if level is None else {"": level}
        if healthy is None:
            return Stated(standards=[Standard(task=t, level=rate) for t, rate in rates.items()])
        rates |= healthy.rates
        standards = [Standard(task=task, level=rate) for task, rate in rates.items()]
        run = healthy.run
        if run is not None:
            standards += [
                Standard(task=task, name=run.name, run=Sample(bins), margin=run.margin)
                for task, bins in run.tasks.items()
            ]
        return Stated(standards=standards, version=healthy.version)

    def of_task(self, task: str) -> list[Standard]:
        """The standards of one task."""
        return [each for each in self.standards if each.task == task]

    def to_json(self) -> dict[str, Any]:
        """All of it, for `from_json`."""
        return {"standards": [each.to_json() for each in self.standards], "version": self.version}

    @staticmethod
    def from_json(state: dict[str, Any]) -> "Stated":
        """Read what `to_json` wrote."""
        standards = [Standard.from_json(each) for each in state["standards"]]
        return Stated(standards=standards, version=state["version"])


NOTHING: Final = Stated()
"""Stated where nobody says anything."""
