"""The commands `scouter scenarios …`."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from scouter.cli.asking import (
    Json,
    ProfileName,
    Since,
    TokenFile,
    Until,
    Url,
    connect,
    moment,
    print_lines,
)
from scouter.cli.check_options import Checks, JudgeBudget, JudgeTimeout, Providers, group
from scouter.cli.outputs import check_writable
from scouter.errors import ConfigError, FileFormatError, ScouterError
from scouter.model.visible import one_line, visible

if TYPE_CHECKING:
    from pydantic import JsonValue

    from scouter.agent.model_judge import ModelJudge
    from scouter.client.harvest import Harvest
    from scouter.evaluate.journey.evaluate import Compat
    from scouter.evaluate.judge.ask import JudgeCaller
    from scouter.evaluate.scenario import EvalScenarios
    from scouter.replay.made.cases import Made, Making


_NOT_ALL = 1
_NOTHING = 1


def generate(
    output: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Scenario file to write: .yaml or .jsonl."),
    ],
    tools: Annotated[
        list[str],
        typer.Option(
            metavar="FILE|MODULE:NAME",
            help="The agent's tools: a file of definitions as OpenAI, Anthropic or MCP write them, "
            "a function, or a list of functions. Can be given several times.",
        ),
    ],
    stories: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Who the users are and what they want: .yaml or .json with a list of texts or of "
            "{id, story}, or .csv with a column story.",
        ),
    ],
    model: Annotated[
        str,
        typer.Option(metavar="ENTRY/MODEL", help="A model of a provider entry, which writes them."),
    ],
    conversations: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Scenarios of `scouter scenarios harvest`: examples of how users write.",
        ),
    ] = None,
    attacks: Annotated[
        str | None,
        typer.Option(
            metavar="all|KIND,KIND…",
            help="Attacks of users on the agent, in place of ordinary cases. Kinds: override, "
            "planted, authority, pressure, small_steps, hidden_words, other_people, misuse, "
            "role_play, instructions, off_topic, harm.",
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=50,
            metavar="N",
            help="Cases of each story (3), or of each story and kind of attack (1).",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Another number makes other cases.")] = 0,
    interactive: Annotated[
        bool,
        typer.Option(
            "--interactive", help="A simulated user plays the story, in place of fixed messages."
        ),
    ] = False,
    providers: Providers = None,
    judge_budget: JudgeBudget = None,
    judge_timeout: JudgeTimeout = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace an existing FILE, corrections included."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Have a model write scenarios, from the agent's tools and stories of its users.

    Each case has what the user says, and the calls of tools that a right agent makes. A case whose
    calls name an unknown tool or parameter, or break its schema, is thrown away and named. With
    `--attacks` the user attacks the agent, and the case fails where a call happens that must not,
    or where a judge sees that the agent gave in.

    Every case says how it was made, and has the mark `unreviewed: true`: `scouter eval` refuses it
    until a person has looked at it and deleted the mark.

    The exit code is 1 if there was nothing to write, or if a question got no answer of use; what
    the others gave is written. It is 2 if the command or a file is wrong, and 130 after Ctrl-C,
    when what was answered until then is written.

    **Examples**

        scouter scenarios generate a.yaml --tools shop:TOOLS --stories s.yaml --model openai/gpt-4o
        scouter scenarios generate a.yaml --tools t.json --stories s.yaml --model local/qwen -q

    With `--attacks all --count 2`, `--conversations seen.yaml`, `--judge-budget 0.50` and so on.
    Stories are a list:

        - Ann bought a lamp, order A-17, which came broken. She wants her money back.
        - {id: late, story: Bob waits for a lamp and does not know the number of his order.}
    """
    _check_output(output, overwrite=overwrite)
    from scouter.agent.entries import ProviderEntries  # the engine takes most of the start
    from scouter.agent.model_judge import ModelJudge
    from scouter.cli.release_check import INTERRUPTED
    from scouter.evaluate.judge.ask import JudgeCaller
    from scouter.replay.made.cases import Making
    from scouter.replay.made.material import (
        attacks_of,
        read_conversations,
        read_stories,
        write_cases,
    )
    from scouter.replay.made.tools import Tools
    from scouter.replay.named_run import entry_and_model

    making = Making(
        tools=Tools.read(tools),
        stories=read_stories(stories),
        attacks=() if attacks is None else attacks_of(attacks),
        conversations=read_conversations(conversations),
        count=count or (3 if attacks is None else 1),
        seed=seed,
        is_interactive=interactive,
        date=datetime.now(UTC).date().isoformat(),
    )
    entries = ProviderEntries.from_settings(providers)
    judge = ModelJudge(entries, budget_usd=judge_budget, timeout_s=judge_timeout)
    provider, name = entry_and_model(judge, model, "--model")
    caller = JudgeCaller(judge=judge, provider=provider, model=name)
    made = _made(making, caller, judge, is_quiet=quiet)
    _report_made(made)
    if made.scenarios:
        write_cases(output, made.scenarios)
        wanted = making.count * len(making.questions)
        typer.echo(f"wrote {output}: {len(made.scenarios)} of {wanted} cases, all unreviewed")
    else:
        typer.echo("no case to write; nothing was written", err=True)
    if made.is_interrupted:
        raise typer.Exit(INTERRUPTED)
    if made.failed or not made.scenarios:
        raise typer.Exit(_NOT_ALL)


def _check_output(file: Path, *, overwrite: bool) -> None:
    """Refuse a scenario file that cannot be written, or may have corrections of people in it."""
    from scouter.evaluate.files.scenario_text import check_scenario_path

    check_writable("FILE", file)
    check_scenario_path(file)
    if file.exists() and not overwrite:
        raise ConfigError(
            f"FILE {file}: it is there, and may hold what somebody corrected; give another name, "
            "or --overwrite to replace it"
        )


def _made(
    making: "Making", caller: "JudgeCaller", judge: "ModelJudge", *, is_quiet: bool
) -> "Made":
    import asyncio

    from scouter.replay.made.cases import make_cases
    from scouter.replay.progress import progress_bar

    async def work() -> "Made":
        try:
            return await make_cases(making, caller, progress)
        finally:
            await judge.close()

    with progress_bar(len(making.questions), 0, False if is_quiet else None) as progress:
        return asyncio.run(work())


def _report_made(made: "Made") -> None:
    for name, why in made.left_out:
        typer.echo(visible(f"left out a case of {name}: {why}"), err=True)
    for name, why in made.failed:
        typer.echo(visible(f"no answer for {name}: {why}"), err=True)
    from scouter.replay.reports.texts import counted

    usage = made.usage
    cost = "not known" if usage.cost_usd is None else f"{usage.cost_usd:.4f} USD"
    questions, left = counted(usage.calls, "question"), counted(len(made.left_out), "case")
    typer.echo(f"sent {questions}, cost {cost}; left out {left}", err=True)


def harvest(
    output: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Scenario file to write: .yaml or .jsonl; with --format a folder.",
        ),
    ],
    failed: Annotated[
        bool, typer.Option("--failed", help="Only records that failed or errored.")
    ] = False,
    sample: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="N records of all, the same at every call."),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, metavar="N", help="Without --sample: the newest N.")
    ] = 100,
    profile: ProfileName = None,
    session: Annotated[str | None, typer.Option(metavar="SESSION_ID")] = None,
    whole_sessions: Annotated[
        bool,
        typer.Option(
            "--whole-sessions",
            help="One scenario of each session, with what the user said in all its records; "
            "--limit and --sample count sessions.",
        ),
    ] = False,
    since: Since = None,
    until: Until = None,
    with_profile: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|NAME",
            help="Profile that judged, where the collector does not give its content. Can be "
            "given several times.",
        ),
    ] = None,
    save_profiles: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the profiles that judged, for `scouter eval`."),
    ] = None,
    file_format: Annotated[
        Literal["watsonx"] | None,
        typer.Option(
            "--format",
            help="Write ground-truth datasets of watsonx Orchestrate, of records that passed.",
        ),
    ] = None,
    compat: Annotated[
        Literal["sound", "wxo-1.6.9"],
        typer.Option(help="Datasets of --format: as documented, or as the original records them."),
    ] = "sound",
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace an existing FILE, corrections included."),
    ] = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Write stored traffic as scenarios, so that its failures become release checks.

    Each scenario repeats the user's question. It carries the failed tasks that need no record; the
    others need the profile. `expected_outcome` comes from the record or a task, if they state one.
    The agent's own answer and calls are marked as observed, for a person to correct. The same
    records give the same file. The exit code is 1 if there was nothing to write. An agent whose
    module sets up a queue with profiles is run without --profile.

        scouter scenarios harvest failures.yaml --failed --since 24h
        scouter scenarios harvest airline.yaml --profile airline --sample 50 --save-profiles .
        scouter scenarios harvest talk.yaml --session chat-7 --whole-sessions
        scouter scenarios harvest datasets --format watsonx --profile airline
        scouter eval failures.yaml --agent desk:answer --profile airline-5f2c1e0d9b8a.json
    """
    if file_format is not None and failed:
        raise ConfigError("--failed: a dataset wants what the agent did; what failed is no example")
    if file_format is None and compat != "sound":
        raise ConfigError(f"--compat {compat} belongs to --format watsonx")
    if save_profiles is not None and not save_profiles.is_dir():
        raise ConfigError(f"--save-profiles {save_profiles}: there is no such folder")
    from scouter.client.harvest import (
        Wanted,  # the engine takes most of the start
        write_scenarios,
    )
    from scouter.client.harvest import harvest as gather
    from scouter.drift.profile import AgentEvalProfile

    if file_format is None:
        _check_output(output, overwrite=overwrite)
    wanted = Wanted(
        failed=failed,
        profile=profile,
        session_id=session,
        since=moment(since, "--since"),
        until=moment(until, "--until"),
        limit=limit if sample is None else sample,
        is_sample=sample is not None,
        whole_sessions=whole_sessions,
    )
    known = [AgentEvalProfile.from_file(file) for file in with_profile or ()]
    with connect(url, token_file) as client:
        found = gather(client, wanted, known)
    _report_harvest(found)
    if not found.items:
        typer.echo("no record to make a scenario of; nothing was written", err=True)
        raise typer.Exit(_NOTHING)
    if file_format is None:
        write_scenarios(output, found.items)
        typer.echo(f"wrote {output}: {len(found.items)} scenarios")
    else:
        _write_datasets(output, found, compat, overwrite=overwrite)
    if save_profiles is not None:
        for digest, each in sorted(found.profiles.items()):
            name = "".join(letter if letter.isalnum() else "_" for letter in each.alias)
            path = each.save_to_json(save_profiles / f"{name}-{digest[:12]}.json")
            typer.echo(f"wrote {path}")


def _write_datasets(folder: Path, found: "Harvest", compat: "Compat", *, overwrite: bool) -> None:
    """Write the records that passed as datasets; the others are no examples."""
    from scouter.evaluate.outcome import Outcome
    from scouter.formats.watsonx.recorded import dataset_of, write_datasets

    datasets: dict[str, dict[str, JsonValue]] = {}
    for each in found.items:
        said = (each.scenario.metadata or {}).get("observed_answer")
        queries = [each.scenario.initial_query, *each.scenario.predefined_turns]
        answer = said if isinstance(said, str) else None
        dataset = dataset_of(each.scenario.id, queries, each.tool_calls, answer, compat=compat)
        was_right = all(one.outcome is Outcome.PASSED for one in (*each.earlier, each.evaluation))
        if was_right and dataset is not None:
            datasets[each.scenario.id] = dataset
    left = len(found.items) - len(datasets)
    if left:
        typer.echo(f"left out {left} records that did not pass, or did nothing", err=True)
    if not datasets:
        raise typer.Exit(_NOTHING)
    write_datasets(folder, datasets, overwrite=overwrite)
    typer.echo(f"wrote {folder}: {len(datasets)} datasets")


def _report_harvest(found: "Harvest") -> None:
    for each in found.silent:
        typer.echo(
            visible(f"left out {each.record_id or each.uid}: no stored text has the question"),
            err=True,
        )
    if found.silent:
        typer.echo(
            "what the user said is read from the messages on spans of model calls, else from the "
            "record's context: put it there as `question`",
            err=True,
        )
    for digest in sorted(found.unknown_profiles):
        typer.echo(
            visible(f"the profile {digest[:12]} cannot be read; its tasks are not in the file"),
            err=True,
        )


scenarios = group("scenarios", "Look after scenario files.")


scenarios.command()(harvest)
scenarios.command()(generate)


@scenarios.command()
def validate(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILES…", help="Scenario files: .yaml, .json, .jsonl.")
    ],
    *,
    checks: Checks = None,
    json: Json = False,
) -> None:
    """Check scenario files without running anything.

    Prints what each file holds, and warns of an `expected_outcome` that no task compares. The exit
    code is 2 if one of them is wrong; all are looked at.

        scouter scenarios validate scenarios.yaml more/*.jsonl
    """
    from scouter.evaluate.compare.gate_checks import check_tags
    from scouter.evaluate.scenario import EvalScenarios  # the engine takes most of the start
    from scouter.replay.setup_check import unread_warning

    broken = 0
    for file in files:
        row: dict[str, object] = {"file": str(file), "error": None, "warning": None}
        try:
            found = EvalScenarios.from_path(file)
            if found.gates is not None:
                check_tags(found.gates, [tag for scenario in found for tag in scenario.tags])
        except ScouterError as error:
            name = "" if isinstance(error, FileFormatError) else f"{file}: "
            typer.echo(f"scouter: {one_line(f'{name}{error}')}", err=True)
            row["error"] = str(error)
            broken += 1
        else:
            row |= _counts(found)
            if not json:
                typer.echo(f"{file}: {_summary(found)}")
            if warning := unread_warning(found):
                typer.echo(f"scouter: warning: {one_line(f'{file}: {warning}')}", err=True)
                row["warning"] = warning
        if json:
            print_lines([row])
    if broken:
        raise typer.Exit(2)


def _counts(found: "EvalScenarios") -> dict[str, object]:
    return {
        "scenarios": len(found),
        "with_tasks": sum(scenario.has_tasks() for scenario in found),
        "tasks": sum(len(scenario.tasks) for scenario in found),
        "multi_turn": sum(scenario.is_multi_turn() for scenario in found),
        "interactive": sum(scenario.is_interactive() for scenario in found),
        "required": sum(scenario.required for scenario in found),
        "unreviewed": sum(scenario.unreviewed for scenario in found),
        "tags": sorted({tag for scenario in found for tag in scenario.tags}),
        "has_gates": found.gates is not None,
    }


def _summary(found: "EvalScenarios") -> str:
    counts = _counts(found)
    parts = [
        f"{counts['scenarios']} scenarios",
        f"{counts['with_tasks']} with tasks ({counts['tasks']} in all)",
    ]
    for name in ("multi_turn", "interactive", "required", "unreviewed"):
        parts += [f"{counts[name]} {name.replace('_', '-')}"] if counts[name] else []
    tags = {tag for scenario in found for tag in scenario.tags}
    parts += [f"tags {', '.join(sorted(tags))}"] if tags else []
    parts += ["gates"] if counts["has_gates"] else []
    return ", ".join(parts)
