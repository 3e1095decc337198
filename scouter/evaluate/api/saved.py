"""A file with results, of either kind: of a replay, or of records without one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from scouter.errors import ConfigError
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import EvalMetrics, ScenarioEvalResults
from scouter.evaluate.files.read import Document, parse_json, read_text
from scouter.evaluate.results.file import from_document
from scouter.evaluate.results.provenance import Provenance

RECORDS: Final = "records"
"""Alias of results without a replay."""


class SavedRun(NamedTuple):
    """Results that a file holds."""

    results: ScenarioEvalResults
    """Results without a replay are those of an alias of their own, `RECORDS`."""
    is_bare: bool
    """True of results without a replay."""


def read_saved(document: Document) -> SavedRun:
    """Read a file that `ScenarioEvalResults.save` or `EvalResults.save` wrote.

    Raises:
        FileFormatError: Names the file, and line and field where they are known.
    """
    value = document.value
    if not (isinstance(value, Mapping) and isinstance(value.get("results"), list)):
        return SavedRun(ScenarioEvalResults.from_document(document), is_bare=False)
    found: EvalResults = from_document(document, EvalResults)
    results = ScenarioEvalResults(
        dataset_results={RECORDS: found},
        scenario_results=(),
        metrics=EvalMetrics.of({RECORDS: found}, ()),
        provenance=_of_records(found.provenance or Provenance()),
        repeats=max(found.attempts or (0,)) + 1,
    )
    return SavedRun(results, is_bare=True)


def load_both(baseline: Path, new: Path) -> tuple[ScenarioEvalResults, ScenarioEvalResults]:
    """Read two files of one kind: `ScenarioEvalResults.save`, or `EvalResults.model_dump_json`.

    Returns:
        Two replays; results without one are those of an alias of their own.

    Raises:
        FileFormatError: Names the file, and line and field where they are known.
        ConfigError: The files are of two kinds.
    """
    before, after = (read_saved(parse_json(str(path), read_text(path))) for path in (baseline, new))
    if before.is_bare != after.is_bare:
        bare, replay = (baseline, new) if before.is_bare else (new, baseline)
        raise ConfigError(
            f"{bare} holds results of records and {replay} those of a replay; compare two files "
            "of one kind"
        )
    return before.results, after.results


def load_one(path: Path) -> ScenarioEvalResults:
    """Read one such file.

    Raises:
        FileFormatError: Names the file, and line and field where they are known.
    """
    return read_saved(parse_json(str(path), read_text(path))).results


def _of_records(found: Provenance) -> Provenance:
    """Say of the tasks of results without a replay that they are those of `RECORDS`."""
    return found.model_copy(
        update={
            name: {RECORDS if alias == "" else alias: value for alias, value in given.items()}
            for name, given in (
                ("profile_digests", found.profile_digests),
                ("profile_tasks", found.profile_tasks),
            )
        }
    )
