"""Two files with results, to be compared: of replays, or of records without one."""

from pathlib import Path

from scouter.errors import ConfigError
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.api.saved import read_saved
from scouter.evaluate.files.read import parse_json, read_text


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
