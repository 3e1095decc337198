"""Calibrations with counts that a test chooses."""

import datetime
from collections.abc import Iterator, Sequence

from scouter.agent.calibration.asking import JudgeOutcome
from scouter.agent.calibration.calibration import Calibration, Evidence, calibrate
from scouter.agent.calibration.identity import identify, judge_task
from scouter.agent.calibration.labels import Item
from scouter.drift.profile import AgentEvalProfile

Counts = tuple[tuple[int, int], tuple[int, int]]
"""Rows: people pass, people fail; columns: the judge passes, the judge fails."""

NINE_OF_TEN: Counts = ((180, 20), (40, 160))
"""Sensitivity 0.9, specificity 0.8."""


def calibration(
    profile: AgentEvalProfile,
    counts: Counts = NINE_OF_TEN,
    *,
    task_id: str | None = None,
    judge: str | None = "",
    at: datetime.datetime | None = None,
    uids: Sequence[str] = (),
    record_ids: Sequence[str] = (),
) -> Calibration:
    """Make a calibration of a profile's judge task; the first labels have the uids or ids given."""
    found = list(_decided(counts))
    names = [*(("", uid) for uid in uids), *((name, "") for name in record_ids)]
    names += [("", "")] * (len(found) - len(names))
    items = [
        Item(key=str(at), uid=uid, record_id=name, context=None, votes=[good], raters={"ann"})
        for at, ((good, _), (name, uid)) in enumerate(zip(found, names, strict=True))
    ]
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
