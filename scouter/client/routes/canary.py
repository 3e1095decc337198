"""Routes of the decision on a candidate version."""

from typing import TypedDict, Unpack

from scouter.client.call import Call, Moment, QueryValue, get, post, query_of
from scouter.client.models.canary import Canary


class CanaryTerms(TypedDict, total=False):
    """Results that are compared, and the bounds of the decision."""

    profile: str | None
    task: str | None
    service: str | None
    environment: str | None
    since: Moment | None
    margin: float | None
    alpha: float | None
    share: float | None


def canary(stable: str, candidate: str, **terms: Unpack[CanaryTerms]) -> Call[Canary]:
    """Hold a candidate against the stable version: promote, hold or roll back.

    Args:
        stable: Its `service.version`.
        candidate: That of the candidate.
        profile: Alias, name, uid or digest; the only active one by default.
        task: The whole record by default.
        service: Any by default.
        environment: Any by default.
        since: The first result of the candidate by default.
        margin: Fall of the rate that is accepted, in (0, 1); 0.05 by default.
        alpha: Chance of either wrong decision, in (0, 1); 0.05 by default.
        share: Of the conversations, planned for the candidate, in (0, 1); not checked by default.
    """
    return get("/canary", Canary, query=_query(stable, candidate, terms))


def canary_gate(
    decision: str, stable: str, candidate: str, **terms: Unpack[CanaryTerms]
) -> Call[Canary]:
    """Ask whether this is the decision on a candidate; an error 409 says no. Needs profile.

    Args:
        decision: `promote` or `roll_back`.
        stable: As for `canary`, like the rest.
        candidate: Its `service.version`.
        profile: Alias, name, uid or digest.
        task: Its id.
        service: Its name.
        environment: Its name.
        since: Results from then on.
        margin: Fall of the rate that is accepted, in (0, 1).
        alpha: Chance of either wrong decision, in (0, 1).
        share: Of the conversations, planned for the candidate, in (0, 1).
    """
    query = _query(stable, candidate, terms)
    return post("/canary/{decision}", Canary, at={"decision": decision}, query=query)


def _query(stable: str, candidate: str, terms: CanaryTerms) -> dict[str, QueryValue]:
    query = {"stable": stable, "candidate": candidate, **query_of(CanaryTerms, terms)}
    for name in ("margin", "alpha", "share"):
        number = query[name]  # as a moment it would be taken for a time
        query[name] = None if number is None else repr(number)
    return query
