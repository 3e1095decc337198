"""Views of the detectors: states, results, slices, and the decision on a candidate."""

import time
from collections import defaultdict
from typing import Annotated, Final, Literal

from fastapi import Depends, Path, Query

from collector.api.comparison import explanation_of
from collector.api.parameters import (
    NOT_FOUND,
    Cursor,
    Limit,
    Profile,
    Profiler,
    Reader,
    Text,
    Time,
    answer_of,
    api_router,
    read_cursor,
    read_time,
    write_cursor,
)
from collector.api.parts import Parts, TheParts
from collector.items.times import time_at
from collector.problem import ProblemError, problems
from collector.store.decided import ChangeQuery, DecidedQuery, VersionQuery
from collector.worker.profiles import ProfileRegistry, RegisteredProfile
from scouter.client.models.alerts import Canary as CanaryAnswer
from scouter.client.models.alerts import (
    CanaryVersion,
    Difference,
    DriftAmount,
    DriftExplanation,
    DriftNumber,
    DriftOutcome,
    DriftResult,
)
from scouter.client.models.answer import Page
from scouter.drift.canary import ALPHA, MARGIN, Canary, Plan, Result, Version, decide
from scouter.drift.canary import version_of as put_together
from scouter.drift.series.observed import BEFORE_ALL, Observed, Place
from scouter.evaluate.statistics.explained import explain_results

_NAME: Final = 512


MOST: Final = 200_000
"""Results of each version that are read, the first ones; a fall of half a point is seen."""
_CONFLICT: Final = 409

VersionName = Annotated[str, Query(max_length=512, description="`service.version` of its spans.")]
Share = Annotated[float, Query(gt=0, lt=1)]


class _Wanted:
    """The parameters of all routes."""

    def __init__(
        self,
        stable: VersionName,
        candidate: VersionName,
        profile: Profile = None,
        task: Annotated[str, Query(max_length=512)] = "",
        service: Text = None,
        environment: Text = None,
        since: Time = None,
        margin: Share = MARGIN,
        alpha: Share = ALPHA,
        share: Annotated[
            float | None,
            Query(gt=0, lt=1, description="Of the conversations, planned for the candidate."),
        ] = None,
    ) -> None:
        self.profile, self.task, self.stable, self.candidate = profile, task, stable, candidate
        self.service, self.environment, self.since = service, environment, since
        self.plan = Plan(margin=margin, alpha=alpha, share=share)


Wanted = Annotated[_Wanted, Depends()]
Gate = Literal["promote", "roll_back"]


router = api_router()


@router.get("/drift/results", responses=NOT_FOUND)
def results(
    parts: TheParts,
    caller: Reader,
    profile: Profile = None,
    since: Time = None,
    until: Time = None,
    limit: Limit = 1000,
    cursor: Cursor = None,
) -> Page[DriftResult]:
    """First final results in the order of completion; detectors take them in that of creation.

    Each record is there once, as it was when no task of it waited for a judge any more. Times
    are those of evaluation.
    """
    behind, _ = read_cursor(cursor)
    query = DecidedQuery(
        space=caller.space,
        profile=profile,
        since_ns=read_time("since", since),
        until_ns=read_time("until", until),
    )
    slices = {
        each for known in parts.registry.all(caller.space) for each in known.profile.config.slices
    }
    found = parts.store.decided_after(
        Place(*behind) if behind else BEFORE_ALL, limit, query, slices=slices, prices=parts.prices
    )
    if not found and cursor is None:
        parts.names.check(caller.space, profile)
    has_more = len(found) == limit
    return Page[DriftResult](
        items=tuple(_result(each) for each in found),
        next_cursor=write_cursor(found[-1].place) if has_more else None,
    )


@router.get("/drift/explanation/{uid}")
def explanation(
    parts: TheParts,
    caller: Reader,
    uid: Annotated[str, Path(max_length=_NAME, description="Of one version of a profile.")],
    since: Time = None,
    task: Annotated[str, Query(max_length=_NAME, description="Empty for the record.")] = "",
    service: Text = None,
    environment: Text = None,
) -> DriftExplanation:
    """Origin of a series' change at a moment: other traffic, or another behaviour.

    At most 5,000 results on each side of it are looked at; without `since` there is no side
    before.
    """
    query = ChangeQuery(
        space=caller.space,
        profile_uid=uid,
        task=task,
        since_ns=read_time("since", since) or 0,
        service=service,
        environment=environment,
    )
    found = explain_results(*parts.store.results_around(query), is_open=False)
    return DriftExplanation(explanation=None if found is None else explanation_of(found))


@router.get("/canary", responses=NOT_FOUND)
def canary(parts: TheParts, caller: Reader, wanted: Wanted) -> CanaryAnswer:
    """Hold a candidate against the stable version: promote, hold or roll back."""
    return _answer(parts, caller.space, wanted)


# A caller with the scope `read` may send no body, so this route needs another scope.
@router.post("/canary/{decision}", responses={**NOT_FOUND, **problems(_CONFLICT)})
def gate(parts: TheParts, caller: Profiler, decision: Gate, wanted: Wanted) -> CanaryAnswer:
    """The same for a gate that knows yes and no: 200 if this is the decision, else 409."""
    found = _answer(parts, caller.space, wanted)
    if found.decision != decision:
        raise ProblemError(_CONFLICT, f"{found.decision}: {found.reason}")
    return found


def _result(each: Observed) -> DriftResult:
    return DriftResult(
        seq=each.place.seq, ordinal=each.place.ordinal, profile_uid=each.profile_uid,
        service=each.agent.service, environment=each.agent.environment,
        version=each.agent.version, session_id=each.session, at=time_at(each.at_ns),
        created_at=time_at(each.created_ns),
        evaluation_id=each.evaluation_id, is_backfill=each.is_backfill,
        outcomes=tuple(
            DriftOutcome(task=task, outcome=outcome) for task, outcome in each.outcomes
        ),
        numbers=tuple(DriftNumber(task=task, number=value) for task, value in each.numbers),
        amounts=tuple(DriftAmount(name=name, value=value) for name, value in each.amounts),
        traits=each.traits,
    )  # fmt: skip


def _profile(registry: ProfileRegistry, space: str, named: str | None) -> RegisteredProfile:
    """The profile whose results are compared: of an alias or a name its active version."""
    every = registry.all(space)
    if named is None:
        wanted = [each for each in every if each.is_active]
    else:
        wanted = [
            each
            for each in every
            if named in (each.uid, each.profile.digest)
            or (each.is_active and named in (each.profile.alias, each.profile.name))
        ]
    if len(wanted) == 1:
        return wanted[0]
    names = ", ".join(sorted(each.profile.alias for each in every if each.is_active)[:20])
    if named is None and wanted:
        raise ProblemError(400, f"profile: there are several, say which one: {names}")
    what = "no active profile" if named is None else f"no active profile {named[:100]!r}"
    raise ProblemError(404, f"profile: {what}; active are: {names or 'none'}")


def _answer(parts: Parts, space: str, wanted: _Wanted) -> CanaryAnswer:
    registered = _profile(parts.registry, space, wanted.profile)
    profile = registered.profile
    known = {task.id for task in profile.tasks}
    if wanted.task and wanted.task not in known:
        raise ProblemError(404, f"task: {wanted.task[:100]!r} is no task of {profile.alias!r}")
    if wanted.stable == wanted.candidate:
        raise ProblemError(400, "stable and candidate are the same version")
    query = VersionQuery(
        space=registered.space, profile_uid=registered.uid, stable=wanted.stable,
        candidate=wanted.candidate, service=wanted.service, environment=wanted.environment,
        task=wanted.task, since_ns=read_time("since", wanted.since),
    )  # fmt: skip
    by_version: defaultdict[str, list[Result]] = defaultdict(list)
    for version, result in parts.store.version_results(
        query, MOST + 1
    ):  # one more is the sign of a cut
        by_version[version].append(result)
    now_ns = time.time_ns()
    stable, candidate = (
        put_together(name, by_version[name], parts.pace, now_ns, MOST)
        for name in (wanted.stable, wanted.candidate)
    )
    found = decide(wanted.plan, stable, candidate)
    return _shown(found, registered, wanted.task)


def _shown(found: Canary, registered: RegisteredProfile, task: str) -> CanaryAnswer:
    return CanaryAnswer(
        decision=found.decision.value,
        reason=found.reason,
        profile=registered.profile.alias,
        profile_version=registered.profile.digest,
        task=task,
        stable=_version(found.stable),
        candidate=_version(found.candidate),
        pass_rate=answer_of(Difference, found.passes),
        decided_rate=answer_of(Difference, found.decided),
        result_rate=answer_of(Difference, found.answered),
        is_cut=found.is_cut,
        margin=found.plan.margin,
        alpha=found.plan.alpha,
        split_chance=found.split,
    )


def _version(version: Version) -> CanaryVersion:
    passes, decided, answered = version.passes, version.decided, version.answered
    return CanaryVersion(
        version=version.name,
        conversations=version.units,
        records=version.records,
        pass_rate=passes.mean if passes.size else None,
        error_rate=1 - decided.mean if decided.size else None,
        result_rate=answered.mean if answered.size else None,
    )
