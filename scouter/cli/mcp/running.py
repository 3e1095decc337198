"""Tools that run commands: a profile tried and mutated on stored traces, and a release check."""

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL
from typing import Annotated, Any, Final, TypeAlias, cast

import anyio
from pydantic import Field

from scouter.cli.mcp.checks import active_profiles
from scouter.cli.mcp.reply import MOST_CHARS, Reply, Step, shown, written
from scouter.client.client import ScouterClient
from scouter.drift.profile import AgentEvalProfile, shipped_profiles
from scouter.errors import DataError
from scouter.evaluate.files.read import parse_yaml
from scouter.evaluate.mutate.score import runnable

_TRY_S: Final = 300
_ERRORS_CHARS: Final = 2_000
_REPORT: Final = (
    "decision", "headline", "reasons", "notes", "advice", "checks", "gates", "lost", "judge_rates",
    "tasks", "examples",
)  # fmt: skip
"""What an answer has of the report of `--json`."""
Written: TypeAlias = Annotated[
    str, Field(description="Its YAML or JSON, or the name of an active or ready-made one.")
]
_WORDS: Final[Mapping[int, str]] = {
    0: "go: nothing stops it",
    1: "stop: it regressed, missed a gate, ran into an error, lacked a judge, or evaluated nothing",
    2: "wrong input: nothing was decided",
    3: "inconclusive: cannot say; more repeats or scenarios would help",
}
"""Meanings of the exit codes of `scouter eval`."""


def _read_profile(client: ScouterClient, text: str) -> AgentEvalProfile:
    """Read a profile as it came over the network: it names no files.

    Raises:
        ConfigError: It is wrong, says where; or a name that no profile has.
    """
    if text.strip() in shipped_profiles():
        return AgentEvalProfile.from_file(text.strip())
    document = parse_yaml("profile", text)
    value = document.value
    if not isinstance(value, dict | list):  # YAML reads some names as a number, a date or a flag
        name = value if isinstance(value, str) else text.strip()
        value = client.profile(active_profiles(client, name)[0].uid).body
    try:
        return AgentEvalProfile.model_validate(value)
    except ValueError as error:
        raise document.wrap(error, model=AgentEvalProfile) from error


async def try_profile(
    client: ScouterClient,
    profile: Written,
    since: Annotated[str, Field(description="Stored traces from then on, such as 24h.")] = "24h",
    every_trace: Annotated[
        bool, Field(description="Also those that its watch does not select, or of no agent.")
    ] = False,
) -> Reply:
    """Judge the stored traces by a profile that need not be registered.

    Stores nothing, and asks no model: checks that would are left out.
    """
    found = await anyio.to_thread.run_sync(_read_profile, client, profile)
    tasks = runnable(found.tasks)  # who may read need not be one who may spend on judges
    says = [f"{len(tasks)} of {len(found.tasks)} checks were tried. Nothing was stored."]
    if len(tasks) < len(found.tasks):
        says.append("cannot say of the others: they ask a judge, read a session, or need one.")
    if not tasks:
        return Reply(says=says)
    tried = AgentEvalProfile(
        tasks, alias=found.alias, watch=found.watch, calls_told_by=found.calls_told_by
    )
    with tempfile.TemporaryDirectory(prefix="scouter-mcp-") as folder:
        file = str(tried.save_to_json(Path(folder) / "profile.json"))
        what = ["--profile", file, "--traces", client.url, "--since", since]
        what += ["--every-trace"] if every_trace else []
        reply = await _eval(what, _TRY_S, client.environment)
    return Reply(says=[*reply.says, *says], data=reply.data)


async def mutate_profile(
    client: ScouterClient,
    profile: Written,
    since: Annotated[str, Field(description="Stored traces from then on, such as 24h.")] = "24h",
) -> Reply:
    """Put faults into the stored traces that pass a profile, and say which its checks see.

    For the others checks are proposed that see the fault and fail no good trace. Stores nothing,
    and asks no model.
    """
    found = await anyio.to_thread.run_sync(_read_profile, client, profile)
    with tempfile.TemporaryDirectory(prefix="scouter-mcp-") as folder:
        file = str(found.save_to_json(Path(folder) / "profile.json"))
        what = ["profile", "mutate", file, client.url, "--since", since, "--json"]
        code, text, errors = await _run(what, _TRY_S, client.environment)
    score = cast("dict[str, Any]", json.loads(text or "{}"))
    says = (
        f"{score.get('seen')} of {score.get('tried')} kinds of faults are seen (exit code {code})."
    )
    if score.get("score") is None:
        says = f"cannot say: no fault could be put into a trace that passes (exit code {code})."
    tasks = {task["id"]: task for each in score.get("faults", ()) for task in each["proposed"]}
    more = ["checks that would see more, for `tasks` of the profile:", *written([*tasks.values()])]
    lines = [*errors, *shown(score, "proposed"), *(more if tasks else ())]
    step = Step("try_profile", "a profile with such checks, over the same traces", {})
    return Reply(says=[says], data=_cut(lines), steps=[step] if tasks else ())


async def run_release_check(
    _client: ScouterClient,
    scenarios: Annotated[str, Field(description="Scenario file, such as shop.yaml.")],
    agent: Annotated[str, Field(description="MODULE:NAME, an address, or a file.")],
    baseline: Annotated[
        str | None, Field(description="Earlier results (--save) to compare with.")
    ] = None,
    profile: Annotated[
        Sequence[str], Field(description="Profiles for the agent's records: files or names.")
    ] = (),
    options: Annotated[
        Sequence[str], Field(description="More options of `scouter eval`, such as --repeats, 5.")
    ] = (),
    timeout_s: Annotated[int, Field(ge=1, le=3_600)] = 600,
) -> Reply:
    """Run scenarios against the agent as it is now, and decide about its release.

    It is `scouter eval` in the folder where this server was started. The exit code is 0 go, 1 stop,
    2 wrong input, 3 inconclusive.
    """
    command = [
        scenarios,
        "--agent",
        agent,
        *(each for one in profile for each in ("--profile", one)),
    ]
    command += ["--baseline", baseline] if baseline is not None else []
    reply = await _eval([*command, *options], timeout_s, {})
    released = Step("what_got_worse", "once it is released: did it get better?", {})
    steps = [released] if reply.says[0].startswith("Exit code 0:") else []
    return Reply(says=reply.says, data=reply.data, steps=steps)


async def _eval(
    arguments: Sequence[str], timeout_s: float, environment: Mapping[str, str]
) -> Reply:
    """Run `scouter eval`; the answer has its exit code and its report."""
    with tempfile.TemporaryDirectory(prefix="scouter-mcp-") as folder:
        file = Path(folder) / "report.json"
        output = ["--json", str(file), "--quiet"]
        code, _, errors = await _run(["eval", *arguments, *output], timeout_s, environment)
        text = file.read_text(encoding="utf-8") if file.exists() else "{}"
    report = cast("dict[str, object]", json.loads(text))
    lines = [*errors, *shown({name: report.get(name) for name in _REPORT})]
    says = [f"Exit code {code}: {_WORDS.get(code, 'it ended early')}."]
    return Reply(says=says, data=_cut(lines))


def _cut(lines: Sequence[str]) -> Sequence[str]:
    """As much as one answer has room for: to run it again for the rest would take too long."""
    return "\n".join(lines)[:MOST_CHARS].splitlines()


async def _run(
    arguments: Sequence[str], timeout_s: float, environment: Mapping[str, str]
) -> tuple[int, str, Sequence[str]]:
    """Run the program in a process of its own: an agent's code may have changed since.

    Returns:
        The exit code, its standard output, and the end of its standard error.

    Raises:
        DataError: It took too long, and was killed.
    """
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
        try:
            with anyio.fail_after(timeout_s):
                done = await anyio.run_process(
                    [sys.executable, "-m", "scouter.cli.app", *arguments],
                    stdin=DEVNULL, stdout=printed, stderr=errors, check=False,
                    env={**os.environ, **environment},
                )  # fmt: skip
        except TimeoutError as error:
            raise DataError(f"it did not end within {timeout_s:g} s, and was ended") from error
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - _ERRORS_CHARS))
        printed.seek(0)
        text, end = (each.read().decode("utf-8", errors="replace") for each in (printed, errors))
        return done.returncode, text, end.splitlines()
