"""The command `scouter collector`."""

import logging
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from collector.care_commands import backup, check, export, restore
from collector.log_lines import JsonLines
from collector.process import tune_process
from collector.settings.load import load_settings
from collector.settings.model import CollectorSettings
from collector.settings.page import HEADINGS, describe, group_of
from scouter.errors import ConfigError


def _option(name: str, *, metavar: str | None = None) -> Any:  # noqa: ANN401 typer's own type
    return typer.Option(
        f"--{name.replace('_', '-')}",
        help=describe(name),
        metavar=metavar,
        show_default=False,  # `describe` says it
    )


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


@collector.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="YAML file with any of these settings, by name."),
    ] = None,
    role: Annotated[str | None, _option("role", metavar="all|gateway|worker|api")] = None,
    postgresql: Annotated[str | None, _option("postgresql", metavar="ADDRESS")] = None,
    fleet_topic: Annotated[str | None, _option("fleet_topic")] = None,
    fleet_group: Annotated[str | None, _option("fleet_group")] = None,
    fleet_partitions: Annotated[int | None, _option("fleet_partitions")] = None,
    fleet_name: Annotated[str | None, _option("fleet_name")] = None,
    past: Annotated[str | None, _option("past", metavar="FOLDER")] = None,
    backups: Annotated[str | None, _option("backups", metavar="FOLDER")] = None,
    data: Annotated[str | None, _option("data", metavar="DIR")] = None,
    listen: Annotated[str | None, _option("listen", metavar="HOST:PORT")] = None,
    grpc: Annotated[str | None, _option("grpc", metavar="HOST:PORT|off")] = None,
    profile: Annotated[list[str] | None, _option("profile", metavar="FILE|NAME")] = None,
    kafka: Annotated[str | None, _option("kafka", metavar="BOOTSTRAP")] = None,
    space: Annotated[str | None, _option("space")] = None,
    price_file: Annotated[str | None, _option("price_file", metavar="FILE")] = None,
    tls_cert: Annotated[str | None, _option("tls_cert", metavar="FILE")] = None,
    tls_key: Annotated[str | None, _option("tls_key", metavar="FILE")] = None,
    max_requests_per_s: Annotated[float | None, _option("max_requests_per_s")] = None,
    max_connections: Annotated[int | None, _option("max_connections")] = None,
    keep_alive_s: Annotated[str | None, _option("keep_alive_s", metavar="DURATION")] = None,
    trusted_proxies: Annotated[
        str | None, _option("trusted_proxies", metavar="ADDRESS[,ADDRESS…]")
    ] = None,
    ready_file: Annotated[str | None, _option("ready_file", metavar="PATH")] = None,
    settle_s: Annotated[str | None, _option("settle_s", metavar="TIME")] = None,
    foreign_settle_s: Annotated[str | None, _option("foreign_settle_s", metavar="TIME")] = None,
    quiet_s: Annotated[str | None, _option("quiet_s", metavar="TIME")] = None,
    deadline_s: Annotated[str | None, _option("deadline_s", metavar="TIME")] = None,
    late_window_s: Annotated[str | None, _option("late_window_s", metavar="TIME")] = None,
    max_hold_s: Annotated[str | None, _option("max_hold_s", metavar="TIME")] = None,
    session_quiet_s: Annotated[str | None, _option("session_quiet_s", metavar="TIME")] = None,
    session_deadline_s: Annotated[str | None, _option("session_deadline_s", metavar="TIME")] = None,
    memory_limit: Annotated[str | None, _option("memory_limit", metavar="SIZE")] = None,
    retention_days: Annotated[float | None, _option("retention_days", metavar="DAYS")] = None,
    max_store_bytes: Annotated[str | None, _option("max_store_bytes", metavar="SIZE")] = None,
    max_body: Annotated[str | None, _option("max_body", metavar="SIZE")] = None,
    max_inflated: Annotated[str | None, _option("max_inflated", metavar="SIZE")] = None,
    max_in_flight: Annotated[str | None, _option("max_in_flight", metavar="SIZE")] = None,
    max_items: Annotated[int | None, _option("max_items")] = None,
    max_item: Annotated[str | None, _option("max_item", metavar="SIZE")] = None,
    max_attributes: Annotated[int | None, _option("max_attributes")] = None,
    max_behind: Annotated[str | None, _option("max_behind", metavar="SIZE")] = None,
    drain_s: Annotated[str | None, _option("drain_s", metavar="TIME")] = None,
    log_format: Annotated[str | None, _option("log_format", metavar="text|json")] = None,
    kafka_spans_topic: Annotated[str | None, _option("kafka_spans_topic")] = None,
    kafka_records_topic: Annotated[str | None, _option("kafka_records_topic")] = None,
    kafka_logs_topic: Annotated[str | None, _option("kafka_logs_topic")] = None,
    kafka_group: Annotated[str | None, _option("kafka_group")] = None,
    kafka_session_s: Annotated[str | None, _option("kafka_session_s", metavar="TIME")] = None,
    kafka_security_protocol: Annotated[str | None, _option("kafka_security_protocol")] = None,
    kafka_sasl_mechanism: Annotated[str | None, _option("kafka_sasl_mechanism")] = None,
    kafka_sasl_username: Annotated[str | None, _option("kafka_sasl_username")] = None,
    kafka_ssl_cafile: Annotated[str | None, _option("kafka_ssl_cafile", metavar="FILE")] = None,
    kafka_ssl_certfile: Annotated[str | None, _option("kafka_ssl_certfile", metavar="FILE")] = None,
    kafka_ssl_keyfile: Annotated[str | None, _option("kafka_ssl_keyfile", metavar="FILE")] = None,
    rabbitmq: Annotated[str | None, _option("rabbitmq", metavar="ADDRESS")] = None,
    rabbitmq_spans_queue: Annotated[str | None, _option("rabbitmq_spans_queue")] = None,
    rabbitmq_records_queue: Annotated[str | None, _option("rabbitmq_records_queue")] = None,
    rabbitmq_username: Annotated[str | None, _option("rabbitmq_username")] = None,
    rabbitmq_ssl_cafile: Annotated[
        str | None, _option("rabbitmq_ssl_cafile", metavar="FILE")
    ] = None,
    providers_file: Annotated[str | None, _option("providers_file", metavar="FILE")] = None,
    judge_concurrency: Annotated[int | None, _option("judge_concurrency")] = None,
    judge_daily_budget_usd: Annotated[
        float | None, _option("judge_daily_budget_usd", metavar="USD")
    ] = None,
    judge_cache_bytes: Annotated[
        str | None, _option("judge_cache_bytes", metavar="SIZE|off")
    ] = None,
    judge_cache_days: Annotated[float | None, _option("judge_cache_days")] = None,
    calibrations: Annotated[str | None, _option("calibrations", metavar="FILE|FOLDER")] = None,
    gold: Annotated[str | None, _option("gold", metavar="FILE")] = None,
    gold_per_day: Annotated[float | None, _option("gold_per_day", metavar="N")] = None,
    gold_window: Annotated[int | None, _option("gold_window", metavar="N")] = None,
    scores: Annotated[bool | None, _option("scores")] = None,
    drift: Annotated[str | None, _option("drift", metavar="on|shadow|off")] = None,
    drift_shadow: Annotated[list[str] | None, _option("drift_shadow", metavar="ALIAS")] = None,
    drift_alpha: Annotated[float | None, _option("drift_alpha", metavar="CHANCE")] = None,
    drift_detector: Annotated[
        str | None, _option("drift_detector", metavar="chance|run-length")
    ] = None,
    drift_run_length: Annotated[int | None, _option("drift_run_length", metavar="UNITS")] = None,
    public_url: Annotated[str | None, _option("public_url", metavar="ADDRESS")] = None,
    alerts_alertmanager: Annotated[
        str | None, _option("alerts_alertmanager", metavar="ADDRESS")
    ] = None,
    alerts_heartbeat_s: Annotated[str | None, _option("alerts_heartbeat_s", metavar="TIME")] = None,
    alerts_pagerduty_base: Annotated[
        str | None, _option("alerts_pagerduty_base", metavar="ADDRESS")
    ] = None,
    results_otlp: Annotated[str | None, _option("results_otlp", metavar="ADDRESS")] = None,
    redis: Annotated[str | None, _option("redis", metavar="ADDRESS")] = None,
    redis_spans_stream: Annotated[str | None, _option("redis_spans_stream")] = None,
    redis_records_stream: Annotated[str | None, _option("redis_records_stream")] = None,
    redis_group: Annotated[str | None, _option("redis_group")] = None,
    redis_username: Annotated[str | None, _option("redis_username")] = None,
    redis_ssl_cafile: Annotated[str | None, _option("redis_ssl_cafile", metavar="FILE")] = None,
    accept_loss: Annotated[
        bool | None,
        typer.Option(
            "--accept-loss",
            help="If data is gone or damaged, start with the rest and count the loss. A flag for "
            "one start, not a setting.",
        ),
    ] = None,
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
    given = dict(locals())
    file = given.pop("config")
    del given["context"], given["accept_loss"]
    # DuckDB makes its files for everybody whom the umask lets; they hold what people wrote.
    context.call_on_close(partial(os.umask, os.umask(0o077)))
    if context.invoked_subcommand is not None:
        _refuse({**given, "accept_loss": accept_loss}, file)
        return
    settings = load_settings(given, file)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its own lines; ours say what they do
    _log_to_stderr(settings.log_format == "json")
    tune_process()
    from collector.service import run_collector  # the service's packages take most of the start

    run_collector(settings, accept_loss=bool(accept_loss))


def _refuse(given: Mapping[str, object], file: object) -> None:
    """Refuse settings in front of a command, which would not see them."""
    unused = [name for name, value in {**given, "config": file}.items() if value is not None]
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
