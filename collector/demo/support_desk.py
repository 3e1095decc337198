"""The demo's agent: a support desk of two pydantic-ai sub-agents, and how it is instrumented.

`retriever` looks an order up with two tools, `writer` turns what was found into an answer. Their
model is a script, so that the demo needs neither key nor network and is the same at every run.
"""

import json
import re
import time
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from scouter.model.record import EvalRecord
from scouter.tracing.tracer import ScouterTracer


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One order of the shop."""

    id: str
    item: str
    category: str
    state: str
    arrives: str


ORDERS: Final = {
    order.id: order
    for order in (
        Order(id="A-1001", item="kettle", category="kitchen", state="shipped", arrives="24 May"),
        Order(id="A-1002", item="desk lamp", category="home", state="packed", arrives="26 May"),
        Order(id="A-1003", item="trail shoes", category="sport", state="shipped", arrives="23 May"),
        Order(id="A-1004", item="café set", category="kitchen", state="delayed", arrives="2 June"),
        Order(id="A-1005", item="tent", category="sport", state="packed", arrives="28 May"),
        Order(id="A-1006", item="bookshelf", category="home", state="shipped", arrives="25 May"),
        Order(id="A-1007", item="bread bin", category="kitchen", state="packed", arrives="27 May"),
        Order(id="A-1008", item="yoga mat", category="sport", state="delayed", arrives="4 June"),
    )
}

RETURN_DAYS: Final = {"kitchen": 30, "home": 14, "sport": 60}

_QUESTIONS: Final = (
    "Where is my order {id}, and until when can I return it?",
    "When does {id} arrive? I may want to send it back.",
    "Please check order {id} and tell me how long I can return it.",
)


def conversations(count: int) -> list[tuple[str, str]]:
    """Make questions that differ but are the same at every run.

    Args:
        count: Number of questions.

    Returns:
        Pairs of question and the id of the order that it is about.
    """
    ids = tuple(ORDERS)
    return [
        (_QUESTIONS[i % len(_QUESTIONS)].format(id=ids[i % len(ids)]), ids[i % len(ids)])
        for i in range(count)
    ]


_ORDER_ID: Final = re.compile(r"A-\d{4}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One version of the agent: what its script and its tools do.

    Args:
        version: Goes into `service.version`.
        lookup_s: Seconds that the order tool takes.
        skips_policy: Of two orders, one is answered without looking at the return policy.
        vague: Of two orders, one gets an answer without order id and date.
    """

    version: str
    lookup_s: float
    skips_policy: bool
    vague: bool


RELEASES: Final = {
    release.version: release
    for release in (
        Release(version="1.0.0", lookup_s=0.0, skips_policy=False, vague=False),
        Release(version="2.0.0", lookup_s=0.25, skips_policy=True, vague=True),
    )
}


class SupportDesk:
    """Answers one question about one order, and reports its work to Scouter.

    Args:
        release: Version of the agent.
        tracer: Makes the spans that EvalRecords are tagged from.
    """

    def __init__(self, release: Release, tracer: ScouterTracer) -> None:
        self._release, self._tracer = release, tracer
        self._retriever = Agent(
            FunctionModel(self._retrieve, model_name="scripted-retriever"),
            name="retriever",
            instructions="Look the order up, then the return policy of its category.",
        )
        self._retriever.tool_plain(self.find_order)
        self._retriever.tool_plain(self.return_policy)
        self._writer = Agent(
            FunctionModel(self._write, model_name="scripted-writer"),
            name="writer",
            instructions="Answer the customer from the findings alone.",
        )

    def answer(self, question: str) -> str:
        """Answer a question; emits one record for each sub-agent."""
        order_id = _order_id(question)
        with self._tracer.start_as_current_span("support_desk"):
            with self._tracer.start_as_current_span("retrieve") as span:
                findings = json.loads(self._retriever.run_sync(question).output)
                context = {"question": question, "order_id": order_id, "findings": findings}
                span.add_queue_item("support_retriever", EvalRecord(context=context, id=order_id))
            with self._tracer.start_as_current_span("write") as span:
                prompt = json.dumps({"question": question, "findings": findings})
                answer = self._writer.run_sync(prompt).output
                context = {"question": question, "order_id": order_id, "answer": answer}
                span.add_queue_item("support_writer", EvalRecord(context=context, id=order_id))
        return answer

    def find_order(self, order_id: str) -> dict[str, str]:
        """Find one order by its id."""
        time.sleep(self._release.lookup_s)
        order = ORDERS[order_id]
        return {
            "id": order.id,
            "item": order.item,
            "category": order.category,
            "state": order.state,
            "arrives": order.arrives,
        }

    def return_policy(self, category: str) -> dict[str, int]:
        """Find how many days the customer has to return an item of this category."""
        return {"return_days": RETURN_DAYS[category]}

    def _retrieve(self, messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        """Play the retriever's model: order first, then policy, then the findings as JSON."""
        order_id = _order_id(_question(messages))
        returned = {
            part.tool_name: cast(dict[str, Any], part.content)
            for message in messages
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        }
        order = returned.get("find_order")
        if order is None:
            return ModelResponse(parts=[ToolCallPart("find_order", {"order_id": order_id})])
        policy = returned.get("return_policy")
        if policy is None and not (self._release.skips_policy and _is_even(order_id)):
            return ModelResponse(
                parts=[ToolCallPart("return_policy", {"category": order["category"]})]
            )
        findings = {"order": order, **(policy or {})}
        return ModelResponse(parts=[TextPart(json.dumps(findings))])

    def _write(self, messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        """Play the writer's model."""
        prompt = json.loads(_question(messages))
        order, days = prompt["findings"]["order"], prompt["findings"].get("return_days")
        if self._release.vague and _is_even(order["id"]):
            return ModelResponse(parts=[TextPart("It should be with you soon.")])
        back = f" You can return it within {days} days." if days else ""
        text = f"Your order {order['id']} ({order['item']}) is {order['state']} and arrives on "
        return ModelResponse(parts=[TextPart(f"{text}{order['arrives']}.{back}")])


def _question(messages: list[ModelMessage]) -> str:
    prompts = (p for m in messages for p in m.parts if isinstance(p, UserPromptPart))
    return str(next(prompts).content)


def _order_id(question: str) -> str:
    found = _ORDER_ID.search(question)
    return found.group() if found else ""


def _is_even(order_id: str) -> bool:
    return int(order_id[-1]) % 2 == 0
