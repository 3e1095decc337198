"""Kind of fault: a process that ends by `os._exit`, as recycled workers do, loses what waits in it.

Each program does jobs that leave one span and one record; nothing but the end of a process sends
them, as they may wait for an hour.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.scouter.transport.receiver import Receiver, run_receiver
from tests.support.processes import ManagedProcess, wait_until
from tests.support.redis_server import RedisServer

ROOT = Path(__file__).parents[3]
JOBS = """
import os
from scouter.model.record import EvalRecord
from scouter.queue import ScouterQueue
from scouter.tracing import BatchConfig, init_tracer
from scouter.transport import HttpConfig
from scouter.transport.worker import WorkerLimits
from tests.scouter.queue.profiles import profile

queue = ScouterQueue(
    {"a": profile("a")}, HttpConfig(server_uri=os.environ["RECEIVER"]), WorkerLimits(delay_s=3600)
)
tracer = init_tracer(scouter_queue=queue, batch_config=BatchConfig(scheduled_delay_ms=3_600_000))

def work(n):
    with tracer.start_as_current_span(f"job {n}") as span:
        span.add_queue_item("a", EvalRecord({"n": 1}, id=str(n)))
"""
CELERY = """
import os
from celery import Celery

folder = os.environ["BROKER"]
app = Celery("jobs", broker="filesystem://", broker_transport_options={
    "data_folder_in": folder, "data_folder_out": folder, "control_folder": folder + "/control"})
import jobs
work = app.task(jobs.work, name="work")
"""
PROGRAMS = {
    "os._exit": "work(0); work(1); os._exit(0)",
    "os._exit in a thread": """
for n in range(2):
    work(n)
threading.Thread(target=os._exit, args=(0,)).start()
threading.Event().wait()
""",
    "os.fork": """
for n in range(2):
    if os.fork() == 0:
        work(n)
        os._exit(0)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
""",
    "daemon": """
work(0)
if os.fork() == 0:
    if os.fork() == 0:
        work(1)
    os._exit(0)
os._exit(0)
""",
    **{
        f"process, {method}": f"""
context = multiprocessing.get_context("{method}")
children = [context.Process(target=work, args=(n,)) for n in range(2)]
for child in children:
    child.start()
for child in children:
    child.join()
"""
        for method in ("fork", "forkserver")
    },
    "pool, recycled": """
with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
    pool.map(work, range(2), chunksize=1)
    pool.close()
    pool.join()
""",
    "executor, recycled": """
context = multiprocessing.get_context("spawn")
with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
    list(pool.map(work, range(2)))
""",
    "billiard": """
import billiard
with billiard.Pool(1, maxtasksperchild=1) as pool:
    pool.map(work, range(2), chunksize=1)
    pool.close()
    pool.join()
""",
}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """What the processes send to."""
    with run_receiver() as running:
        yield running


@pytest.fixture
def environment(tmp_path: Path, receiver: Receiver) -> Mapping[str, str]:
    """A folder with the module of the jobs, and how processes find it and the receiver."""
    (tmp_path / "jobs.py").write_text(JOBS)
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    return {**os.environ, "PYTHONPATH": path, "RECEIVER": receiver.uri}


def delivered(receiver: Receiver, count: int = 2) -> bool:
    """True if every job's span and record came once; more of them never."""
    spans = sorted(span.name for span in receiver.spans())
    records = sorted(record["record_id"] for record in receiver.records())
    assert len(spans) == len(set(spans))
    assert len(records) == len(set(records))
    numbers = [str(n) for n in range(count)]
    return spans == [f"job {n}" for n in numbers] and records == numbers


def run(*args: str, cwd: Path, env: Mapping[str, str]) -> None:
    """Run Python to its end."""
    done = subprocess.run(
        [sys.executable, *args], cwd=cwd, env=env, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("program", PROGRAMS)
def test_each_process_delivers_before_it_ends(
    program: str, tmp_path: Path, receiver: Receiver, environment: Mapping[str, str]
) -> None:
    script = tmp_path / "main.py"
    lines = PROGRAMS[program].replace("\n", "\n    ")
    script.write_text(
        "import multiprocessing, os, threading\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        f'from jobs import work\nif __name__ == "__main__":\n    {lines}\n'
    )
    run(str(script), cwd=tmp_path, env=environment)

    wait_until(lambda: delivered(receiver), what="two jobs")  # a daemon outlives its parent


SIGNALLED = """
import os, signal, sys
import jobs

jobs.work(0)
assert jobs.queue.flush()  # its threads run
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
os.kill(os.getpid(), signal.SIGTERM)
sys.exit(signal.sigpending() != {signal.SIGTERM})
"""


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs signal masks")
def test_no_thread_takes_a_signal_that_the_host_blocks(
    tmp_path: Path, receiver: Receiver, environment: Mapping[str, str]
) -> None:
    """Without it a worker of Celery ended while it wrote to its parent, which then never ended."""
    run("-c", SIGNALLED, cwd=tmp_path, env=environment)
    assert delivered(receiver, 1)


def test_celery_delivers_what_recycled_workers_hold(
    tmp_path: Path, receiver: Receiver, environment: Mapping[str, str]
) -> None:
    """One ends after two tasks, and another one as a signal ends all processes of the program."""
    (tmp_path / "tasks.py").write_text(CELERY)
    (tmp_path / "broker" / "control").mkdir(parents=True)
    env = {**environment, "BROKER": str(tmp_path / "broker"), "C_FORCE_ROOT": "1"}
    run("-c", "import tasks\nfor n in range(3): tasks.work.delay(n)", cwd=tmp_path, env=env)
    worker = ManagedProcess(
        [sys.executable, "-m", "celery", "-A", "tasks", "worker", "--pool", "prefork",
         "--concurrency", "1", "--max-tasks-per-child", "2", "--loglevel", "INFO"],
        log=tmp_path / "celery.log", env=env, cwd=tmp_path,
    )  # fmt: skip
    with contextlib.ExitStack() as stack:
        stack.callback(worker.stop)
        done = lambda: (tmp_path / "celery.log").read_text().count("succeeded") == 3  # noqa: E731
        wait_until(done, what="three tasks")
    assert delivered(receiver, 3)


@pytest.mark.parametrize("kind", ["Worker", "SpawnWorker"])
def test_rq_delivers_what_the_process_of_a_job_holds(
    kind: str, tmp_path: Path, receiver: Receiver, environment: Mapping[str, str]
) -> None:
    """It is forked or spawned for one job, and ends by `os._exit`."""
    redis = RedisServer(tmp_path)
    redis.start()
    try:
        run(
            "-c",
            "import redis, rq, sys\n"
            "queue = rq.Queue(connection=redis.Redis.from_url(sys.argv[1]))\n"
            "for n in range(2): queue.enqueue('jobs.work', n)",
            redis.address, cwd=tmp_path, env=environment,
        )  # fmt: skip
        worker = ("-m", "rq.cli", "worker", "--burst", "--worker-class", f"rq.worker.{kind}")
        run(*worker, "--url", redis.address, cwd=tmp_path, env=environment)
    finally:
        redis.stop()
    assert delivered(receiver)


CODE = """
import os, sys, threading, time
from scouter.transport.worker import BatchWorker

seconds, opening, is_open = float(sys.argv[1]), threading.Event(), []

def open_send():
    opening.set()
    time.sleep(seconds)
    is_open.append(True)
    return (lambda items, dropped: 0), (lambda: None)

worker = BatchWorker("t", open_send)
worker.put(1, 1)
opening.wait(10)
began = time.monotonic()
child = os.fork()
if child == 0:
    os._exit(len(is_open))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), time.monotonic() - began)
child = os.fork()
if child == 0:
    worker.put(1, 1)
    os._exit(not worker.flush(20))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
worker.close()
"""


@pytest.mark.parametrize(("seconds", "opened"), [(0.2, 1), (1.5, 0)])
def test_a_fork_waits_for_a_transport_that_is_being_made_but_not_for_long(
    seconds: float, opened: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(seconds)],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    first, took_s, second = done.stdout.split()
    assert (int(first), int(second)) == (opened, 0)
    assert float(took_s) >= min(seconds, 0.5) * 0.5
