"""Calibrations with counts that a test chooses."""

import datetime
from collections.abc import Iterator, Sequence

from scouter.agent.calibration.asking import JudgeOutcome
from scouter.agent.calibration.calibration import Calibration, Evidence, calibrate
from scouter.agent.calibration.identity import identify, judge_task
from scouter.agent.calibration.labels import Item, Label
from scouter.drift.profile import AgentEvalProfile

Counts = tuple[tuple[int, int], tuple[int, int]]
"""Rows: people pass, people fail; columns: the judge passes, the judge fails."""

NINE_OF_TEN: Counts = ((180, 20), (40, 160))
"""Sensitivity 0.9, specificity 0.8."""

GOLD = Label(uid="gold", label=True, order="gold")
"""Says that a record was chosen for what it is, blind to the judge."""


def calibration(
    profile: AgentEvalProfile,
    counts: Counts = NINE_OF_TEN,
    *,
    task_id: str | None = None,
    judge: str | None = "",
    at: datetime.datetime | None = None,
    uids: Sequence[str] = (),
    label: Label = GOLD,
) -> Calibration:
    """Make a calibration of a profile's judge task.

    Args:
        profile: Has the task.
        counts: Labels by people's decision and the judge's.
        task_id: The task, if there are several.
        judge: Who was asked.
        at: Time of the calibration.
        uids: Of the first labelled records.
        label: Says of all records how they were chosen.
    """
    found = list(_decided(counts))
    names = [*uids, *[""] * (len(found) - len(uids))]
    items = [
        Item(
            key=str(at), uid=uid, record_id="", context=None, votes=[good], raters={"ann"},
            blind_votes=[good], drawn=None if label.not_drawn else label,
            not_drawn=label.not_drawn,
        )
        for at, ((good, _), uid) in enumerate(zip(found, names, strict=True))
    ]  # fmt: skip
    evidence = Evidence(
        items=items,
        outcomes=[[JudgeOutcome(passed=passed)] for _, passed in found],
        labels=len(found),
    )
    identity = identify(profile, judge_task(profile, task_id), judge)
    when = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) if at is None else at
    return calibrate(identity, evidence, when)


def _decided(counts: Counts) -> Iterator[tuple[bool, bool]]:
    for good, row in zip((True, False), counts, strict=True):
        for passed, count in zip((True, False), row, strict=True):
            for _ in range(count):
                yield good, passed
