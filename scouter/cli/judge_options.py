"""Options that several commands about judges have."""

from pathlib import Path
from typing import Annotated

import typer

Providers = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Provider entries of judges: .yaml or .json; else those of your settings.",
    ),
]

JudgeTimeout = Annotated[
    float | None,
    typer.Option(
        min=0.001,
        metavar="SECONDS",
        help="Longest time for one answer of a judge; else the timeout_s of its provider entry, "
        "or the time_limit_s of --judge: 60 where neither says otherwise.",
    ),
]

JudgeBudget = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="USD",
        help="Most that this run may spend on judges; what does not fit is skipped.",
    ),
]

JudgeProfile = Annotated[
    str, typer.Option(metavar="FILE|NAME", help="Profile with the judge task.")
]

JudgeTask = Annotated[
    str | None,
    typer.Option(metavar="ID", help="The judge task, where the profile has several."),
]
