"""The client for plain code."""

import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

import httpx
from pydantic import BaseModel

from scouter.client import routes
from scouter.client.call import NEXT_CURSOR, Call, PagedCall, Request, StreamCall
from scouter.client.connection import ANSWER_S, MOST_BYTES, Connection, Retry
from scouter.client.method import Method
from scouter.transport.config import HttpConfig
from scouter.transport.http_client import Bound, trusted

P = ParamSpec("P")
T = TypeVar("T", bound=BaseModel)
Item = TypeVar("Item", bound=BaseModel)


def _one(route: Callable[P, Call[T]]) -> "Method[ScouterClient, P, T]":
    def run(client: "ScouterClient", *args: P.args, **kwargs: P.kwargs) -> T:
        return client.ask(route(*args, **kwargs))

    return Method(route, run)


def _all(route: Callable[P, PagedCall[Item]]) -> "Method[ScouterClient, P, Iterator[Item]]":
    def run(client: "ScouterClient", *args: P.args, **kwargs: P.kwargs) -> Iterator[Item]:
        return client.walk(route(*args, **kwargs))

    return Method(route, run)


def _stream(route: Callable[P, StreamCall]) -> "Method[ScouterClient, P, Iterator[bytes]]":
    def run(client: "ScouterClient", *args: P.args, **kwargs: P.kwargs) -> Iterator[bytes]:
        return client.stream(route(*args, **kwargs))

    return Method(route, run)


class ScouterClient:
    """Asks a collector, and gives it orders; a method for every route of its API.

    Lists are read page by page while they are iterated over. A request that fails for now
    (429, 502, 503, 504, no connection) is sent again, with growing pauses or the one that the
    collector asks for, unless a second delivery would do something else than the first. Any thread
    may use it.

        with ScouterClient() as client:
            for evaluation in client.evaluations(profile="answers", outcome="failed"):
                print(evaluation.record_id, evaluation.evaluated_at)

    Args:
        url: Base address of the collector, or an `HttpConfig` with address and token. Environment:
            SCOUTER_URL; else http://127.0.0.1:4318.
        token: Sent as a bearer token. Environment: SCOUTER_AUTH_TOKEN.
        timeout_s: Longest wait for the next part of an answer, in whole seconds; orders that take
            longer, such as a backup, are waited for longer. A whole answer takes 15 minutes at
            most, and 256 MiB.
        config: Another word for `url`.
        retry: Rules for sending a request again.
        transport: Carries the requests; by default the network.
        sleep: Waits the given seconds before a request is sent again.

    Raises:
        ConfigError: The address or the token cannot be one.
        ApiError: Of every method: the collector refused.
        TransientError: Of every method: it could not be reached, or is busy (then a `BusyError`).
        DataError: Of every method: the answer is not understood.
    """

    def __init__(
        self,
        url: str | HttpConfig | None = None,
        token: str | None = None,
        timeout_s: float = 30.0,
        *,
        config: HttpConfig | None = None,
        retry: Retry | None = None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._to = Connection.to(url, token, timeout_s, retry or Retry(), config)
        self._sleep = sleep
        self._http = httpx.Client(
            base_url=self._to.url,
            headers=self._to.headers,
            timeout=timeout_s,
            transport=transport,
            verify=trusted(),
            event_hooks=Bound(most_bytes=MOST_BYTES, most_s=ANSWER_S).hooks(),
        )

    @property
    def url(self) -> str:
        """Base address of the collector."""
        return self._to.url

    spans = _all(routes.traces.spans)
    traces = _all(routes.traces.traces)
    trace = _one(routes.traces.trace)
    trace_view = _one(routes.traces.trace_view)
    trace_columns = _one(routes.trace_parts.trace_columns)
    trace_agents = _one(routes.trace_parts.trace_agents)
    trace_turn = _one(routes.trace_parts.trace_turn)
    trace_matches = _one(routes.trace_parts.trace_matches)
    trace_export = _stream(routes.trace_parts.trace_export)
    span = _one(routes.trace_parts.span)
    span_value = _stream(routes.trace_parts.span_value)
    trace_facets = _one(routes.traces.trace_facets)
    genai_usage = _all(routes.traces.genai_usage)
    evaluations = _all(routes.evaluations.evaluations)
    evaluation_facets = _one(routes.evaluations.evaluation_facets)
    evaluation = _one(routes.evaluations.evaluation)
    tasks = _one(routes.tasks.tasks)
    task_series = _one(routes.tasks.task_series)
    task_distributions = _one(routes.tasks.task_distributions)
    task_failures = _one(routes.tasks.task_failures)
    alerts = _one(routes.alerts.alerts)
    alert = _one(routes.alerts.alert)
    promote_alert = _one(routes.alerts.promote_alert)
    acknowledge_alert = _one(routes.alerts.acknowledge_alert)
    silence_alert = _one(routes.alerts.silence_alert)
    resolve_alert = _one(routes.alerts.resolve_alert)
    send_test_alert = _one(routes.alerts.send_test_alert)
    drift_series = _one(routes.drift.drift_series)
    drift_results = _all(routes.drift.drift_results)
    drift_slices = _one(routes.drift.drift_slices)
    canary = _one(routes.canary.canary)
    canary_gate = _one(routes.canary.canary_gate)
    records = _all(routes.records.records)
    record_facets = _one(routes.records.record_facets)
    session_facets = _one(routes.records.session_facets)
    record = _one(routes.records.record)
    record_scenario = _stream(routes.records.record_scenario)
    trajectories = _one(routes.records.trajectories)
    sessions = _all(routes.records.sessions)
    session = _one(routes.records.session)
    export = _stream(routes.export.export)
    runs = _all(routes.comparison.runs)
    push_run = _one(routes.comparison.push_run)
    remove_run = _one(routes.comparison.remove_run)
    versions = _one(routes.comparison.versions)
    comparison = _one(routes.comparison.comparison)
    labels = _all(routes.labels.labels)
    label = _one(routes.labels.label)
    label_tasks = _one(routes.labels.label_tasks)
    label_queue = _one(routes.labels.label_queue)
    label_records = _one(routes.labels.label_records)
    label_agreement = _one(routes.labels.label_agreement)
    label_file = _stream(routes.labels.label_file)
    profiles = _all(routes.profiles.profiles)
    profile = _one(routes.profiles.profile)
    register_profile = _one(routes.profiles.register_profile)
    activate_profile = _one(routes.profiles.activate_profile)
    deactivate_profile = _one(routes.profiles.deactivate_profile)
    reevaluate = _one(routes.profiles.reevaluate)
    gold_judges = _one(routes.judges.gold_judges)
    judge_answer = _one(routes.judges.judge_answer)
    keep_judge_answer = _one(routes.judges.keep_judge_answer)
    conservation = _one(routes.operation.conservation)
    status = _one(routes.operation.status)
    record_states = _one(routes.operation.record_states)
    dead_letters = _all(routes.operation.dead_letters)
    replay_letter = _one(routes.operation.replay_letter)
    replay_letters = _one(routes.operation.replay_letters)
    erase = _one(routes.operation.erase)
    backup = _one(routes.operation.backup)

    def ask(self, call: Call[T]) -> T:
        """Make a call and read its answer; the other methods do this."""
        return self._to.read(call, self._answer(call.request))

    def walk(self, call: PagedCall[Item]) -> Iterator[Item]:
        """Read a list page by page; a page is asked for when its first item is."""
        while True:
            page = self.ask(call)
            yield from page.items
            if page.next_cursor is None:
                return
            call = call.after(page.next_cursor)

    def stream(self, call: StreamCall) -> Iterator[bytes]:
        """Read an answer part by part; a part is asked for when the one before it was used."""
        while True:
            answer = self._answer(call.request)
            yield answer.content
            cursor = answer.headers.get(NEXT_CURSOR)
            if cursor is None:
                return
            call = call.after(cursor)

    def _answer(self, request: Request) -> httpx.Response:
        """Send a request until there is an answer that is a success."""
        tried = 0
        while True:
            tried += 1
            try:
                answer = self._http.send(
                    self._http.build_request(
                        request.method,
                        request.url_path,
                        params=request.params,
                        json=request.body,
                        timeout=self._to.timeout(request),
                    )
                )
                if answer.is_success:
                    return answer
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                pause_s = self._to.pause_after_error(request, tried, error)
            else:
                pause_s = self._to.pause_after_answer(request, tried, answer)
            self._sleep(pause_s)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
