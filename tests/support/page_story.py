"""A story for the page: a trip desk of two agents whose second version loses bookings.

Its day is told in steps: the caller moves the clock, then tells one step. Everything is
made from a seed, so that two tellings differ in nothing.
"""

import json
import random
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final, Protocol

from scouter.alert.config import AgentAlertConfig, AlertCondition, AlertThreshold
from scouter.drift.config import AgentEvalConfig
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter, SpanStatus
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.otlp import encode_request
from scouter.model.span import AttributeValue, Resource, Span, SpanEvent, SpanKind, StatusCode

ALIAS: Final = "trip_desk"
PRICES: Final = "gpt-4o: {input: 2.5, output: 10}\ngpt-4o-mini: {input: 0.15, output: 0.6}\n"
_MS: Final = 1_000_000
_CITIES: Final = ("Lisbon", "Oslo", "Kraków", "São Paulo", "Nairobi", "Osaka")


class Collector(Protocol):
    """Takes spans and records over HTTP."""

    http: Any

    def send(self, *records: object) -> Any:
        """Send records."""
        ...


def save_profile(folder: Path) -> Path:
    """Write the story's profile."""
    tool_errors = SpanFilter.with_status(SpanStatus.Error).and_(
        SpanFilter.with_attribute("gen_ai.tool.name")
    )
    profile = AgentEvalProfile(
        [
            AssertionTask("names_the_city", "answer", "booked", ComparisonOperator.Contains),
            AssertionTask(
                "seat_confirmed", "booking.status", "confirmed", ComparisonOperator.Equals
            ),
            AssertionTask("short_answer", "answer", 400, ComparisonOperator.HasLengthLessThan),
            TraceAssertionTask(
                "tools_work", TraceAssertion.span_count(tool_errors), 0, ComparisonOperator.Equals
            ),
        ],
        AgentEvalConfig(
            name="trip-desk", version="3",
            alert_config=AgentAlertConfig(
                alert_condition=AlertCondition(0.8, AlertThreshold.Below, 0.05),
                window=200, min_samples=50,
            ),
        ),
        alias=ALIAS,
    )  # fmt: skip
    return profile.save_to_json(folder / "trip_desk.json")


class Story:
    """The desk's work.

    Args:
        seed: Of everything that is made up.
    """

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._number = count(1)

    def tell(self, collector: Collector, version: str, trips: int, now_ns: int) -> int:
        """Send some trips of one version, which ended within the last ten minutes.

        Returns:
            How many records there are.
        """
        records: list[object] = []
        spans: list[Span] = []
        for _ in range(trips):
            number = next(self._number)
            trip = Trip(self._random, number, version, now_ns - self._random.randrange(600) * 10**9)
            spans += trip.spans
            records.append(trip.record())
        body = encode_request(spans).SerializeToString()
        headers = {"Content-Type": "application/x-protobuf"}
        answer = collector.http.post("/v1/traces", content=body, headers=headers)
        assert answer.is_success, answer.text
        collector.send(*records)
        return len(records)


class Trip:
    """One trip: planner, tools, a wait for the traveller, booker."""

    def __init__(self, rng: random.Random, number: int, version: str, end_ns: int) -> None:
        self._rng, self._number, self._version = rng, number, version
        self.trace_id = rng.randbytes(16).hex()
        self.city = rng.choice(_CITIES)
        is_new = version != "1.4.0"
        self.group = rng.choice(("web", "phone"))
        self.fails = rng.random() < ((0.34 if self.group == "phone" else 0.12) if is_new else 0.03)
        self.now_ns = end_ns - 60 * 10**9
        self.spans: list[Span] = []
        self._ids = iter(rng.sample(range(1, 2**48), 40))
        self._resource = Resource(
            attributes={"service.name": "trip-desk", "service.version": version,
                        "deployment.environment.name": "production"}
        )  # fmt: skip
        self.answer = ""
        self._plan()

    def record(self) -> dict[str, object]:
        """The record of the trip."""
        return {
            "uid": f"trip-{self._number:05}",
            "record_id": f"T-{1000 + self._number}",
            "profile": ALIAS,
            "trace_id": self.trace_id,
            "session_id": f"traveller-{self._number % 400}",
            "context": {
                "question": self._question(),
                "answer": self.answer,
                "booking": {
                    "status": "pending" if self.fails else "confirmed",
                    "city": self.city,
                    "seats": [{"row": 12, "seat": "A"}, {"row": 12, "seat": "B"}],
                },
            },
            "tags": {"channel": self.group, "city": self.city},
        }

    def _question(self) -> str:
        return f"Two seats to {self.city} next Friday, by the window if you can."

    def _plan(self) -> None:
        start = self.now_ns
        planner, booker = self._id(), self._id()
        talk = [_said("user", self._question())]
        self._chat(planner, "planner", "gpt-4o", talk, _calls("search_flights", self._search()))
        found = {"flights": [{"id": f"FL{n}", "price": 120 + 13 * n} for n in range(6)]}
        self._tool(planner, "planner", "search_flights", self._search(), found)
        talk = [*talk, _calls("search_flights", self._search()), _told("search_flights", found)]
        offer = _said("assistant", f"FL0 to {self.city} costs 120 €. Shall I book it?")
        self._chat(planner, "planner", "gpt-4o", talk, offer)
        self.now_ns += self._rng.randrange(20, 45) * 10**9  # the traveller thinks
        begin = self.now_ns
        talk = [*talk, offer, _said("user", "Yes, please.")]
        self._book(booker, talk)
        run: dict[str, AttributeValue] = {"gen_ai.operation.name": "invoke_agent"}
        named = run | {"gen_ai.agent.name": "booker"}
        self._add("invoke_agent booker", booker, planner, begin, self.now_ns, named)
        self._add("invoke_agent planner", planner, None, start, self.now_ns,
                  {**run, "gen_ai.agent.name": "planner",
                   "gen_ai.conversation.id": f"traveller-{self._number % 400}"})  # fmt: skip

    def _book(self, booker: str, talk: Sequence[object]) -> None:
        wanted = {"flight": "FL0", "seats": ["12A", "12B"]}
        attempts = 3 if self.fails else 1
        for attempt in range(attempts):
            self._chat(booker, "booker", "gpt-4o-mini", talk, _calls("book_seat", wanted))
            error = (
                f"SeatMapError: row 12 of FL0 is locked (attempt {attempt + 1})"
                if self.fails
                else ""
            )
            result: object = {"error": error} if error else {"status": "confirmed", "code": "QX7P"}
            self._tool(booker, "booker", "book_seat", wanted, result, error)
            talk = [*talk, _calls("book_seat", wanted), _told("book_seat", result)]
        self._http(booker)
        self.answer = (
            f"Your trip to {self.city} is almost booked; I will keep trying."
            if self.fails
            else f"Your two seats to {self.city} are booked, code QX7P."
        )
        self._chat(booker, "booker", "gpt-4o-mini", talk, _said("assistant", self.answer))

    def _search(self) -> dict[str, object]:
        return {"to": self.city, "day": "Friday", "seats": 2}

    def _chat(
        self, parent: str, agent: str, model: str, talk: Sequence[object], answer: object
    ) -> None:
        self._timed(f"chat {model}", parent, self._rng.randrange(300, 1400), {
            "gen_ai.operation.name": "chat", "gen_ai.agent.name": agent,
            "gen_ai.provider.name": "openai", "gen_ai.request.model": model,
            "gen_ai.input.messages": json.dumps(list(talk), ensure_ascii=False),
            "gen_ai.output.messages": json.dumps([answer], ensure_ascii=False),
            "gen_ai.usage.input_tokens": 180 + 90 * len(talk),
            "gen_ai.usage.output_tokens": self._rng.randrange(20, 120),
            "gen_ai.request.temperature": 0.2,
        }, kind=SpanKind.CLIENT)  # fmt: skip

    def _tool(
        self, parent: str, agent: str, name: str, given: object, result: object, error: str = ""
    ) -> None:
        self._timed(f"execute_tool {name}", parent, self._rng.randrange(40, 500), {
            "gen_ai.operation.name": "execute_tool", "gen_ai.agent.name": agent,
            "gen_ai.tool.name": name, "gen_ai.tool.call.arguments": json.dumps(given),
            "gen_ai.tool.call.result": json.dumps(result),
            **({"error.type": "SeatMapError"} if error else {}),
        }, error=error)  # fmt: skip

    def _http(self, parent: str) -> None:
        self._timed("POST /ledger", parent, 30, {
            "http.request.method": "POST", "http.response.status_code": 200,
            "url.full": "https://ledger.internal/entries", "server.address": "ledger.internal",
        }, kind=SpanKind.CLIENT)  # fmt: skip

    def _timed(
        self, name: str, parent: str, ms: int, attributes: dict[str, AttributeValue],
        kind: SpanKind = SpanKind.INTERNAL, error: str = "",
    ) -> None:  # fmt: skip
        start = self.now_ns
        self.now_ns += ms * _MS
        self._add(name, self._id(), parent, start, self.now_ns, attributes, kind, error)
        self.now_ns += 3 * _MS

    def _add(
        self, name: str, span_id: str, parent: str | None, start: int, end: int,
        attributes: dict[str, AttributeValue], kind: SpanKind = SpanKind.INTERNAL, error: str = "",
    ) -> None:  # fmt: skip
        raised = {"exception.type": "SeatMapError", "exception.message": error}
        self.spans.append(
            Span(
                trace_id=self.trace_id, span_id=span_id, parent_span_id=parent, name=name,
                kind=kind, start_ns=start, end_ns=end, attributes=attributes,
                resource=self._resource,
                status=StatusCode.ERROR if error else StatusCode.UNSET, status_message=error,
                events=(SpanEvent(name="exception", time_ns=end, attributes=raised),)
                if error else (),
            )
        )  # fmt: skip

    def _id(self) -> str:
        return f"{next(self._ids):016x}"


def long_trace(spans: int, trace_id: str, start_ns: int) -> Iterator[Span]:
    """The spans of one long trace: a crew of agents that works on steps of ten spans each.

    Args:
        spans: How many.
        trace_id: Of all of them.
        start_ns: Of the first one.
    """
    resource = Resource(attributes={"service.name": "research-crew", "service.version": "2.1"})
    now_ns = start_ns
    for number in range(spans):
        place = (number - 1) % 10
        above = None if not number else 0 if not place else number - place
        now_ns += 40 * 10**9 if number % 5_000 == 4_999 else 20 * _MS
        name, attributes = _of_crew(number, place)
        length_ns = spans * 20 * _MS if not number else 190 * _MS if not place else 18 * _MS
        yield Span(
            trace_id=trace_id, span_id=f"{number + 1:016x}", name=name, start_ns=now_ns,
            parent_span_id=None if above is None else f"{above + 1:016x}",
            end_ns=now_ns + length_ns, attributes=attributes, resource=resource,
            status=StatusCode.ERROR if number % 997 == 996 else StatusCode.UNSET,
        )  # fmt: skip


def _of_crew(number: int, place: int) -> tuple[str, dict[str, AttributeValue]]:
    if not number:
        return "invoke_agent lead", {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "lead",
        }
    if not place:
        name = f"worker-{number // 10 % 4}"
        return f"invoke_agent {name}", {
            "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name,
        }  # fmt: skip
    if place % 3 == 1:
        return "chat gpt-4o-mini", {
            "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o-mini",
            "gen_ai.usage.input_tokens": 800, "gen_ai.usage.output_tokens": 60,
            "gen_ai.output.messages": json.dumps([_said("assistant", f"Note {number}.")]),
        }  # fmt: skip
    if place % 3 == 2:
        return "execute_tool search", {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search",
            "gen_ai.tool.call.arguments": json.dumps({"query": f"source {number}"}),
            "gen_ai.tool.call.result": json.dumps({"hits": number % 7}),
        }  # fmt: skip
    return "GET /documents", {"http.request.method": "GET", "http.response.status_code": 200}


def _said(role: str, words: str) -> dict[str, object]:
    return {"role": role, "parts": [{"type": "text", "content": words}]}


def _calls(name: str, arguments: object) -> dict[str, object]:
    part = {"type": "tool_call", "id": f"call_{name}", "name": name, "arguments": arguments}
    return {"role": "assistant", "parts": [part]}


def _told(name: str, result: object) -> dict[str, object]:
    part = {"type": "tool_call_response", "id": f"call_{name}", "response": result}
    return {"role": "tool", "parts": [part]}
