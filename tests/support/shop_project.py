"""A small project as a user has it: an agent, scenarios, a profile, and the program `scouter`."""

import os
import subprocess
import sys
from pathlib import Path

AGENT = """
import asyncio
import os
import sys

from scouter.evaluate import EvalOrchestrator, EvalRecord
from scouter.tracing import get_tracer

tracer = get_tracer("shop")
HOURS = {"berlin": "9 to 18", "paris": "10 to 19"}


def answer(message):
    print("asked:", message)
    with tracer.start_as_current_span("answer") as span:
        city = next(name for name in HOURS if name in message.lower())
        text = "Soon." if city == os.environ.get("BAD") else f"From {HOURS[city]}."
        span.add_queue_item("answers", EvalRecord(context={"answer": text}, id=city))
        return text


async def answer_async(message):
    await asyncio.sleep(0)
    return answer(message)


def answer_by_queue(message, queue):
    queue["answers"].insert(EvalRecord(context={"answer": "From 1 to 2."}))
    return answer(message)


def build(queue):
    def built(message):
        queue["answers"].insert(EvalRecord(context={"answer": "From 1 to 2."}))
        return answer(message)

    return built


class Desk:
    def __init__(self, queue):
        self.queue = queue

    async def __call__(self, message):
        return answer(message)


class Orchestrator(EvalOrchestrator):
    def execute_agent(self, scenario):
        return answer(scenario.initial_query)


class BadHook(EvalOrchestrator):
    def execute_agent(self, scenario):
        return answer(scenario.initial_query)

    def on_evaluation_complete(self, results):
        raise RuntimeError("the hook is broken")


def raising(message):
    if "paris" in message.lower():
        raise RuntimeError("no such city")
    return answer(message)


def leaving(message):
    sys.exit(0)


def two(message, other):
    return message


def nothing():
    return "x"


def judge(request):
    print("judged:", request.task_id)
    return {"message": "Thanks.", "done": True}


settings = {"not": "a function"}
made = answer, 1
"""

COUNTING = """
from shop import answer


class Counter:
    def __init__(self, queue, session):
        self.session = session
        self.turns = 0

    def __call__(self, message, session, history):
        self.turns += 1
        assert session == self.session
        assert len(history) == 2 * (self.turns - 1)
        return f"{answer(message)} Turn {self.turns}."


def build_counter(queue):
    return Counter(queue, "of nobody").__class__


class NeedsModel:
    def __init__(self, model):
        pass

    def __call__(self, message):
        return answer(message)
"""

OWN_QUEUE = """
from scouter.drift import AgentEvalProfile
from scouter.evaluate import AssertionTask, EvalRecord
from scouter.queue import ScouterQueue
from scouter.tracing import init_tracer
from scouter.transport import MockConfig

profile = AgentEvalProfile([AssertionTask("own", "answer", "From", "Contains")], alias="own")
queue = ScouterQueue.from_profile(profile, transport_config=MockConfig())
tracer = init_tracer(service_name="shop", scouter_queue=queue)


def answer(message):
    with tracer.start_as_current_span("answer") as span:
        span.add_queue_item("own", EvalRecord(context={"answer": "From 9 to 18."}))
        return "From 9 to 18 and from 10 to 19."
"""

SCENARIOS = """\
collection_id: shop
scenarios:
  - id: berlin
    initial_query: When is the shop in Berlin open?
    expected_outcome: 9 to 18
    tasks:
      - {task_type: Assertion, id: right_hours, context_path: response, operator: Contains,
         expected_value: "${expected_outcome}"}
  - id: paris
    initial_query: And the one in Paris?
    expected_outcome: 10 to 19
    tasks:
      - {task_type: Assertion, id: right_hours, context_path: response, operator: Contains,
         expected_value: "${expected_outcome}"}
"""

PROFILE = """\
alias: answers
tasks:
  - {task_type: Assertion, id: names_hours, context_path: answer, operator: Contains,
     expected_value: " to "}
"""


def write_project(folder: Path) -> Path:
    """Write the project's files into a folder."""
    for name, text in (
        ("shop.py", AGENT),
        ("counting.py", COUNTING),
        ("own_queue.py", OWN_QUEUE),
        ("shop.yaml", SCENARIOS),
        ("answers.yaml", PROFILE),
    ):
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def program(folder: Path, *args: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run the program in the project's folder, as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "scouter.cli.app", *map(str, args)],
        cwd=folder, env={**os.environ, "COLUMNS": "200"}, capture_output=True,
        encoding="utf-8", check=False, timeout=120,
    )  # fmt: skip
