"""History as a collector that runs has it."""

import datetime
from collections.abc import Iterator, Mapping

from pydantic import ValidationError

from scouter.client.client import ScouterClient
from scouter.drift.history.replay import KnownProfile, Mix, Period
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.series.observed import Observed, Place
from scouter.drift.series.series import Agent, SeriesKey
from scouter.drift.series.series_set import results_of
from scouter.evaluate.statistics.explained import Guilty, Origin

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


class HttpHistory:
    """Reads through the API; see `scouter.drift.history.replay.History`.

    Args:
        client: Asks the collector; its space is that of the token, and stays without a name.
    """

    def __init__(self, client: ScouterClient) -> None:
        self._client = client

    def profiles(self) -> Mapping[str, KnownProfile]:
        """Every version of every profile, by uid."""
        return {
            each.uid: KnownProfile.of(each.alias, each.profile_version, self._profile(each.uid))
            for each in self._client.profiles()
        }

    def _profile(self, uid: str) -> AgentEvalProfile | None:
        try:
            return AgentEvalProfile.model_validate(self._client.profile(uid).body)
        except ValidationError:
            return None  # of another version; the collector itself says so where it lists it

    def results(self, period: Period) -> Iterator[Observed]:
        """First final results, in the order of completion; backfills as if in their time."""
        found = self._client.drift_results(
            profile=period.profile, since=_text(period.since_ns), until=_text(period.until_ns)
        )
        for each in found:
            yield Observed(
                place=Place(each.seq, each.ordinal),
                space="",
                profile_uid=each.profile_uid,
                agent=Agent(each.service, each.environment, each.version),
                session=each.session_id,
                at_ns=_ns(each.at),
                created_ns=_ns(each.created_at),
                evaluation_id=each.evaluation_id,
                outcomes=tuple((one.task, one.outcome) for one in each.outcomes),
                numbers=tuple((one.task, one.number) for one in each.numbers),
                amounts=tuple((one.name, one.value) for one in each.amounts),
                traits=each.traits,
            )

    def explain(self, key: SeriesKey, since_ns: int) -> Origin | None:
        """Origin of a series' change at a moment."""
        found = self._client.drift_explanation(
            key.profile_uid, _text(since_ns), key.task, *results_of(key.agent)
        ).explanation
        if found is None:
            return None
        guilty = [
            Guilty(
                each.name, (each.before_passed, each.before_count),
                (each.after_passed, each.after_count),
            )
            for each in found.traits
            if each.is_named
        ]  # fmt: skip
        return Origin(sentence=found.sentence, guilty=guilty)

    def calls(self, mix: Mix, since_ns: int | None, until_ns: int | None) -> Mapping[str, int]:
        """Calls of a time by name."""
        found = self._client.genai_usage(mix.value, since=_text(since_ns), until=_text(until_ns))
        return {each.key or "": each.calls for each in found}


def _ns(at: datetime.datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND * 1_000


def _text(at_ns: int | None) -> str | None:
    if at_ns is None:
        return None
    return (_EPOCH + at_ns // 1_000 * _MICROSECOND).isoformat()
