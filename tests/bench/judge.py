"""Cost of a judge task beside the vendor's own client: `python -m tests.bench.judge`.

1,000 judge tasks ask a server in another process, which takes 200 ms for each, 50 at a time. In
turns with them, in the same run, `openai.AsyncOpenAI` itself asks the same questions. The tasks go
the whole way: records, the engine, prompts filled in, the entry's limits, the answer checked by its
schema and compared. They take at most 1.1 times the client's time, and at most 0.5 ms more
processor time for each call. Connections are open and modules imported before the first round.

Then a judge with a cache in a file asks, under a budget of a day that is counted in a file. It asks
once anew, and once again, which must make no call. The bench prints the time of both.

`--short` asks 100 and only shows that it runs.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from scouter.agent.budget import account_of, today
from scouter.agent.cache import SqliteCache
from scouter.agent.cached_judge import CachedJudge
from scouter.agent.entries import Price, ProviderEntry
from scouter.agent.ledger import NANO, SqliteLedger
from scouter.agent.model_judge import ModelJudge
from scouter.evaluate.engine.judged import evaluate_records_async
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.judge.port import Judge
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.mock.llm_server import LLMTestServer
from scouter.model.record import EvalRecord
from tests.bench.figures import Figures

if TYPE_CHECKING:
    from openai import AsyncOpenAI

ROOT: Final = Path(__file__).parents[2]
TASKS, ROUNDS, CONCURRENCY, LATENCY_S = 1000, 5, 50, 0.2
MOST_TIMES, MOST_ADDED_MS = 1.1, 0.5
ENVIRON: Final = {"KEY_OF_A_BENCH": "none"}
SYSTEM: Final = "You judge answers of a travel agent. 5 is the best score, 1 the worst."
USER: Final = "Question: ${question}\nAnswer: ${answer}\nHow well is the question answered?"

Ask = Callable[[], Awaitable[None]]


def serve() -> None:
    """Serve until standard input ends; say for each line of it how many questions came."""
    with LLMTestServer(
        {"score": 4, "reason": "says what was asked"}, latency_s=LATENCY_S
    ) as server:
        print(server.url, flush=True)
        for _ in sys.stdin:
            print(server.calls, flush=True)


@dataclass(frozen=True)
class Apart:
    """A server in another process."""

    process: "subprocess.Popen[str]"
    url: str

    def calls(self) -> int:
        """How many questions it was asked."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@contextmanager
def server_apart() -> Generator[Apart]:
    """A server in a process of its own."""
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
            yield Apart(process, process.stdout.readline().strip())
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


def entry_of(url: str, **fields: Any) -> ProviderEntry:
    """The entry of the server."""
    return ProviderEntry(
        name="bench",
        kind="openai",
        base_url=url,
        key_variable="KEY_OF_A_BENCH",
        concurrency=CONCURRENCY,
        **fields,
    )


def asked_by(judge: Judge, records: list[EvalRecord]) -> Ask:
    """Ask a judge by tasks of the engine."""
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


def vendors(client: "AsyncOpenAI", records: list[EvalRecord]) -> Ask:
    """Ask by the vendor's client, with nothing around it but the bound on how many at a time."""
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


async def compare(url: str, tasks: int, rounds: int, figures: Figures) -> None:
    """Measure in turns."""
    from openai import AsyncOpenAI

    records = records_of(tasks)
    found: list[list[tuple[float, float]]] = [[], []]
    judge = ModelJudge([entry_of(url)], environ=ENVIRON)
    async with AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as client:
        asks = vendors(client, records), asked_by(judge, records)
        for ask in asks:
            await ask()
        for at in range(rounds):
            order = (0, 1) if at % 2 == 0 else (1, 0)
            for which in order:
                found[which].append(await measured(asks[which]))
    await judge.close()
    # Other work of the machine adds to processor time and takes nothing away: the least counts.
    # The time on the wall is compared with that of the neighbouring round.
    busy_ms = [min(busy for _, busy in rows) / tasks * 1000 for rows in found]
    for name, rows, least in zip(
        ("openai.AsyncOpenAI", "judge tasks"), found, busy_ms, strict=True
    ):
        wall = statistics.median(wall for wall, _ in rows)
        print(
            f"{name:18} {wall:5.2f} s for {tasks} calls of {LATENCY_S * 1000:.0f} ms, "
            f"{CONCURRENCY} at a time; {least:.2f} ms of CPU per call"
        )
        figures.add(f"{name}: time", wall, "s")
        figures.add(f"{name}: CPU per call", least, "ms")
    times = statistics.median(our[0] / their[0] for their, our in zip(*found, strict=True))
    added_ms = busy_ms[1] - busy_ms[0]
    print(
        f"{times:.3f} times the time of the vendor's client (at most {MOST_TIMES}), "
        f"{added_ms:+.2f} ms of added CPU per call (at most {MOST_ADDED_MS})"
    )
    figures.add("time beside the vendor's client", times, "x", at_most=MOST_TIMES)
    figures.add("added CPU per call", added_ms, "ms", at_most=MOST_ADDED_MS)


async def compare_cached(server: Apart, tasks: int, figures: Figures) -> int:
    """Ask with cache and budget, and again; the calls that the second run makes."""
    records = records_of(tasks)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ledger, cache = SqliteLedger(folder / "budget.db"), SqliteCache(folder / "judge.db")
        price = Price(input_per_million=0.15, output_per_million=0.6)
        judge = ModelJudge(
            [entry_of(server.url, prices={"gpt-4o": price}, daily_budget_usd=100.0)],
            environ=ENVIRON,
            ledger=ledger,
        )
        ask = asked_by(CachedJudge(judge, cache), records)
        calls, before = 0, server.calls()
        for run in ("first", "second"):
            wall, busy = await measured(ask)
            now = server.calls()
            calls, before = now - before, now
            print(
                f"with cache and budget, {run} run: {calls} calls, {wall:.2f} s, "
                f"{busy / tasks * 1000:.2f} ms of CPU per task"
            )
            figures.add(f"cached, {run} run: CPU per task", busy / tasks * 1000, "ms")
        spent = await ledger.spent_nano_usd(account_of("bench"), today())
        print(f"${spent / NANO:.4f} spent of the day's budget")
        cache.close()
        ledger.close()
    figures.add("cached, second run: calls", calls, at_most=0)
    return calls


async def run(server: Apart, *, is_short: bool) -> int:
    """Measure all; 1 if a bound is missed, in a short run that of the calls only."""
    tasks, rounds = (TASKS // 10, 1) if is_short else (TASKS, ROUNDS)
    figures = Figures("judge", is_short=is_short)
    await compare(server.url, tasks, rounds, figures)
    calls = await compare_cached(server, tasks, figures)
    return figures.end() or min(calls, 1)


def main() -> int:
    """Run, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--serve", action="store_true", help="be the server")
    args = parser.parse_args()
    if args.serve:
        serve()
        return 0
    with server_apart() as server:
        return asyncio.run(run(server, is_short=args.short))


if __name__ == "__main__":
    sys.exit(main())
