"""The criteria beside an eval set of ADK: those that are computed here, and those that are not."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.files.field_errors import Loc
from scouter.evaluate.files.read import Document, read_document

FILES: Final = ("test_config.json", "eval_config.json")
"""Names of the file beside an eval set; the first that is there is read."""

RESPONSE_MATCH: Final = "response_match_score"
_TRAJECTORY: Final = "tool_trajectory_avg_score"
_MATCHES: Final = {
    "EXACT": "trajectory_exact_match", "0": "trajectory_exact_match",
    "IN_ORDER": "trajectory_in_order_match", "1": "trajectory_in_order_match",
    "ANY_ORDER": "trajectory_any_order_match", "2": "trajectory_any_order_match",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """What a file wants of every case.

    Args:
        path: The file.
        least: By metric, the least mean over the turns of each case.
        ignores_arguments: Whether trajectories are compared by the names of tools alone.
        left_out: Criteria that are not computed here, in words.
        notes: Settings that have no effect here.
    """

    path: Path
    least: Mapping[str, float] = field(default_factory=dict[str, float])
    ignores_arguments: bool = False
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_criteria(eval_set: str | Path) -> Criteria | None:
    """Read the criteria of an eval set.

    Args:
        eval_set: The eval set's file.

    Returns:
        None where no file of criteria stands beside it.

    Raises:
        FileFormatError: It has another form; names line and field.
    """
    folder = Path(eval_set).parent
    path = next((each for name in FILES if (each := folder / name).is_file()), None)
    if path is None:
        return None
    document = read_document(path)
    fields = document.value
    criteria = fields.get("criteria") if isinstance(fields, dict) else None
    if not isinstance(fields, dict) or not isinstance(criteria, dict):
        raise document.error("no criteria", expected='{"criteria": {name: threshold}}')
    least: dict[str, float] = {}
    left_out: list[str] = []
    ignores = False
    for name, value in criteria.items():
        loc = ("criteria", name)
        if name == RESPONSE_MATCH:
            least[RESPONSE_MATCH] = _threshold(document, value, loc)
        elif name == _TRAJECTORY:
            least[_match(document, value, loc)] = _threshold(document, value, loc)
            ignores = _get(value, "ignore_args", "ignoreArgs") is True
        else:
            left_out.append(f"criterion {name!r} of {path.name}")
    return Criteria(
        path=path,
        least=least,
        ignores_arguments=ignores,
        left_out=tuple(left_out),
        notes=tuple(_notes(fields, path)),
    )


def _notes(fields: Mapping[str, JsonValue], path: Path) -> Iterator[str]:
    for name in ("user_simulator_config", "userSimulatorConfig"):
        if fields.get(name):
            yield f"{path.name}: {name} has no effect here; --simulated-user plays the users"


def _threshold(document: Document, value: JsonValue, loc: Loc) -> float:
    found = value if not isinstance(value, dict) else value.get("threshold")
    if not isinstance(found, int | float) or isinstance(found, bool):
        raise document.error("no threshold", loc, "a number, or an object with threshold")
    return float(found)


def _match(document: Document, value: JsonValue, loc: Loc) -> str:
    found = _get(value, "match_type", "matchType")
    word = "EXACT" if found is None else str(found).upper().replace("-", "_").replace(" ", "_")
    if word not in _MATCHES:
        raise document.error(f"no match type {found!r}", loc, "EXACT, IN_ORDER or ANY_ORDER")
    return _MATCHES[word]


def _get(value: JsonValue, *names: str) -> JsonValue:
    fields = value if isinstance(value, dict) else {}
    return next((fields[name] for name in names if name in fields), None)
