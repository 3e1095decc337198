"""Large contexts and slow profiles: whatever one sender's records are like, everything is judged.

`python -m tests.bench.large` sends to a real collector, each time with an empty data folder:

* 1,500 records of 20 kB that wait for their traces when the collector is killed, or told to end;
* 3,000 of them in one burst, and 20 of 16 MB;
* one session of 2,000 records of 20 kB, and one of 4,000;
* 60 records of one space that take as long as a record may, and one of another space.

It reports how long it took until everything was judged, and the peak memory. `--short` sends a
tenth.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import httpx

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from tests.bench.backlog import token_of
from tests.bench.collector import status_mb
from tests.bench.figures import Figures
from tests.support.collector_process import CollectorProgram
from tests.support.processes import wait_until

PEAK_MB: Final = 600
SECONDS: Final = 5.0
"""By which one space may delay another."""
WAIT_S: Final = 300.0
_BODY_BYTES: Final = 4_000_000

SAID: Final = AssertionTask("said", "text", ".", Op.Contains)
TRACED: Final = AgentEvalProfile(
    [SAID, TraceAssertionTask("spans", TraceAssertion.trace_span_count(), 1, Op.Equals)],
    alias="traced",
)
TALK: Final = AgentEvalProfile(
    [SAID, AssertionTask("long", "records", 1, Op.HasLengthGreaterThan, scope="session")],
    alias="talk",
)
SLOW: Final = AgentEvalProfile(
    [AssertionTask(f"t{n}", "items", ["${items}", f"{n}"], Op.ContainsAny) for n in range(250)],
    alias="slow",
)
"""Takes all the steps that one record may take, one to two seconds, with the context below."""
SLOW_CONTEXT: Final = {"items": [{"value": f"v{n}"} for n in range(2_000)]}


class Large:
    """One collector with an empty folder.

    Args:
        folder: For its data.
        flags: Further flags.
    """

    def __init__(self, folder: Path, *flags: str) -> None:
        profiles = [p.save_to_json(folder / f"{p.alias}.json") for p in (TRACED, TALK)]
        named = [each for path in profiles for each in ("--profile", path)]
        self.process = CollectorProgram(
            folder,
            *named,
            "--max-item",
            "17MB",
            "--quiet-s",
            "3s",
            "--session-quiet-s",
            "3s",
            *flags,
        )
        self._text = random.Random(1)
        self._peak_mb = 0.0
        self.process.start()

    def records(
        self, count: int, size: int, alias: str, session_id: str | None = None
    ) -> Iterable[dict[str, Any]]:
        """Records with a text of so many bytes; of the profile `traced`, each with a trace."""
        for n in range(count):
            text = self._text.randbytes(size // 2).hex()
            record = {"uid": f"{alias}-{n}", "profile": alias, "context": {"text": text}}
            if alias == TRACED.alias:
                record["trace_id"] = f"{n + 1:032x}"
            if session_id is not None:
                record["session_id"] = session_id
            yield record

    def send(self, records: Iterable[dict[str, Any]]) -> None:
        """Send records in requests of some megabytes, each until it is taken."""
        part: list[dict[str, Any]] = []
        size = 0
        for record in records:
            own = len(str(record["context"]))
            if part and size + own > _BODY_BYTES:
                self._post(part)
                part, size = [], 0
            part.append(record)
            size += own
        self._post(part)

    def _post(self, records: Sequence[dict[str, Any]]) -> None:
        def is_taken() -> bool:
            url = f"{self.process.url}/v1/records"
            answer = httpx.post(url, json={"records": records}, timeout=60)
            assert answer.status_code in (200, 429, 503), answer.text
            return answer.status_code == 200

        wait_until(is_taken, what="the records are taken", timeout_s=WAIT_S, every_s=0.1)

    def restart(self, *, kill: bool) -> None:
        """End it and start it again on the same folder."""
        self._peak_mb = max(self._peak_mb, status_mb(self.process.process.pid, "VmHWM"))
        if kill:
            self.process.kill()
        else:
            self.process.stop()
        self.process.start()

    def wait(self, count: int) -> float:
        """Wait until so many records are evaluated; returns the seconds that it took."""
        began = time.monotonic()
        self.process.wait_evaluated(count, timeout_s=WAIT_S)
        return time.monotonic() - began

    def session_reason(self) -> str | None:
        """Wait for the evaluation on a session; returns the reason of its task."""

        def found() -> list[dict[str, Any]]:
            items = self.process.evaluations(session_id="default")
            return [each for each in items if each["scope"] == "session"]

        (evaluation,) = wait_until(found, what="an evaluation on the session", timeout_s=WAIT_S)
        reason: str | None = evaluation["tasks"][0]["reason"]
        return reason

    def end(self) -> float:
        """End it; returns the peak memory of its processes in MB."""
        peak_mb = max(self._peak_mb, status_mb(self.process.process.pid, "VmHWM"))
        self.process.close()
        return peak_mb


def over_a_restart(
    folder: Path, count: int, size: int, *, kill: bool, flags: Sequence[str] = ()
) -> tuple[float, float]:
    """Let records wait over a restart; returns seconds until all are judged, and the peak in MB."""
    large = Large(folder, *flags)
    large.send(large.records(count, size, TRACED.alias))
    large.restart(kill=kill)
    large.send([{"uid": "small", "profile": TALK.alias, "context": {"text": "."}}])
    took_s = large.wait(count + 1)
    return took_s, large.end()


def burst(folder: Path, count: int, size: int) -> tuple[float, float]:
    """Send records that wait for their traces at once."""
    large = Large(folder)
    large.send(large.records(count, size, TRACED.alias))
    took_s = large.wait(count)
    return took_s, large.end()


def session(folder: Path, count: int, size: int) -> tuple[str | None, float]:
    """Send one session; returns why its task is not decided, and the peak in MB."""
    large = Large(folder)
    large.send(large.records(count, size, TALK.alias, "default"))
    reason = large.session_reason()
    return reason, large.end()


def beside_a_slow_space(folder: Path, count: int) -> float:
    """Let one space have slow records; returns seconds until another one has an evaluation."""
    tokens = {
        space: {"Authorization": f"Bearer {token_of(folder, space)}"}
        for space in ("default", "slow")
    }
    large = Large(folder)
    with httpx.Client(base_url=large.process.url, timeout=60) as http:

        def post(space: str, path: str, body: object) -> None:
            http.post(path, json=body, headers=tokens[space]).raise_for_status()

        post("slow", "/api/v1/profiles", json.loads(SLOW.model_dump_json()))
        records = [
            {"uid": f"{n}", "profile": SLOW.uid, "context": SLOW_CONTEXT} for n in range(count)
        ]
        post("slow", "/v1/records", {"records": records})
        quick = {"uid": "quick", "profile": TALK.alias, "context": {"text": "."}}
        post("default", "/v1/records", {"records": [quick]})
        began = time.monotonic()

        def is_judged() -> bool:
            answer = http.get("/api/v1/evaluations", headers=tokens["default"])
            return bool(answer.raise_for_status().json()["items"])

        wait_until(is_judged, what="the quick record is judged", timeout_s=WAIT_S)
        took_s = time.monotonic() - began
    large.process.kill()
    return took_s


def main() -> int:
    """Run all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    figures = Figures("large", is_short=options.short)
    by = 10 if options.short else 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def own(part: str) -> Path:
            (folder / part).mkdir()
            return folder / part

        for what, kill in (("kill -9", True), ("SIGTERM", False)):
            took_s, peak_mb = over_a_restart(own(what), 1_500 // by, 20_000, kill=kill)
            figures.add(f"{1_500 // by} x 20 kB over {what}: judged after", took_s, "s")
            figures.add(f"{1_500 // by} x 20 kB over {what}: peak", peak_mb, "MB", at_most=PEAK_MB)
        for count, size, what in ((3_000 // by, 20_000, "20 kB"), (20 // by, 16_000_000, "16 MB")):
            took_s, peak_mb = burst(own(what), count, size)
            figures.add(f"{count} x {what} in a burst: judged after", took_s, "s")
            figures.add(f"{count} x {what} in a burst: peak", peak_mb, "MB", at_most=PEAK_MB)
        for count in (2_000 // by, 4_000 // by):
            reason, peak_mb = session(own(f"{count}"), count, 20_000)
            print(f"a session of {count} x 20 kB: {reason or 'judged'}")
            figures.add(f"a session of {count} x 20 kB: peak", peak_mb, "MB", at_most=PEAK_MB)
        took_s = beside_a_slow_space(own("slow"), 60 // by)
        figures.add("beside a slow space: judged after", took_s, "s", at_most=SECONDS)
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
