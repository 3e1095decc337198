"""All results of one replay, as data: per alias, per scenario, and summed up."""

from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel, Field, JsonValue

from scouter.evaluate.files.versioned import Stored
from scouter.evaluate.results.attempt import Conversation, ScenarioAttempt
from scouter.evaluate.results.confirmation import Confirmation
from scouter.evaluate.results.file import JsonRows
from scouter.evaluate.results.judge_rate import JudgeRate
from scouter.evaluate.results.lost import Lost
from scouter.evaluate.results.metrics import RunMetrics
from scouter.evaluate.results.provenance import Provenance, Wire

CONTEXT_CHARACTERS: Final = 20_000
"""Characters of a context, as JSON, that results keep whole."""


class ScenarioInfo(BaseModel, frozen=True, extra="ignore"):
    """One scenario that was run, with tasks or without."""

    scenario_id: str
    initial_query: str
    tags: tuple[str, ...] = ()
    required: bool = False
    """True if an attempt at the scenario that does not pass stops a release."""
    required_tasks: tuple[str, ...] = ()
    """Ids of those of its own tasks that have to pass."""
    content: Wire | None = None
    """What the agent is asked and what its tasks can read; None where it is not known."""
    tasks: tuple[Wire, ...] | None = None
    """Its own tasks, so that a later run can tell which of them changed."""


class RunResults(Stored, frozen=True):
    """All results of one replay."""

    dataset_results: Mapping[str, JsonRows]
    """Per alias, one row for each record of any scenario and attempt."""
    scenario_results: tuple[ScenarioAttempt, ...]
    """One for each attempt of a scenario that has tasks of its own, or that raised; by scenario,
    then by attempt."""
    metrics: RunMetrics
    scenarios: tuple[ScenarioInfo, ...] = ()
    """Every scenario that was run."""
    conversations: tuple[Conversation, ...] = ()
    """One for each attempt that is not among the `scenario_results`."""
    provenance: Provenance = Provenance()
    repeats: int = 1
    """Number of attempts at each scenario, over all rounds."""
    planned: int = 0
    """Most first attempts at each scenario in a sequential run, which ends once its outcome is
    decided; else 0."""
    rounds: int = 1
    """Rounds in which the whole suite was asked: 1, or more where a fall had to be looked into."""
    is_unfinished: bool = False
    """True if attempts that the rule of the release check asked for were not made, as somebody
    pressed Ctrl-C or the budget was spent."""
    releases: int = 0
    """Releases that were compared with this baseline so far."""
    runs: int = 1
    """Runs whose attempts are here; several where a baseline keeps them all."""
    reasked: "RunResults | None" = None
    """Further attempts at single scenarios, behind the confirmations; they are in no rate and no
    count of these."""
    contexts: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    """The records' contexts by uid; one of more than `CONTEXT_CHARACTERS` is a text that is cut."""
    judge_rates: tuple[JudgeRate, ...] = ()
    """Pass rate of each judge task, with the correction that a calibration of its judge allows."""
    required_tasks: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    """Per alias, the ids of the tasks that have to pass; aliases without one are left out."""
    lost: tuple[Lost, ...] = ()
    """Records and spans that were captured, or should have been, and are in no result: by reason,
    with the way to mend it. A release check does not pass over them."""
    left_out: tuple[str, ...] = ()
    """Checks that the source of the cases asks for and that nobody ran, in words."""
    confirmations: tuple[Confirmation, ...] = ()
    """Scenarios that passed in the baseline, never passed here and were asked again alone."""

    def whole_context(self, record_uid: str) -> JsonValue:
        """Find the context of a record; None where it is not stored as a whole."""
        found = self.contexts.get(record_uid)
        is_cut = isinstance(found, str) and len(found) > CONTEXT_CHARACTERS - 2  # its quotes
        return None if is_cut else found

    @property
    def scenario_ids(self) -> list[str]:
        """Ids of every scenario that was run."""
        return [scenario.scenario_id for scenario in self.scenarios]
