"""The command `scouter scenarios generate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scouter.cli.judge_options import JudgeBudget, JudgeTimeout, Providers
from scouter.cli.outputs import check_writable
from scouter.errors import ConfigError
from scouter.model.visible import visible

if TYPE_CHECKING:
    from scouter.agent.model_judge import ModelJudge
    from scouter.evaluate.judge.ask import AskedJudge
    from scouter.replay.made.cases import Made, Making

_NOT_ALL = 1


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
            help="Scenarios of `scouter scenarios harvest`: examples of how users talk.",
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
    seed: Annotated[
        int, typer.Option(metavar="N", help="Another number asks for other cases.")
    ] = 0,
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
    check_writable("FILE", output)
    from scouter.evaluate.files.scenario_text import check_scenario_path

    check_scenario_path(output)
    if output.exists() and not overwrite:
        raise ConfigError(
            f"FILE {output}: it is there, and may hold what somebody corrected; give another name, "
            "or --overwrite to replace it"
        )
    from scouter.agent.entries import ProviderEntries  # the engine takes most of the start
    from scouter.agent.model_judge import ModelJudge
    from scouter.cli.release_check import INTERRUPTED
    from scouter.evaluate.judge.ask import AskedJudge
    from scouter.replay.made.case_file import write_cases
    from scouter.replay.made.cases import Making
    from scouter.replay.made.material import attacks_of, read_conversations, read_stories
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
        date=_today(),
    )
    entries = ProviderEntries.from_settings(providers)
    judge = ModelJudge(entries, budget_usd=judge_budget, timeout_s=judge_timeout)
    provider, name = entry_and_model(judge, model, "--model")
    asked = AskedJudge(judge=judge, provider=provider, model=name)
    made = _made(making, asked, judge, is_quiet=quiet)
    _tell(made)
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


def _made(making: "Making", asked: "AskedJudge", judge: "ModelJudge", *, is_quiet: bool) -> "Made":
    import asyncio

    from scouter.replay.made.cases import make_cases
    from scouter.replay.progress import progress_bar

    async def work() -> "Made":
        try:
            return await make_cases(making, asked, progress)
        finally:
            await judge.close()

    with progress_bar(len(making.questions), 0, False if is_quiet else None) as progress:
        return asyncio.run(work())


def _tell(made: "Made") -> None:
    for name, why in made.left_out:
        typer.echo(visible(f"left out a case of {name}: {why}"), err=True)
    for name, why in made.failed:
        typer.echo(visible(f"no answer for {name}: {why}"), err=True)
    from scouter.replay.reports.texts import counted

    usage = made.usage
    cost = "not known" if usage.cost_usd is None else f"{usage.cost_usd:.4f} USD"
    asked, left = counted(usage.calls, "question"), counted(len(made.left_out), "case")
    typer.echo(f"asked {asked}, cost {cost}; left out {left}", err=True)


def _today() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).date().isoformat()
