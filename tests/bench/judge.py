"""What a judge task costs beside the vendor's own client: `python -m tests.bench.judge`.

1,000 judge tasks are asked of a server in another process that takes 200 ms for each, 50 at a
time; and, in turns with that in the same run, the same questions by `openai.AsyncOpenAI` itself.
The tasks go the whole way: records, the engine, prompts filled in, the entry's limits, the answer
held against its schema and compared. At most 1.1 times the client's time, and at most 0.5 ms more
processor time for each call. Connections are open and modules imported before the first round.

`--short` asks 100 and only shows that it runs.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from scouter.agent.entries import ProviderEntry
from scouter.agent.model_judge import ModelJudge
from scouter.evaluate.engine.judged import evaluate_records_async
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.prompt import Prompt, Score
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.mock.llm_server import LLMTestServer
from scouter.model.record import EvalRecord

ROOT: Final = Path(__file__).parents[2]
TASKS, ROUNDS, CONCURRENCY, LATENCY_S = 1000, 5, 50, 0.2
MOST_TIMES, MOST_ADDED_MS = 1.1, 0.5
ENVIRON: Final = {"KEY_OF_A_BENCH": "none"}
SYSTEM: Final = "You judge answers of a travel agent. 5 is the best score, 1 the worst."
USER: Final = "Question: ${question}\nAnswer: ${answer}\nHow well is the question answered?"

Ask = Callable[[], Awaitable[None]]


def serve() -> None:
    """Serve until standard input ends."""
    with LLMTestServer(
        {"score": 4, "reason": "says what was asked"}, latency_s=LATENCY_S
    ) as server:
        print(server.url, flush=True)
        sys.stdin.read()


@contextmanager
def server_apart() -> Generator[str]:
    """A server in a process of its own; gives its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.judge", "--serve"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def records_of(count: int) -> list[EvalRecord]:
    """Records that are all different, of about 700 characters."""
    text = "The train leaves at nine from platform four, and you need a seat for your bicycle. "
    return [
        EvalRecord(
            context={"question": f"When does train {at} leave?", "answer": f"{at}: {text * 8}"}
        )
        for at in range(count)
    ]


def ours(url: str, records: list[EvalRecord]) -> Ask:
    """Ask by tasks of the engine."""
    entry = ProviderEntry(
        name="bench",
        kind="openai",
        base_url=url,
        key_variable="KEY_OF_A_BENCH",
        concurrency=CONCURRENCY,
    )
    judge = ModelJudge([entry], environ=ENVIRON)
    prompt = Prompt(USER, "gpt-4o", "bench", SYSTEM, {"temperature": 0, "max_tokens": 200}, Score)
    task = LLMJudgeTask(
        id="quality",
        prompt=prompt,
        expected_value=3,
        context_path="score",
        operator=ComparisonOperator.GreaterThanOrEqual,
    )
    plan = compile_plan([task])

    async def ask() -> None:
        found = await evaluate_records_async(plan, records, judge=judge, concurrency=CONCURRENCY)
        assert all(result.outcome is Outcome.PASSED for result in found)

    return ask


def vendors(url: str, records: list[EvalRecord]) -> Ask:
    """Ask by the vendor's client, with nothing around it but the bound on how many at a time."""
    from openai import AsyncOpenAI

    client = AsyncOpenAI(api_key="none", base_url=url, max_retries=0)
    schema = {**Score.model_json_schema(), "additionalProperties": False}
    wanted: Any = {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": True},
    }
    slots = asyncio.Semaphore(CONCURRENCY)

    async def one(record: EvalRecord) -> None:
        context: Any = record.context
        text = USER.replace("${question}", context["question"])
        text = text.replace("${answer}", context["answer"])
        async with slots:
            done = await client.chat.completions.create(
                model="gpt-4o",
                messages=[
                    {"role": "system", "content": SYSTEM},
                    {"role": "user", "content": text},
                ],
                temperature=0,
                max_completion_tokens=200,
                response_format=wanted,
            )
        content = done.choices[0].message.content
        assert content is not None
        assert Score.model_validate_json(content).score == 4

    async def ask() -> None:
        await asyncio.gather(*map(one, records))

    return ask


async def measured(ask: Ask) -> tuple[float, float]:
    """Seconds on the wall and of this process' processor time."""
    wall, busy = time.perf_counter(), time.process_time()
    await ask()
    return time.perf_counter() - wall, time.process_time() - busy


async def compare(url: str, tasks: int, rounds: int) -> int:
    """Measure in turns; 1 if a bound is missed."""
    records = records_of(tasks)
    asks = vendors(url, records), ours(url, records)
    for ask in asks:
        await ask()
    found: list[list[tuple[float, float]]] = [[], []]
    for at in range(rounds):
        order = (0, 1) if at % 2 == 0 else (1, 0)
        for which in order:
            found[which].append(await measured(asks[which]))
    # What else the machine does adds to processor time and takes nothing away: the least counts.
    # The time on the wall is held against that of the neighbouring round.
    busy_ms = [min(busy for _, busy in rows) / tasks * 1000 for rows in found]
    for name, rows, least in zip(
        ("openai.AsyncOpenAI", "judge tasks"), found, busy_ms, strict=True
    ):
        wall = statistics.median(wall for wall, _ in rows)
        print(
            f"{name:18} {wall:5.2f} s for {tasks} calls of {LATENCY_S * 1000:.0f} ms, "
            f"{CONCURRENCY} at a time; {least:.2f} ms of CPU per call"
        )
    times = statistics.median(our[0] / their[0] for their, our in zip(*found, strict=True))
    added_ms = busy_ms[1] - busy_ms[0]
    is_fine = times <= MOST_TIMES and added_ms <= MOST_ADDED_MS
    print(
        f"{times:.3f} times the time of the vendor's client (at most {MOST_TIMES}), "
        f"{added_ms:+.2f} ms of added CPU per call (at most {MOST_ADDED_MS})"
    )
    return 0 if is_fine else 1


def main() -> int:
    """Run, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--serve", action="store_true", help="be the server")
    args = parser.parse_args()
    if args.serve:
        serve()
        return 0
    with server_apart() as url:
        if args.short:
            asyncio.run(compare(url, TASKS // 10, 1))
            return 0
        return asyncio.run(compare(url, TASKS, ROUNDS))


if __name__ == "__main__":
    sys.exit(main())
