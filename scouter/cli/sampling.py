"""From a judge's outcomes to records for people to label: what `scouter judge sample` does."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from scouter.agent.calibration.drawn import draw, drawn_line, mixed
from scouter.agent.calibration.identity import judge_task
from scouter.cli.asking import connect
from scouter.cli.calibrating import judged_results
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.statistics.corrected_rate import JudgeCounts
from scouter.evaluate.tasks.judge import LLMJudgeTask


def draw_lines(
    source: str, profile: str, task_id: str | None, labels: int
) -> tuple[list[dict[str, JsonValue]], JudgeCounts]:
    """Draw records from a file of results or from a collector; see `_draw_from`."""
    found = AgentEvalProfile.from_file(profile)
    task = judge_task(found, task_id)
    if not source.startswith(("http://", "https://")):
        return _draw_from(Path(source), found, task, labels)
    with connect(source, None) as client:
        data = b"".join(client.label_file(found.alias, task.id, draw=labels))
    lines = [json.loads(line) for line in data.splitlines()]
    if not lines:
        raise ConfigError(f"{source}: the judge of {task.id!r} has decided no record yet")
    sizes = {each["stratum"]: each["size"] for each in lines}
    judged = sum(sizes.values())
    return lines, JudgeCounts(sizes.get("passed", judged if "all" in sizes else 0), judged)


def write_lines(path: Path, lines: Sequence[dict[str, JsonValue]]) -> None:
    """Write lines to be filled in; a context stands as JSON in a cell of CSV."""
    with path.open("x", encoding="utf-8", newline="") as file:
        if path.suffix != ".csv":
            file.writelines(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
            return
        names = list(dict.fromkeys(name for line in lines for name in line))
        rows = csv.DictWriter(file, names)
        rows.writeheader()
        for line in lines:
            cells = {
                name: value if value is None or isinstance(value, str | int) else json.dumps(value)
                for name, value in line.items()
            }
            rows.writerow(cells)


def _draw_from(
    results: Path, profile: AgentEvalProfile, task: LLMJudgeTask, labels: int
) -> tuple[list[dict[str, JsonValue]], JudgeCounts]:
    """Draw records from a file of results, and write the lines to be filled in.

    Returns:
        The lines, in an order that tells nothing, and the judge's outcomes on what was drawn from.

    Raises:
        ConfigError: The file is of another profile, or the judge decided none of its records.
    """
    outcomes: dict[str, bool] = {}
    lines: dict[str, dict[str, JsonValue]] = {}
    for record, result in judged_results(results, profile, task):
        if result.outcome in (Outcome.PASSED, Outcome.FAILED):
            asked = () if result.talk is None else result.talk.messages
            question: JsonValue = "\n\n".join(each["content"] for each in asked)
            outcomes[record.record_uid] = result.passed
            lines[record.record_uid] = {
                "question": question, "record_id": record.record_id, "task": task.id,
                "session": record.session_id,
            }  # fmt: skip
    if not outcomes:
        raise ConfigError(f"{results}: the judge of {task.id!r} decided none of its records")
    places = sorted(draw(outcomes)[:labels], key=mixed)
    found = [drawn_line(place, lines[place.uid]) for place in places]
    return found, JudgeCounts(sum(outcomes.values()), len(outcomes))
