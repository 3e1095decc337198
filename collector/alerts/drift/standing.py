"""Standings: what the series of a task shows at one moment, alarm or none."""

import math
from dataclasses import dataclass

from collector.alerts.drift.alert import Figures
from collector.alerts.drift.tally import Tally
from scouter.drift.detect.baseline import ENOUGH
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.series.group import Group
from scouter.drift.series.series import COMPARABLE, FEWEST, Kind, Series, SeriesKey, SeriesState
from scouter.evaluate.intervals import wilson


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """See the module."""

    key: SeriesKey
    profile: AgentEvalProfile
    units: int
    """Conversations, and records without one."""
    records: int
    failed: int
    errored: int
    """Of a series of passes, the results that erred beside its records; of others 0."""
    before: Tally | None
    """Of a series of passes, the results under the version before."""
    rate: float
    """Rate of the last 500 to 1,000 units."""
    lower: float
    upper: float
    """Wilson interval (95 %) of that, good for one look; no alarm comes of it."""
    evidence: float
    """Evidence of a fall, as an e-value; the alarm is at 1 / alpha."""
    healthy: float | None
    """Mean of the first reference; None while nothing is known of a healthy time."""
    healthy_lower: float | None
    """Lower bound of that mean."""
    fall: Figures | None
    """The proven fall with the figures of now."""
    state: SeriesState
    words: str
    """The reference of the series, or the reason why it has none yet."""

    @staticmethod
    def of(series: Series, profile: AgentEvalProfile, group: Group) -> "Standing":
        """Look at a series of a group; nobody may feed it meanwhile."""
        task, is_pass = series.key.task, series.key.kind is Kind.PASS
        tally = Tally.of(group, task) if is_pass else None
        before = Tally.of(group.before, task) if is_pass and group.before else None
        units, total = series.recent
        lower, upper = wilson(math.floor(total), units)[0], wilson(math.ceil(total), units)[1]
        fall, known = series.fall(), [watch.reference.baseline for watch in series.watches]
        return Standing(
            key=series.key,
            profile=profile,
            units=series.units,
            records=series.records,
            failed=series.failed,
            errored=tally.errored if tally else 0,
            before=before,
            rate=total / units,
            lower=lower,
            upper=upper,
            evidence=series.evidence,
            healthy=known[0].mean if known else None,
            healthy_lower=known[0].lower if known else None,
            fall=None if fall is None else Figures.of(fall),
            state=series.state,
            words=_words(series, group.before),
        )


def _words(series: Series, before: Group | None) -> str:
    against = [watch.reference.sentence() for watch in series.watches]
    if series.state is SeriesState.NEVER_PASSED:
        against.append(
            f"nothing: none of its {series.records:,} records was good, so that nothing can be "
            "worse; it is watched once a thousand with good ones are learnt"
        )
    elif series.is_learning:
        against.append(f"still learning what is healthy: {_learnt(series)}")
    if series.awaits and before is not None:
        known = before.series.get((series.key.task, series.key.kind))
        units = 0 if known is None else known.sample.units
        against.append(
            f"from its first record on against version {before.agent.version or '(none)'}, once "
            f"that has {COMPARABLE} finished conversations; it has {units}"
        )
    return "; ".join(against)


def _learnt(series: Series) -> str:
    """Say how far a series has come with its own first results."""
    sample = series.sample
    if sample.records < ENOUGH:
        return f"{sample.records:,} of its first {ENOUGH:,} records"
    return f"{sample.units:,} of its first {FEWEST:,} conversations"
