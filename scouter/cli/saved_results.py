"""Two files with results, to be compared: of replays, or of records without one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from scouter.errors import ConfigError
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import EvalMetrics, ScenarioEvalResults
from scouter.evaluate.files.read import Document, parse_json, read_text
from scouter.evaluate.results.file import from_document
from scouter.evaluate.results.provenance import Provenance

RECORDS: Final = "records"
"""What the only alias of results without a replay is called."""


def load_both(baseline: Path, new: Path) -> tuple[ScenarioEvalResults, ScenarioEvalResults]:
    """Read two files of one kind: `ScenarioEvalResults.save`, or `EvalResults.model_dump_json`.

    Returns:
        Two replays; results without one are those of an alias of their own.

    Raises:
        FileFormatError: Names the file, and line and field where they are known.
        ConfigError: The files are of two kinds.
    """
    files = [parse_json(str(path), read_text(path)) for path in (baseline, new)]
    are_bare = [_is_bare(file) for file in files]
    if are_bare[0] != are_bare[1]:
        bare, replay = (baseline, new) if are_bare[0] else (new, baseline)
        raise ConfigError(
            f"{bare} holds results of records and {replay} those of a replay; compare two files "
            "of one kind"
        )
    read = _replay_of_records if are_bare[0] else ScenarioEvalResults.from_document
    return read(files[0]), read(files[1])


def load_one(path: Path) -> ScenarioEvalResults:
    """Read one such file.

    Raises:
        FileFormatError: Names the file, and line and field where they are known.
    """
    file = parse_json(str(path), read_text(path))
    return _replay_of_records(file) if _is_bare(file) else ScenarioEvalResults.from_document(file)


def _is_bare(file: Document) -> bool:
    value = file.value
    return isinstance(value, Mapping) and isinstance(value.get("results"), list)


def _replay_of_records(file: Document) -> ScenarioEvalResults:
    found: EvalResults = from_document(file, EvalResults)
    return ScenarioEvalResults(
        dataset_results={RECORDS: found},
        scenario_results=(),
        metrics=EvalMetrics.of({RECORDS: found}, ()),
        provenance=found.provenance or Provenance(),
        repeats=max(found.attempts or (0,)) + 1,
    )
