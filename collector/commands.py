"""The command `scouter collector`."""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import typer
from pydantic import BeforeValidator, SecretStr
from typer.core import TyperGroup

from collector.care_commands import backup, check, export, restore
from collector.log_lines import JsonLines
from collector.process import tune_process
from collector.settings.load import load_settings
from collector.settings.model import CollectorSettings
from collector.settings.page import HEADINGS, describe, group_of
from collector.settings.values import (
    parse_base,
    parse_bytes,
    parse_bytes_or_off,
    parse_listen,
    parse_listen_or_off,
    parse_otlp_address,
    parse_seconds,
)
from scouter.agent.entries import ProviderEntries
from scouter.errors import ConfigError

_READ_BY: Final[Mapping[object, str]] = {
    parse_seconds: "TIME", parse_bytes: "SIZE", parse_bytes_or_off: "SIZE|off",
    parse_base: "ADDRESS", parse_otlp_address: "ADDRESS",
    parse_listen: "HOST:PORT", parse_listen_or_off: "HOST:PORT|off",
}  # fmt: skip
"""Words for values in help, by the function that reads them."""
_NAMED: Final = {
    "data": "DIR", "backups": "FOLDER", "past": "FOLDER", "calibrations": "FILE|FOLDER",
    "ready_file": "PATH", "profile": "FILE|NAME", "kafka": "BOOTSTRAP",
    "postgresql": "ADDRESS", "redis": "ADDRESS", "rabbitmq": "ADDRESS",
    "trusted_proxies": "ADDRESS[,ADDRESS…]", "keep_alive_s": "DURATION",
    "retention_days": "DAYS", "judge_daily_budget_usd": "USD", "gold_per_day": "N",
    "gold_window": "N", "drift_shadow": "ALIAS", "drift_alpha": "CHANCE",
    "drift_run_length": "UNITS",
}  # fmt: skip
"""The same by setting, where its kind does not say it."""
_REPEATED: Final = ("profile", "drift_shadow")


def _inside(annotation: object) -> Iterator[object]:
    """A type, and all that it is made of."""
    yield annotation
    for each in get_args(annotation):
        yield from _inside(each)


def _options() -> Iterator[Parameter]:
    """A flag for each setting; secrets have none, nor has the list of providers."""
    for name, field in CollectorSettings.model_fields.items():
        parts = [*_inside(field.annotation), *field.metadata]
        if SecretStr in parts or ProviderEntries in parts:
            continue
        readers = [each.func for each in parts if isinstance(each, BeforeValidator)]
        words = [_READ_BY[each] for each in readers if each in _READ_BY]
        words += ["|".join(get_args(each)) for each in parts if get_origin(each) is Literal]
        words += ["FILE"] * (Path in parts)
        plain = [each for each in (bool, int, float) if each in parts and not readers]
        kind: Any = list[str] if name in _REPEATED else (*plain, str)[0]
        option = typer.Option(
            f"--{name.replace('_', '-')}",
            help=describe(name),
            metavar=_NAMED.get(name) or next(iter(words), None),
            show_default=False,  # `describe` says it
        )
        annotation = Annotated[kind | None, option]
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


class _Grouped(TyperGroup):
    """Shows settings in help under the headings of their page."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 typer's private click
        """Write options, then commands."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for each in self.get_params(ctx):
            name = each.name or ""
            heading = group_of(name) if name in CollectorSettings.model_fields else "Options"
            if (record := each.get_help_record(ctx)) is not None:
                groups.setdefault(heading, []).append(record)
        for heading in sorted(groups, key=HEADINGS.index):
            with formatter.section(heading):
                formatter.write_dl(groups[heading])
        self.format_commands(ctx, formatter)


collector: Final = typer.Typer(
    name="collector",
    cls=_Grouped,
    add_completion=False,
    # Panels cut the names of environment variables off at 80 columns.
    rich_markup_mode=None,
)
for _command, _short in (
    (backup, "Copy a store and its tokens."),
    (restore, "Make a data folder of a backup."),
    (export, "Write every table into a Parquet file."),
    (check, "Verify a store and show its sheet."),
):
    collector.command(short_help=_short)(_command)


def start(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="YAML file with any of these settings, by name."),
    ] = None,
    accept_loss: Annotated[
        bool | None,
        typer.Option(
            "--accept-loss",
            help="If data is gone or damaged, start with the rest and count the loss. A flag for "
            "one start, not a setting.",
        ),
    ] = None,
    **given: Any,  # noqa: ANN401 as `_options` declares them
) -> None:
    """Receive spans and records, evaluate them by profiles, and serve the results.

    Without a subcommand the collector starts, and runs until it is stopped.

    A setting is a flag, an environment variable (the name in brackets) or a line of the settings
    file. A flag wins over the environment, the environment over the file. Secrets have no flag:
    they come from the environment (SCOUTER_COLLECTOR_KAFKA_SASL_PASSWORD, …_REDIS_PASSWORD,
    …_RABBITMQ_PASSWORD, …_RESULTS_OTLP_HEADERS, …_ALERTS_SLACK_URL and the like) or the file.

    \b
        scouter collector --profile geographer.yaml
        scouter collector --profile agent_health --data /var/lib/scouter
        scouter collector --kafka broker:9092 --config collector.yaml
    """  # noqa: D301 the mark of lines that click leaves as they are
    # DuckDB makes its files for everybody whom the umask lets; they hold what people wrote.
    context.call_on_close(partial(os.umask, os.umask(0o077)))
    if context.invoked_subcommand is not None:
        _refuse({"config": config, "accept_loss": accept_loss, **given})
        return
    settings = load_settings(given, config)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its own lines; ours say what they do
    _log_to_stderr(settings.log_format == "json")
    tune_process()
    from collector.service import run_collector  # the service's packages take most of the start

    run_collector(settings, accept_loss=bool(accept_loss))


def _declared() -> Signature:
    """The parameters of `start` with those of the settings in the place of `given`."""
    *own, _ = signature(start).parameters.values()
    return Signature([*own, *_options()])


start.__signature__ = _declared()  # pyright: ignore[reportFunctionMemberAccess] what typer reads
collector.callback(invoke_without_command=True)(start)


def _refuse(given: Mapping[str, object]) -> None:
    """Refuse settings in front of a command, which would not see them."""
    unused = [name for name, value in given.items() if value is not None]
    if unused:
        option = f"--{unused[0].replace('_', '-')}"
        raise ConfigError(f"{option} in front of a command: put the command first")


def _log_to_stderr(as_json: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(JsonLines() if as_json else plain)
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.getLogger("collector").setLevel(logging.INFO)
    # The client speaks several times a second while no broker answers; the receiver says it once.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    logging.getLogger("pika").setLevel(logging.CRITICAL)
