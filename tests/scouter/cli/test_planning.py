"""`scouter eval --plan`: stored runs say what a check would see; nothing runs."""

import json
import shlex
from pathlib import Path

import pytest

from tests.scouter.cli.conftest import Scouter
from tests.scouter.cli.test_asking_again import CHECK, RUN, messages, shop
from tests.scouter.cli.test_eval import one_line

__all__ = ("shop",)  # the fixture


def test_a_plan_runs_nothing(shop: Path, scouter: Scouter) -> None:
    done = scouter(*CHECK, "--plan", "--repeats", "2", "--json", "plan.json")
    assert done.returncode == 0, done.stderr
    assert not (shop / "messages.txt").exists()
    lines = done.stdout.splitlines()
    assert lines[0] == "Plan for 2 scenarios; in b.json 2 of 2 attempts passed."
    rows = [line.split()[:3] for line in lines if line.strip()[:1].isdigit()]
    assert rows == [
        ["2", "as", "stored"],
        *(
            [repeats, runs, noun]
            for repeats in "1235"
            for runs, noun in (("1", "run"), ("3", "runs"))
        ),
    ]
    assert len(lines) <= 30, "one screen"
    plan = json.loads((shop / "plan.json").read_text(encoding="utf-8"))
    assert (plan["scenarios"], plan["attempts"], len(plan["outlooks"])) == (2, 1, 9)
    assert plan["recommended"] in plan["outlooks"]
    assert plan["price"]["seconds"] > 0
    assert plan["price"]["judge_usd"] is None, "no judge was called"


def test_the_command_to_type_works(shop: Path, scouter: Scouter) -> None:
    """The last line, and the one that makes the baseline larger."""
    done = scouter(*CHECK, "--plan")
    commands = [
        shlex.split(line) for line in done.stdout.splitlines() if line.startswith("  scouter eval ")
    ]
    assert "--baseline" in commands[-1]
    assert all("--save" in command for command in commands[:-1])
    for command in commands:
        made = scouter(*command[1:])
        assert made.returncode == 0, made.stderr
    assert messages(shop)["paris"] >= len(commands)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param((), "there is no --baseline FILE. Run this on the version", id="no-baseline"),
        pytest.param(("--baseline", "gone.json"), "there is no gone.json. Run this", id="no-file"),
        pytest.param(("--interleave", "again:earlier"), "no --baseline FILE", id="interleave"),
        pytest.param(("--baseline", "b.json", "--html", "p.html"), "--html has nothing", id="html"),
        pytest.param(("--baseline", "b.json", "--save", "x.json"), "--save has nothing", id="save"),
    ],
)
def test_what_a_plan_needs(
    shop: Path, scouter: Scouter, options: tuple[str, ...], message: str
) -> None:
    done = scouter(*RUN, "--plan", *options)
    assert done.returncode == 2
    assert message in one_line(done)


def test_without_stored_runs_it_says_how_to_make_them(shop: Path, scouter: Scouter) -> None:
    line = one_line(scouter(*RUN, "--plan", "--baseline", "gone.json"))
    command = shlex.split(line.partition("three times: ")[2])
    assert scouter(*command[1:]).returncode == 0
    assert scouter(*RUN, "--plan", "--baseline", "gone.json").returncode == 0


def test_scenarios_that_are_new(shop: Path, scouter: Scouter) -> None:
    text = (shop / "shop.yaml").read_text(encoding="utf-8")
    (shop / "new.yaml").write_text(text.replace("id: paris", "id: rome"), encoding="utf-8")
    done = scouter("eval", "new.yaml", *CHECK[2:], "--plan")
    assert "Tells nothing: rome (not in the baseline)." in done.stdout
