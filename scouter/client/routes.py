"""Every route of the API as a function: its parameters, and the call that they make.

Both clients have a method for each of these functions, with the same parameters. Where all of them
go into the query under their own names, `locals()` is the query.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from pydantic import JsonValue

from scouter.client import models
from scouter.client.call import (
    Call,
    Moment,
    PagedCall,
    QueryValue,
    Request,
    StreamCall,
    get,
    post,
    put,
    text_of,
)
from scouter.client.call import pages as _pages
from scouter.errors import ConfigError
from scouter.evaluate.outcome import Outcome

if TYPE_CHECKING:
    from scouter.drift.profile import AgentEvalProfile
    from scouter.evaluate.api.records import EvalResults
    from scouter.evaluate.api.replay import ScenarioEvalResults

UsageKey: TypeAlias = Literal[
    "model", "provider", "operation", "agent", "tool", "service", "conversation", "error"
]
ExportKind: TypeAlias = Literal["records", "evaluations", "task_results"]
ExportFormat: TypeAlias = Literal["jsonl", "csv"]
LabelOrder: TypeAlias = Literal["random", "failed", "uncertain", "disagrees"]
SpanStatus: TypeAlias = Literal["ok", "error", "unset"]

_PART_BYTES: Final = 4 * 2**20
"""Bytes of an export that the client holds in memory; a longer line is held alone."""
_COMMIT_S: Final = 90.0
"""Longest wait for one commit; the collector itself gives up after 60 s and says so."""
_PAGE_S: Final = 600.0
"""Longest wait for an order of several commits.

If the client gives up earlier, the collector goes on, and its answer is lost.
"""
_BACKUP_S: Final = 3600.0
"""As long as its machine needs to copy everything."""


# --- spans and traces ---


def spans(
    *,
    name: str | None = None,
    status: SpanStatus | None = None,
    min_duration_ms: float | None = None,
    service_name: str | None = None,
    service_version: str | None = None,
    environment: str | None = None,
    operation: str | None = None,
    provider: str | None = None,
    request_model: str | None = None,
    response_model: str | None = None,
    agent_name: str | None = None,
    tool_name: str | None = None,
    conversation_id: str | None = None,
    error_type: str | None = None,
    session_id: str | None = None,
    attributes: Mapping[str, str] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    limit: int | None = None,
) -> PagedCall[models.SpanItem]:
    """Spans, newest first, without their attributes.

    Args:
        name: Of the span.
        status: Of the span.
        min_duration_ms: Shortest duration.
        service_name: And the like: a promoted attribute has this value.
        service_version: See `service_name`.
        environment: See `service_name`.
        operation: See `service_name`.
        provider: See `service_name`.
        request_model: See `service_name`.
        response_model: See `service_name`.
        agent_name: See `service_name`.
        tool_name: See `service_name`.
        conversation_id: See `service_name`.
        error_type: See `service_name`.
        session_id: See `service_name`.
        attributes: Values of any other attributes; all of them. Longer ones than 256 bytes, key
            and value, are not searched, and refused.
        since: Started at this time or later.
        until: Started before this time.
        limit: Items per page, 1 to 1000; all pages are read, one after the other.
    """
    return _pages("/spans", models.SpanItem, _span_query(locals()))


def traces(
    *,
    name: str | None = None,
    status: SpanStatus | None = None,
    min_duration_ms: float | None = None,
    service_name: str | None = None,
    service_version: str | None = None,
    environment: str | None = None,
    operation: str | None = None,
    provider: str | None = None,
    request_model: str | None = None,
    response_model: str | None = None,
    agent_name: str | None = None,
    tool_name: str | None = None,
    conversation_id: str | None = None,
    error_type: str | None = None,
    session_id: str | None = None,
    attributes: Mapping[str, str] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    limit: int | None = None,
) -> PagedCall[models.TraceItem]:
    """Traces that have a span with all of these properties, newest first; see `spans`."""
    return _pages("/traces", models.TraceItem, _span_query(locals()))


def trace_facets(
    *,
    name: str | None = None,
    status: SpanStatus | None = None,
    min_duration_ms: float | None = None,
    service_name: str | None = None,
    service_version: str | None = None,
    environment: str | None = None,
    operation: str | None = None,
    provider: str | None = None,
    request_model: str | None = None,
    response_model: str | None = None,
    agent_name: str | None = None,
    tool_name: str | None = None,
    conversation_id: str | None = None,
    error_type: str | None = None,
    session_id: str | None = None,
    attributes: Mapping[str, str] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
) -> Call[models.FacetList]:
    """Traces by status, service, agent, tool, model and error of the spans that match; see `spans`.

    The newest are counted first, for about 0.3 s.
    """
    return get("/facets/traces", models.FacetList, query=_span_query(locals()))


def _span_query(given: Mapping[str, object]) -> dict[str, QueryValue]:
    query = cast("dict[str, QueryValue]", dict(given))
    query["attribute"] = _pairs(cast("Mapping[str, str] | None", query.pop("attributes")))
    return query


def _pairs(given: Mapping[str, str] | None) -> list[str] | None:
    return [f"{key}={value}" for key, value in (given or {}).items()] or None


def trace(trace_id: str) -> Call[models.Trace]:
    """One trace with all its spans and the evaluations on it.

    Args:
        trace_id: 32 hex digits.
    """
    return get("/traces/{trace_id}", models.Trace, at={"trace_id": trace_id})


def trace_view(trace_id: str, *, limit: int | None = None) -> Call[models.TraceTree]:
    """One trace as people read it: a tree with values, and results beside their spans.

    Args:
        trace_id: 32 hex digits.
        limit: Most spans, 1 to 1000.
    """
    return get(
        "/traces/{trace_id}/view",
        models.TraceTree,
        at={"trace_id": trace_id},
        query={"limit": limit},
    )


def genai_usage(
    group_by: UsageKey = "model",
    *,
    bucket: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    limit: int | None = None,
) -> PagedCall[models.GenAIUsage]:
    """Calls, tokens, cost and durations, by model or whatever else is asked for.

    That with the most calls comes first; with buckets, their order counts before.

    Args:
        group_by: What has a line of its own.
        bucket: Minutes, hours or days such as `1h`, each of which has lines of its own.
        since: Started at this time or later.
        until: Started before this time.
        limit: Items per page, 1 to 1000; all pages are read, one after the other.
    """
    return _pages("/genai/usage", models.GenAIUsage, dict(locals()))


# --- results ---


def evaluations(
    *,
    profile: str | None = None,
    record_id: str | None = None,
    session_id: str | None = None,
    trace_id: str | None = None,
    outcome: Outcome | str | None = None,
    task_id: str | None = None,
    task_outcome: Outcome | str | None = None,
    service_name: str | None = None,
    service_version: str | None = None,
    environment: str | None = None,
    tags: Mapping[str, str] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    limit: int | None = None,
) -> PagedCall[models.Evaluation]:
    """Evaluations, newest first; each record and each session once, in its latest revision.

    Args:
        profile: Alias, name, uid or digest.
        record_id: The user's name for a record.
        session_id: Of the record.
        trace_id: Of the record.
        outcome: Of the record.
        task_id: Evaluations with this task.
        task_outcome: How that task, or any task, ended.
        service_name: Of the record's service.
        service_version: Of the record's service.
        environment: Of the record's service.
        tags: Of the record; all of them.
        since: Evaluated at this time or later.
        until: Evaluated before this time.
        limit: Items per page, 1 to 1000; all pages are read, one after the other.
    """
    query = dict(locals())
    query["tag"] = _pairs(query.pop("tags"))
    return _pages("/evaluations", models.Evaluation, query)


def evaluation_facets(
    *,
    profile: str | None = None,
    record_id: str | None = None,
    session_id: str | None = None,
    trace_id: str | None = None,
    outcome: Outcome | str | None = None,
    task_id: str | None = None,
    task_outcome: Outcome | str | None = None,
    service_name: str | None = None,
    service_version: str | None = None,
    environment: str | None = None,
    tags: Mapping[str, str] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
) -> Call[models.FacetList]:
    """Evaluations by outcome, profile, task, service, version, environment, tag; see `evaluations`.

    The newest are counted first, for about 0.3 s.
    """
    query = dict(locals())
    query["tag"] = _pairs(query.pop("tags"))
    return get("/facets/evaluations", models.FacetList, query=query)


def evaluation(evaluation_id: str) -> Call[models.Evaluation]:
    """One evaluation.

    Args:
        evaluation_id: As a list of evaluations has it.
    """
    path = "/evaluations/{evaluation_id}"
    return get(path, models.Evaluation, at={"evaluation_id": evaluation_id})


def tasks(
    *,
    profile: str | None = None,
    service_version: str | None = None,
    environment: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
) -> Call[models.TaskRates]:
    """Outcomes and pass rate of every task.

    Args:
        profile: Alias, name, uid or digest.
        service_version: Of the records' service.
        environment: Of the records' service.
        since: Evaluated at this time or later.
        until: Evaluated before this time.
    """
    return get("/tasks", models.TaskRates, query=dict(locals()))


def task_series(
    *,
    profile: str | None = None,
    task_id: str | None = None,
    service_version: str | None = None,
    environment: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    bucket: str | None = None,
) -> Call[models.TaskSeries]:
    """The same, in buckets of time.

    Args:
        profile: Alias, name, uid or digest.
        task_id: One task.
        service_version: Of the records' service.
        environment: Of the records' service.
        since: Evaluated at this time or later.
        until: Evaluated before this time.
        bucket: Length of a bucket in minutes, hours or days, such as `1h`.
    """
    return get("/tasks/series", models.TaskSeries, query=dict(locals()))


def task_distributions(
    profile: str,
    task_id: str,
    *,
    service_version: str | None = None,
    environment: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    split: Moment | None = None,
) -> Call[models.Distributions]:
    """Scores of a task and durations of its traces, of the newest 2,000 results.

    Args:
        profile: Alias, name, uid or digest.
        task_id: The task.
        service_version: Of the records' service.
        environment: Of the records' service.
        since: Evaluated at this time or later.
        until: Evaluated before this time.
        split: Results before this time are counted apart.
    """
    return get("/tasks/distributions", models.Distributions, query=dict(locals()))


def alerts() -> Call[models.Alerts]:
    """The alerts of profiles' own conditions, and those of the detectors."""
    return get("/alerts", models.Alerts)


def alert(alert_id: str) -> Call[models.DriftAlertLook]:
    """One alert of the detectors with examples and history.

    Args:
        alert_id: Its id.
    """
    return get("/alerts/{alert_id}", models.DriftAlertLook, at={"alert_id": alert_id})


def promote_alert(alert_id: str, note: str = "") -> Call[models.DriftAlert]:
    """Let an alert that is on trial fire, so that people are told. Needs the scope profile.

    Args:
        alert_id: Its id.
        note: Why, for others.
    """
    path, at = "/alerts/{alert_id}/promote", {"alert_id": alert_id}
    return post(path, models.DriftAlert, at=at, body={"note": note}, is_repeatable=False)


def acknowledge_alert(alert_id: str, note: str = "") -> Call[models.DriftAlert]:
    """Say that somebody looks after an open alert. Needs the scope profile.

    Args:
        alert_id: Its id.
        note: Why, for people.
    """
    path, at = "/alerts/{alert_id}/acknowledge", {"alert_id": alert_id}
    return post(path, models.DriftAlert, at=at, body={"note": note})


def silence_alert(alert_id: str, seconds: float, note: str = "") -> Call[models.DriftAlert]:
    """Tell nobody of an open alert for a while. Needs the scope profile.

    Args:
        alert_id: Its id.
        seconds: It fires again after so long.
        note: Why, for people.
    """
    path, at = "/alerts/{alert_id}/silence", {"alert_id": alert_id}
    return post(path, models.DriftAlert, at=at, body={"note": note, "seconds": seconds})


def resolve_alert(
    alert_id: str, note: str = "", *, accept: bool = False
) -> Call[models.DriftAlert]:
    """End an open alert; evidence is gathered anew from here on. Needs the scope profile.

    Args:
        alert_id: Its id.
        note: Why, for people.
        accept: Take what comes from now on for healthy; otherwise a fall that goes on alarms again.
    """
    path, at = "/alerts/{alert_id}/resolve", {"alert_id": alert_id}
    body: JsonValue = {"note": note, "accept": accept}
    return post(path, models.DriftAlert, at=at, body=body, is_repeatable=False)


def send_test_alert(
    channel: str | None = None, *, resolved: bool = False
) -> Call[models.TriedChannels]:
    """Send a test message to a channel of alerts, or to all. Needs the scope admin.

    Args:
        channel: Such as `slack`.
        resolved: Say that the test is over, which ends what the first message opened.
    """
    body: JsonValue = {"channel": channel, "resolved": resolved}
    return post("/alerts/test", models.TriedChannels, body=body, is_repeatable=False)


def drift_series() -> Call[models.DriftSeriesList]:
    """The standing of every task of every active profile, with its reference."""
    return get("/drift/series", models.DriftSeriesList)


def drift_results(
    *,
    profile: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    limit: int | None = None,
) -> PagedCall[models.DriftResult]:
    """First final results in the order of completion, as the detectors take them.

    Args:
        profile: Alias, name, uid or digest.
        since: Evaluated at this time or later.
        until: Evaluated before this time.
        limit: Items per page, 1 to 1000; all pages are read, one after the other.
    """
    return _pages("/drift/results", models.DriftResult, dict(locals()))


def drift_slices(uid: str, since: Moment | None = None, task: str = "") -> Call[models.DriftSlices]:
    """Passes and fails by tag, tool and model, before and since a moment.

    Args:
        uid: Of one version of a profile.
        since: The moment; without it no result is before.
        task: Empty for the whole record.
    """
    query: dict[str, QueryValue] = {"since": since, "task": task}
    return get("/drift/slices/{uid}", models.DriftSlices, at={"uid": uid}, query=query)


def canary(
    stable: str,
    candidate: str,
    *,
    profile: str | None = None,
    task: str | None = None,
    service: str | None = None,
    environment: str | None = None,
    since: Moment | None = None,
    margin: float | None = None,
    alpha: float | None = None,
    share: float | None = None,
) -> Call[models.Canary]:
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
    query: dict[str, QueryValue] = {
        "stable": stable, "candidate": candidate, "profile": profile, "task": task,
        "service": service, "environment": environment, "since": since,
        "margin": _text(margin), "alpha": _text(alpha), "share": _text(share),
    }  # fmt: skip
    return get("/canary", models.Canary, query=query)


def canary_gate(
    decision: str,
    stable: str,
    candidate: str,
    *,
    profile: str | None = None,
    task: str | None = None,
    service: str | None = None,
    environment: str | None = None,
    since: Moment | None = None,
    margin: float | None = None,
    alpha: float | None = None,
    share: float | None = None,
) -> Call[models.Canary]:
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
    query: dict[str, QueryValue] = {
        "stable": stable, "candidate": candidate, "profile": profile, "task": task,
        "service": service, "environment": environment, "since": since,
        "margin": _text(margin), "alpha": _text(alpha), "share": _text(share),
    }  # fmt: skip
    at = {"decision": decision}
    return post("/canary/{decision}", models.Canary, at=at, query=query)


def _text(number: float | None) -> str | None:
    """A number as it is; as a moment it would be taken for a time."""
    return None if number is None else repr(number)


# --- records and sessions ---


def records(
    *,
    profile: str | None = None,
    record_id: str | None = None,
    session_id: str | None = None,
    trace_id: str | None = None,
    state: str | None = None,
    text: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    limit: int | None = None,
) -> PagedCall[models.RecordItem]:
    """Records without their contexts, newest first.

    Args:
        profile: As the record names it.
        record_id: The user's name for a record.
        session_id: Of the record.
        trace_id: Of the record.
        state: One of `waiting evaluated skipped expired dead_lettered erased`.
        text: In a value or a name of the context, in upper or lower case. A page holds what one
            second of search finds.
        since: Accepted at this time or later.
        until: Accepted before this time.
        limit: Items per page, 1 to 1000; all pages are read, one after the other.
    """
    return _pages("/records", models.RecordItem, dict(locals()))


def record(uid: str) -> Call[models.Record]:
    """One record with its context and every revision of its evaluation.

    Args:
        uid: Its key.
    """
    return get("/records/{uid}", models.Record, at={"uid": uid})


def sessions(
    *,
    profile: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    limit: int | None = None,
) -> PagedCall[models.SessionItem]:
    """Sessions with a record that is asked for, the one with the newest such record first.

    Args:
        profile: Alias, name, uid or digest of that of a record.
        since: A record was accepted at this time or later.
        until: A record was accepted before this time.
        limit: Items per page, 1 to 1000; all pages are read, one after the other.
    """
    return _pages("/sessions", models.SessionItem, dict(locals()))


def record_scenario(uid: str) -> StreamCall:
    """A record as a scenario file in YAML, as `scouter scenarios harvest` writes it.

    Args:
        uid: Of the record.
    """
    return StreamCall(request=Request(method="GET", path="/scenarios/{uid}", places={"uid": uid}))


def trajectories(uid: str) -> Call[models.TaskTrajectories]:
    """The calls that the tasks on a record expect, beside those that were made.

    Args:
        uid: Of the record.
    """
    return get("/trajectories/{uid}", models.TaskTrajectories, at={"uid": uid})


def session(session_id: str) -> Call[models.Session]:
    """One session: its records, evaluations and traces.

    Args:
        session_id: Its id.
    """
    return get("/sessions/{session_id}", models.Session, at={"session_id": session_id})


def export(
    kind: ExportKind,
    format: ExportFormat = "jsonl",
    *,
    profile: str | None = None,
    record_id: str | None = None,
    session_id: str | None = None,
    trace_id: str | None = None,
    state: str | None = None,
    outcome: Outcome | str | None = None,
    task_id: str | None = None,
    task_outcome: Outcome | str | None = None,
    service_name: str | None = None,
    service_version: str | None = None,
    environment: str | None = None,
    tags: Mapping[str, str] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
) -> StreamCall:
    """Everything that is stored and matches, as the bytes of a file, part by part.

    Args:
        kind: What is exported; each record is there once, with its latest evaluation.
        format: One JSON object a line, or CSV with a header.
        profile: Alias, name, uid or digest.
        record_id: The user's name for a record.
        session_id: Of the record.
        trace_id: Of the record.
        state: Of records; other kinds have none.
        outcome: And what follows but the times: of evaluations and task results; see `evaluations`.
        task_id: See `outcome`.
        task_outcome: See `outcome`.
        service_name: See `outcome`.
        service_version: See `outcome`.
        environment: See `outcome`.
        tags: See `outcome`.
        since: From this time on.
        until: Before this time.

    Each part is a request of its own, so that a connection that breaks costs one of them. A part
    behind the first is asked for again for up to a minute, as after a restart of the collector.

    Raises:
        TransientError: The rest cannot be had; what came before is not the whole.
    """
    given = dict(locals())
    given["tag"] = _pairs(given.pop("tags"))
    del given["kind"]
    query: dict[str, QueryValue] = {**given, "part_bytes": _PART_BYTES}
    path = "/export/{kind}"
    return StreamCall(request=Request(method="GET", path=path, places={"kind": kind}, query=query))


# --- comparisons ---


def runs() -> PagedCall[models.RunItem]:
    """Results of offline runs that the collector keeps, the one that came last first."""
    return _pages("/runs", models.RunItem, {})


def push_run(
    results: "ScenarioEvalResults | EvalResults | Mapping[str, JsonValue]", name: str = ""
) -> Call[models.RunItem]:
    """Have the collector keep the results of a run, at most 32 MiB. Needs the scope ingest.

    Args:
        results: Of a replay or of records, or what their `save` writes.
        name: For people; by default agent and version, as far as the results tell.
    """
    query: dict[str, QueryValue] = {"name": name or None}
    body: dict[str, JsonValue] = (
        dict(results)
        if isinstance(results, Mapping)
        else cast("dict[str, JsonValue]", json.loads(results.model_dump_json()))
    )
    return post("/runs", models.RunItem, query=query, body=body, takes_s=_COMMIT_S)


def remove_run(run_id: str) -> Call[models.RemovedRun]:
    """Take a run out of the collector. Needs the scope admin.

    Args:
        run_id: As a list of runs has it.
    """
    return post("/runs/{run_id}/remove", models.RemovedRun, at={"run_id": run_id})


def versions(profile: str) -> Call[models.Versions]:
    """Versions of the service behind the newest evaluations of a profile, the newest first.

    Args:
        profile: Alias, name, uid or digest.
    """
    return get("/versions", models.Versions, query={"profile": profile})


def comparison(
    profile: str | None = None,
    *,
    before_version: str | None = None,
    before_since: Moment | None = None,
    before_until: Moment | None = None,
    before_run: str | None = None,
    version: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    run: str | None = None,
    environment: str | None = None,
    require_ruled_out: float | None = None,
    limit: int | None = None,
) -> Call[models.Comparison]:
    """Two versions, two periods, or an offline run and what is live, held against each other.

    Args:
        profile: Alias; needed where a side is live.
        before_version: Of the service, of the baseline.
        before_since: Evaluations of the baseline from this time on.
        before_until: Those before this time.
        before_run: The baseline is this run.
        version: Of the service, of the side in question; and so on.
        since: See `before_since`.
        until: See `before_until`.
        run: See `before_run`.
        environment: Of the live sides.
        require_ruled_out: Inconclusive where a fall of more points is not ruled out.
        limit: Newest records of each live side that are compared; 1,000 by default, at most 2,000.
    """
    return get("/comparison", models.Comparison, query=dict(locals()))


# --- labels ---


def labels(
    *,
    profile: str | None = None,
    task_id: str | None = None,
    rater: str | None = None,
    uid: str | None = None,
    limit: int | None = None,
) -> PagedCall[models.LabelItem]:
    """Labels of records, the newest first; the last one of each person, task and record.

    Args:
        profile: Alias.
        task_id: Of the task.
        rater: The person.
        uid: Of the record.
        limit: Items per page, 1 to 1000; all pages are read, one after the other.
    """
    return _pages("/labels", models.LabelItem, dict(locals()))


def label(
    uid: str, task_id: str, label: bool | None, rater: str, notes: str = ""
) -> Call[models.LabelItem]:
    """Say whether a record is good, as a task on it asks. Needs the scope label.

    Args:
        uid: Of the record.
        task_id: Of the task.
        label: Whether it is good; None takes an earlier label back.
        rater: The person.
        notes: For people.
    """
    return post("/labels", models.LabelItem, body=dict(locals()))


def label_queue(
    profile: str,
    task_id: str,
    *,
    rater: str = "",
    order: LabelOrder = "random",
    reveal: bool = False,
    offset: int | None = None,
    limit: int | None = None,
) -> Call[models.LabelQueue]:
    """Records that a person has not labelled, in order.

    Args:
        profile: Alias.
        task_id: Of the task.
        rater: The person.
        order: Which come first.
        reveal: Tell how the task ended, and what others said.
        offset: Records to pass over.
        limit: Records, 1 to 20; by default one.
    """
    return get("/labels/queue", models.LabelQueue, query=dict(locals()))


def label_agreement(profile: str, task_id: str) -> Call[models.LabelAgreement]:
    """Agreement of people with each other on a task, and of its judge with most of them.

    Args:
        profile: Alias.
        task_id: Of the task.
    """
    return get("/labels/agreement", models.LabelAgreement, query=dict(locals()))


def label_file(profile: str, task_id: str, *, contexts: bool | None = None) -> StreamCall:
    """Labels on a task as the lines that `scouter judge calibrate` reads.

    Args:
        profile: Alias.
        task_id: Of the task.
        contexts: With the records' contexts, as by default, so that a judge can be asked.
    """
    return StreamCall(request=Request(method="GET", path="/labels/file", query=dict(locals())))


# --- profiles ---


def profiles(*, alias: str | None = None, name: str | None = None) -> PagedCall[models.ProfileItem]:
    """Registered profiles, in all their versions.

    Args:
        alias: Of the profile.
        name: Of the profile.
    """
    return _pages("/profiles", models.ProfileItem, dict(locals()))


def profile(uid: str) -> Call[models.Profile]:
    """One profile with its content.

    Args:
        uid: Its identity, 32 hex digits.
    """
    return get("/profiles/{uid}", models.Profile, at={"uid": uid})


def register_profile(
    profile: "AgentEvalProfile | Mapping[str, JsonValue]",
    set_active: bool = False,
    deactivate_others: bool = False,
) -> Call[models.ProfileItem]:
    """Make a profile known, and have it judge if that is wanted. Needs the scope profile.

    Args:
        profile: A profile, or what its `save_to_json` writes.
        set_active: Whether it judges what comes in under its alias from now on. It does then
            instead of the version that did so far.
        deactivate_others: With `set_active` only, which does this anyway.

    Raises:
        ConfigError: Others are to be deactivated and this one is not to be active.
    """
    if deactivate_others and not set_active:
        raise ConfigError(
            "deactivate_others=True without set_active=True would leave the alias without a "
            "profile; call deactivate_profile(uid) if that is what you want"
        )
    query: dict[str, QueryValue] = {"activate": True if set_active else None}
    return post("/profiles", models.ProfileItem, query=query, body=_body_of(profile))


def activate_profile(uid: str) -> Call[models.ProfileItem]:
    """Have a profile judge what comes in under its alias from now on. Needs the scope profile.

    Args:
        uid: Its identity.
    """
    return post("/profiles/{uid}/activate", models.ProfileItem, at={"uid": uid})


def deactivate_profile(uid: str) -> Call[models.ProfileItem]:
    """Have a profile judge nothing more. Needs the scope profile.

    Args:
        uid: Its identity.
    """
    return post("/profiles/{uid}/deactivate", models.ProfileItem, at={"uid": uid})


def reevaluate(
    profile: "str | AgentEvalProfile | Mapping[str, JsonValue]",
    *,
    outcome: Outcome | str | None = None,
    session_id: str | None = None,
    trace_id: str | None = None,
    record_id: str | None = None,
    since: Moment | None = None,
    dry_run: bool = True,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[models.Reevaluation]:
    """Judge one page of stored records by a version of their profile. Needs the scope admin.

    Args:
        profile: Uid or digest of a registered version; by alias or name, the active one. Or a
            profile as `register_profile` takes it: it is not registered, so that it can only be
            reported on. That needs the scope profile, too.
        outcome: Only evaluations with this outcome.
        session_id: Of the record.
        trace_id: Of the record.
        record_id: The user's name for a record.
        since: Evaluated at this time or later.
        dry_run: Report only; False makes the new evaluations the next revisions.
        limit: Evaluations to look at, 1 to 500.
        cursor: `next_cursor` of the page before.
    """
    given = dict(locals())
    if not isinstance(profile, str):
        del given["profile"]
        given["profile_body"] = _body_of(profile)
    if since is not None:
        given["since"] = text_of("since", since)
    body: dict[str, JsonValue] = {name: value for name, value in given.items() if value is not None}
    return post(
        "/reevaluations", models.Reevaluation, body=body, is_repeatable=dry_run, takes_s=_PAGE_S
    )


def _body_of(profile: "AgentEvalProfile | Mapping[str, JsonValue]") -> dict[str, JsonValue]:
    if isinstance(profile, Mapping):
        return dict(profile)
    return cast("dict[str, JsonValue]", profile.model_dump(mode="json"))


# --- judges ---


def gold_judges() -> Call[models.GoldJudges]:
    """Read the agreement of judges with people on the collector's gold items.

    Gold items are in no other answer of the collector.
    """
    return get("/judges/gold", models.GoldJudges)


def judge_answer(key: str) -> Call[models.JudgeAnswer]:
    """Read the answer to a question that the collector's judges, or other clients, have asked.

    Args:
        key: The question's SHA-256 as hex digits; see `scouter.agent.cache.keys`.
    """
    return get("/judge-answers/{key}", models.JudgeAnswer, at={"key": key})


def keep_judge_answer(key: str, response: str, model: str = "") -> Call[models.KeptJudgeAnswer]:
    """Keep an answer for other clients of the same space. Needs the scope profile.

    Args:
        key: The question's SHA-256 as hex digits.
        response: The answer, written as JSON.
        model: The model that answered.
    """
    body: dict[str, JsonValue] = {"response": response, "model": model}
    return put("/judge-answers/{key}", models.KeptJudgeAnswer, at={"key": key}, body=body)


# --- operation ---


def conservation() -> Call[models.ConservationSheet]:
    """Every record and span that came in, and what became of it."""
    return get("/conservation", models.ConservationSheet)


def dead_letters(
    *, reason: str | None = None, kind: str | None = None, limit: int | None = None
) -> PagedCall[models.DeadLetter]:
    """List the data that the collector could not use, newest first.

    Args:
        reason: Why it could not be used, such as `invalid_span`.
        kind: Kind of data, such as `record` or `spans`.
        limit: Items per page, 1 to 1000; all pages are read, one after the other.
    """
    return _pages("/dead-letters", models.DeadLetter, dict(locals()))


def replay_letter(letter_id: str) -> Call[models.ReplayedLetter]:
    """Take one dead letter in again; one that is refused again stays. Needs the scope admin.

    Args:
        letter_id: As a list of letters has it.
    """
    path = "/dead-letters/{letter_id}/replay"
    at = {"letter_id": letter_id}
    return post(path, models.ReplayedLetter, at=at, is_repeatable=False, takes_s=_COMMIT_S)


def replay_letters(
    *,
    reason: str | None = None,
    kind: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[models.ReplayedLetters]:
    """Take one page of dead letters in again; go on with its `next_cursor`. Needs the scope admin.

    Args:
        reason: Such as `unknown_profile`.
        kind: What they are letters of.
        limit: Most letters, 1 to 1000.
        cursor: `next_cursor` of the page before.
    """
    query, path = dict(locals()), "/dead-letters/replay"
    return post(path, models.ReplayedLetters, query=query, is_repeatable=False, takes_s=_PAGE_S)


def erase(
    *,
    session_id: str | None = None,
    trace_id: str | None = None,
    record_uid: str | None = None,
    tag: tuple[str, str] | None = None,
) -> Call[models.Erased]:
    """Remove data for good: exactly one session, trace, record or tag. Needs the scope admin.

    Args:
        session_id: All records of this session and their traces.
        trace_id: This trace and its records; 32 hex digits.
        record_uid: This record.
        tag: All records with this key and value.

    Raises:
        ConfigError: Not exactly one was given.
    """
    ids = {
        "session_id": session_id,
        "trace_id": trace_id and trace_id.lower(),
        "record_uid": record_uid,
    }
    body: dict[str, JsonValue] = {name: value for name, value in ids.items() if value is not None}
    if tag is not None:
        body["tag"] = {"key": tag[0], "value": tag[1]}
    if len(body) != 1:
        has = ", ".join(body) or "none"
        raise ConfigError(
            f"erase: expected exactly one of session_id, trace_id, record_uid, tag; got {has}"
        )
    # A second delivery erases nothing more, but its counts would be zero and not what went.
    return post("/erase", models.Erased, body=body, is_repeatable=False, takes_s=_COMMIT_S)


def backup(folder: str) -> Call[models.Backup]:
    """Copy the data of all spaces, on the collector's machine. Needs the scope admin.

    Args:
        folder: Name of a new folder below the collector's setting `backups`.
    """
    body: dict[str, JsonValue] = {"folder": folder}
    return post("/backup", models.Backup, body=body, is_repeatable=False, takes_s=_BACKUP_S)
