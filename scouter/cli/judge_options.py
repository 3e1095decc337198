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

JudgeBudget = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="USD",
        help="Most that this run may spend on judges; what does not fit is skipped.",
    ),
]
