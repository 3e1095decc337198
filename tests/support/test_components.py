"""The rule about missing parts: skipped with the way to get them, or failed where demanded."""

import sys
from pathlib import Path

import pytest

from tests.support.components import PARTS, require, required_parts
from tests.support.processes import ManagedProcess, free_ports, wait_until


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param("", set[str](), id="unset"),
        pytest.param("kafka", {"kafka"}, id="one"),
        pytest.param(" kafka ,promtool,", {"kafka", "promtool"}, id="blanks-and-comma"),
    ],
)
def test_required_parts(text: str, names: set[str]) -> None:
    assert required_parts({"SCOUTER_REQUIRE": text}) == names


def test_a_typing_mistake_demands_nothing_and_is_refused() -> None:
    with pytest.raises(ValueError, match=r"names \['kafak'\]; tests know \['agent-traces'"):
        required_parts({"SCOUTER_REQUIRE": "kafak"})


@pytest.mark.parametrize("part", sorted(PARTS))
def test_a_missing_part_skips_and_says_how_it_is_had(part: str) -> None:
    with pytest.raises(pytest.skip.Exception) as skipped:
        require(part, present=False, detail="no such program", environ={})

    assert skipped.value.msg == f"needs {part} (no such program): {PARTS[part]}"


def test_a_missing_part_that_is_demanded_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"SCOUTER_REQUIRE names 'kafka', but"):
        require("kafka", present=False, environ={"SCOUTER_REQUIRE": "promtool,kafka"})


def test_a_part_that_is_there_lets_the_test_go_on() -> None:
    require("kafka", present=True, environ={"SCOUTER_REQUIRE": "kafka"})


def test_free_ports_differ() -> None:
    assert len(set(free_ports(10))) == 10


def test_wait_until_names_what_it_waited_for() -> None:
    with pytest.raises(AssertionError, match=r"not within 0 s: the answer; last answer: 0"):
        wait_until(lambda: 0, what="the answer", timeout_s=0)


def test_a_process_is_stopped_with_its_children(tmp_path: Path) -> None:
    """The child ignores SIGTERM and would live for a minute; the group's end takes it along."""
    child = (
        "import signal,time,os;signal.signal(signal.SIGTERM,signal.SIG_IGN);"
        f"open({str(tmp_path / 'child')!r},'w').write(str(os.getpid()));time.sleep(60)"
    )
    parent = (
        f"import subprocess,sys,time;subprocess.Popen([sys.executable,'-c',{child!r}]);"
        "print('up',flush=True);time.sleep(60)"
    )
    process = ManagedProcess([sys.executable, "-c", parent], log=tmp_path / "log")
    pid_file = tmp_path / "child"
    pid = int(process.wait_ready(lambda: pid_file.exists() and pid_file.read_text()))

    assert process.stop() == -15
    wait_until(lambda: not _is_alive(pid), what="the child is gone")
    assert process.tail() == "up"


def _is_alive(pid: int) -> bool:
    """True if a process runs; one that ended and was not collected yet does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rsplit(")", 1)[1].split()[0] != "Z"


def test_a_process_that_ends_early_shows_its_last_words(tmp_path: Path) -> None:
    process = ManagedProcess(
        [sys.executable, "-c", "raise SystemExit('no port left')"], log=tmp_path / "log"
    )
    with pytest.raises(AssertionError, match=r"ended with 1:\nno port left"):
        process.wait_ready(lambda: False)
    process.stop()
