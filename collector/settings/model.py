"""The collector's settings: one model for flags, environment, file and documentation."""

import os
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from collector.settings.values import (
    BaseUrl,
    Bytes,
    CacheBytes,
    HostPort,
    Seconds,
    SecretUrl,
    Space,
    Tls,
    check_networks,
    check_routing_key,
    parse_headers,
    parse_list,
    parse_listen,
    parse_listen_or_off,
    parse_otlp_address,
    parse_providers,
)
from scouter.agent.entries import ProviderEntries
from scouter.errors import ConfigError
from scouter.model.attributes import MAX_ITEMS

ENV_PREFIX: Final = "SCOUTER_COLLECTOR_"


class CollectorSettings(BaseSettings):
    """All settings. A flag wins over the environment, the environment over the file."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, extra="forbid", frozen=True, case_sensitive=False
    )

    data: Path = Field(
        default=Path("scouter-data"), description="Folder of the store; made if it is not there."
    )
    backups: Path | None = Field(
        default=None,
        description="Folder for backups that are requested with the scope `admin`; without it "
        "such requests are refused.",
    )
    listen: Annotated[HostPort, NoDecode, BeforeValidator(parse_listen)] = Field(
        default=HostPort("127.0.0.1", 4318),
        description="HOST:PORT for OTLP, records, the API and /metrics; port 0 takes a free one.",
    )
    grpc: Annotated[HostPort | None, NoDecode, BeforeValidator(parse_listen_or_off)] = Field(
        default=HostPort("127.0.0.1", 4317),
        description="HOST:PORT for OTLP/gRPC; port 0 takes a free one, `off` takes none.",
    )
    tls_cert: Path | None = Field(
        default=None,
        description="PEM file of the certificate, with its chain, for HTTP and gRPC.",
    )
    tls_key: Path | None = Field(default=None, description="PEM file of the certificate's key.")
    max_requests_per_s: float = Field(
        default=2000.0,
        gt=0,
        description="Requests a second of one token from one address; further ones are "
        "answered with 429.",
    )
    max_connections: int = Field(
        default=1000,
        ge=16,
        description="Connections at a time, for HTTP and gRPC each. The number is lower if "
        "the system lets the process open too few files (`ulimit -n`); see "
        "receivers.md.",
    )
    keep_alive_s: Seconds = Field(
        default=75.0,
        description="Time after which a connection without a request is closed. Set it longer "
        "than proxies in front keep theirs.",
    )
    trusted_proxies: Annotated[
        tuple[str, ...], NoDecode, BeforeValidator(parse_list), AfterValidator(check_networks)
    ] = Field(
        default=(),
        description="IP addresses and networks of proxies in front, separated by commas. For "
        "their requests the sender is the one that X-Forwarded-For names. By "
        "default the header is not read.",
    )
    profile: Annotated[tuple[str, ...], NoDecode, BeforeValidator(parse_list)] = Field(
        default=(),
        description="Profile file, or name of a ready-made profile, to register and activate; "
        "can be repeated.",
    )
    space: Space = Field(
        default="default",
        description="The collector's own space: that of callers without a token and of brokers.",
    )
    settle_s: Seconds = Field(
        default=0.5,
        description="Wait after the last span of a complete trace, if every span comes from "
        "Scouter's own SDK.",
    )
    foreign_settle_s: Seconds = Field(
        default=7.0,
        description="The same wait for a trace with spans of other SDKs, which send every 5 s.",
    )
    quiet_s: Seconds = Field(
        default=30.0,
        description="Time without any arrival after which a trace is evaluated although it "
        "may be incomplete.",
    )
    deadline_s: Seconds = Field(
        default=300.0, description="Longest wait of a record for its trace or its profile."
    )
    late_window_s: Seconds = Field(
        default=86_400.0,
        description="Age of an evaluation up to which a late span lets the record be "
        "evaluated again. After that the span is only stored and counted as late.",
    )
    session_quiet_s: Seconds = Field(
        default=60.0,
        description="Time without a record or span of a session after which session tasks run.",
    )
    session_deadline_s: Seconds = Field(
        default=3600.0,
        description="Longest wait of a session that never rests; it is evaluated again later.",
    )
    max_hold_s: Seconds = Field(
        default=3600.0,
        description="Longest time for which a lagging broker holds up records of whose trace "
        "nothing is here, and which may not need the broker.",
    )
    memory_limit: Bytes = Field(
        default=512 * 2**20, description="Memory that DuckDB may use, such as 512MiB."
    )
    retention_days: float = Field(
        default=0.0,
        ge=0.0,
        description="Age in days after which spans, records and evaluations are removed; 0 "
        "keeps all.",
    )
    max_store_bytes: Bytes | None = Field(
        default=None,
        description="Size of the store above which the oldest data is removed, such as 20GB; "
        "no bound by default.",
    )
    max_body: Bytes = Field(
        default=16 * 2**20, description="Largest request body as sent, such as 16MiB."
    )
    max_inflated: Bytes = Field(
        default=32 * 2**20, description="Largest request body after decompression."
    )
    max_in_flight: Bytes = Field(
        default=64 * 2**20,
        description="Bytes of requests in memory until they are synced; beyond, senders get 429 or "
        "RESOURCE_EXHAUSTED.",
    )
    max_items: int = Field(
        default=20_000, ge=1, description="Most spans, log records or records in one request."
    )
    max_item: Bytes = Field(
        default=4 * 2**20, description="Largest record, such as 4MiB; a larger span is cut."
    )
    max_attributes: int = Field(
        default=MAX_ITEMS,
        ge=1,
        description="Most attributes, events and links of one span; more are left out.",
    )
    max_behind: Bytes | None = Field(
        default=None,
        description="Bytes of the log that wait for the worker, such as 2GB; beyond, senders get "
        "429. No bound by default: a lag refuses nothing.",
    )
    kafka: str | None = Field(
        default=None, description="Kafka bootstrap servers, HOST:PORT[,HOST:PORT…], to read from."
    )
    kafka_spans_topic: str = Field(default="scouter.spans", description="Topic of the spans.")
    kafka_records_topic: str = Field(default="scouter.records", description="Topic of the records.")
    kafka_logs_topic: str = Field(
        default="", description="Topic of OTLP log requests, such as `otlp_logs`; empty for none."
    )
    kafka_group: str = Field(default="scouter-collector", description="Consumer group.")
    kafka_session_s: Annotated[Seconds, Field(ge=1)] = Field(
        default=15.0,
        description="Time for which the group waits for a collector that ended, before its "
        "partitions go to others; not less than the brokers' "
        "group.min.session.timeout.ms.",
    )
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="Security protocol of the brokers."
    )
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        default=None, description="SASL mechanism, with a SASL security protocol."
    )
    kafka_sasl_username: str | None = Field(default=None, description="SASL user.")
    kafka_sasl_password: SecretStr | None = Field(
        default=None,
        description="SASL password; from environment or file only, because other users see flags.",
    )
    kafka_ssl_cafile: Path | None = Field(
        default=None, description="PEM file of the authority that signed the brokers' certificates."
    )
    kafka_ssl_certfile: Path | None = Field(
        default=None, description="PEM file of the collector's own certificate."
    )
    kafka_ssl_keyfile: Path | None = Field(default=None, description="PEM file of its key.")
    role: Literal["all", "gateway", "worker", "api"] = Field(
        default="all",
        description="`all` is a collector of its own. In a fleet each process has one role: "
        "`gateway` takes spans and records, `worker` judges, `api` serves page and API; see "
        "fleet.md.",
    )
    postgresql: str | None = Field(
        default=None,
        pattern=r"^postgres(ql)?://([^:@/\s]+@)?[^@\s]+$",
        description="PostgreSQL of the fleet, postgresql://USER@HOST:PORT/DATABASE, without "
        "password.",
    )
    postgresql_password: SecretStr | None = Field(
        default=None, description="PostgreSQL password; from environment or file only."
    )
    fleet_topic: str = Field(
        default="scouter.work", description="Kafka topic between the gateways and the workers."
    )
    fleet_group: str = Field(default="scouter-workers", description="Group of the workers.")
    fleet_partitions: int = Field(
        default=12,
        ge=1,
        le=1024,
        description="Partitions of that topic, where it is made: the most workers that share the "
        "work. They stay as many.",
    )
    fleet_name: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9._-]{0,200}$",
        description="Name of this worker, the same after a restart; by default that of the "
        "machine. Each worker needs another one.",
    )
    past: Path | None = Field(
        default=None,
        description="Folder, the same for every api of the fleet, that gets the days that are over "
        "as Parquet files: day=YYYY-MM-DD/TABLE-N.parquet. Retention waits for them.",
    )
    drain_s: Seconds = Field(
        default=10.0,
        description="Time at the end of the process for requests in hand and for evaluations "
        "that are due.",
    )
    log_format: Literal["text", "json"] = Field(
        default="text", description="Form of log lines: text for people, or JSON objects."
    )
    redis: str | None = Field(
        default=None,
        pattern=r"^(redis|rediss|unix)://[^@\s]+$",
        description="Redis server to read from, redis://HOST:PORT/DB, without credentials.",
    )
    redis_spans_stream: str = Field(default="scouter.spans", description="Stream of the spans.")
    redis_records_stream: str = Field(
        default="scouter.records", description="Stream of the records."
    )
    redis_group: str = Field(default="scouter-collector", description="Consumer group.")
    redis_username: str | None = Field(default=None, description="Redis user.")
    redis_password: SecretStr | None = Field(
        default=None, description="Redis password; from environment or file only."
    )
    redis_ssl_cafile: Path | None = Field(
        default=None, description="PEM file of the authority that signed the server's certificate."
    )
    rabbitmq: str | None = Field(
        default=None,
        pattern=r"^amqps?://[^@\s/]+(/[^\s]*)?$",
        description="RabbitMQ server to read from, amqp://HOST:PORT/VHOST, without credentials.",
    )
    rabbitmq_spans_queue: str = Field(default="scouter.spans", description="Queue of the spans.")
    rabbitmq_records_queue: str = Field(
        default="scouter.records", description="Queue of the records."
    )
    rabbitmq_username: str | None = Field(default=None, description="RabbitMQ user.")
    rabbitmq_password: SecretStr | None = Field(
        default=None, description="RabbitMQ password; from environment or file only."
    )
    rabbitmq_ssl_cafile: Path | None = Field(
        default=None, description="PEM file of the authority that signed the server's certificate."
    )
    providers_file: Path | None = Field(
        default=None,
        description="YAML file of provider entries that judges may ask; see providers.md.",
    )
    providers: Annotated[ProviderEntries | None, NoDecode, BeforeValidator(parse_providers)] = (
        Field(
            default=None,
            description="The same entries inside the settings file: lines of `name: {kind: …}`.",
        )
    )
    judge_concurrency: int = Field(
        default=64,
        ge=1,
        le=10_000,
        description="Records and sessions whose judges are called at a time, and questions at "
        "a time, for each set of provider entries that a profile uses. An entry "
        "has a bound of its own too.",
    )
    judge_daily_budget_usd: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="Most US dollars that all judges may spend in a day (UTC), by the "
        "entries' prices; judge tasks beyond it are skipped (budget). No bound by "
        "default.",
    )
    judge_cache_bytes: CacheBytes = Field(
        default=256 * 2**20,
        description="Size of the cache of judges' answers, such as 256MiB; the oldest make "
        "room. `off` for no cache.",
    )
    judge_cache_days: float = Field(
        default=30.0,
        gt=0,
        allow_inf_nan=False,
        description="Age in days after which an answer in the cache is not used; at most "
        "retention_days.",
    )
    calibrations: Path | None = Field(
        default=None,
        description="Calibrations of judges: a file of `scouter judge calibrate --save`, or a "
        "folder of such files; see calibration.md.",
    )
    gold: Path | None = Field(
        default=None,
        description="Records with human labels (JSONL or CSV, as for `scouter judge "
        "calibrate`) that judges of active profiles evaluate now and then; "
        "see calibration.md.",
    )
    gold_per_day: float = Field(
        default=50.0, gt=0, le=1_000_000, description="Gold items a day for each judge task."
    )
    gold_window: int = Field(
        default=100,
        ge=10,
        le=100_000,
        description="Gold items that are compared with the calibration together, at most as "
        "many as there are.",
    )
    drift: Literal["on", "shadow", "off"] = Field(
        default="on",
        description="Detectors watch every active profile; their new alerts fire, are on trial "
        "(shadow), or there are no detectors; see drift.md.",
    )
    scores: bool = Field(
        default=False,
        description="Watch the scores of other evaluators that no profile names, too: each gets a "
        "profile of its own, `score.NAME`; see scores.md.",
    )
    drift_shadow: Annotated[tuple[str, ...], NoDecode, BeforeValidator(parse_list)] = Field(
        default=(),
        description="Aliases of profiles whose new alerts are on trial, while others fire; can be "
        "repeated.",
    )
    drift_alpha: float = Field(
        default=0.01,
        gt=0,
        lt=1,
        description="Chance that one series ever alarms while nothing is wrong, however often one "
        "looks.",
    )
    drift_detector: Literal["chance", "run-length"] = Field(
        default="chance",
        description="Promise of the detectors: a bounded chance of ever alarming for nothing "
        "(`drift_alpha`), or a bounded average number of units between two false alarms "
        "(`drift_run_length`), which sees late falls sooner.",
    )
    drift_run_length: int = Field(
        default=200_000,
        ge=1_000,
        description="With `drift_detector` run-length: conversations and single records between "
        "two false alarms of a series, on average.",
    )
    public_url: BaseUrl | None = Field(
        default=None,
        description="Address at which people see the collector's page, such as "
        "https://scouter.example; for links in messages about alerts.",
    )
    alerts_webhook_url: SecretUrl | None = Field(
        default=None,
        description="Address that gets every alert as JSON; from environment or file only.",
    )
    alerts_webhook_headers: Annotated[
        dict[str, SecretStr] | None, NoDecode, BeforeValidator(parse_headers)
    ] = Field(
        default=None,
        description="Headers for that address, such as `authorization=Bearer%20…`, separated by "
        "commas; from environment or file only.",
    )
    alerts_slack_url: SecretUrl | None = Field(
        default=None,
        description="Address of a Slack webhook for alerts; from environment or file only.",
    )
    alerts_pagerduty_key: Annotated[SecretStr, AfterValidator(check_routing_key)] | None = Field(
        default=None,
        description="Integration key (Events API v2) of a PagerDuty service for alerts; from "
        "environment or file only.",
    )
    alerts_pagerduty_base: BaseUrl = Field(
        default="https://events.pagerduty.com",
        description="Address of PagerDuty; https://events.eu.pagerduty.com in the EU.",
    )
    alerts_alertmanager: BaseUrl | None = Field(
        default=None,
        description="Address of a Prometheus Alertmanager (API v2) for alerts, such as "
        "http://127.0.0.1:9093.",
    )
    alerts_alertmanager_headers: Annotated[
        dict[str, SecretStr] | None, NoDecode, BeforeValidator(parse_headers)
    ] = Field(
        default=None,
        description="Headers for that address, as for the webhook; from environment or file only.",
    )
    alerts_heartbeat_s: Annotated[Seconds, Field(gt=0, le=180)] = Field(
        default=60.0,
        description="An alert that stands is sent to Alertmanager again after so long; at most "
        "3m, as it forgets alerts after five minutes.",
    )
    price_file: Path | None = Field(
        default=None,
        description="YAML file with prices of one's own, before the list that comes along: lines "
        "of `model: {input: 2.5, output: 10, cache_read: 1.25, cache_write: 2.5}`, in US dollars "
        "for a million tokens; those of the cache may be left out.",
    )
    results_otlp: Annotated[str | None, BeforeValidator(parse_otlp_address)] = Field(
        default=None,
        description="OTLP endpoint to which every task result is sent, as an event "
        "gen_ai.evaluation.result: http://HOST:PORT or https://… (`/v1/logs` is "
        "added), grpc://HOST:PORT or grpcs://… (TLS).",
    )
    results_otlp_headers: Annotated[
        dict[str, SecretStr] | None, NoDecode, BeforeValidator(parse_headers)
    ] = Field(
        default=None,
        description="Headers for that endpoint, such as `authorization=Bearer%20…`, separated "
        "by commas; from environment or file only.",
    )
    ready_file: Path | None = Field(
        default=None,
        description="File that gets address and process id as JSON, once requests are accepted.",
    )

    @model_validator(mode="after")
    def _whole_tls(self) -> "CollectorSettings":
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key: TLS needs both of them")
        return self

    @model_validator(mode="after")
    def _whole_fleet(self) -> "CollectorSettings":
        if self.role != "all" and (self.kafka is None or self.postgresql is None):
            raise ValueError(
                f"role {self.role}: a fleet needs kafka (HOST:PORT) and postgresql "
                "(postgresql://USER@HOST:PORT/DATABASE); see fleet.md"
            )
        if self.role == "all" and self.postgresql is not None:
            raise ValueError("postgresql: for a fleet; say role gateway, worker or api, too")
        if self.role == "all" and self.past is not None:
            raise ValueError("past: for a fleet; here, see `scouter collector export`")
        alone = [name for name in ("backups", "max_behind") if getattr(self, name)]
        if self.role != "all" and alone:
            raise ValueError(f"{', '.join(alone)}: not in a fleet; see fleet.md")
        return self

    @model_validator(mode="after")
    def _one_list_of_providers(self) -> "CollectorSettings":
        if self.providers is not None and self.providers_file is not None:
            raise ValueError("providers and providers_file: the entries stand in one of them")
        return self

    def provider_entries(self) -> ProviderEntries:
        """The entries that judges may ask, beside the well-known ones.

        Raises:
            FileFormatError: Names file, line and field.
            ConfigError: The file has a budget of its own for all of them, and so have the settings.
        """
        entries = self.providers or ProviderEntries()
        if self.providers_file is not None:
            entries = ProviderEntries.from_file(self.providers_file)
        if self.judge_daily_budget_usd is None:
            return entries
        if entries.daily_budget_usd is not None:
            raise ConfigError(
                f"judge_daily_budget_usd, and daily_budget_usd in {self.providers_file}: a budget "
                "for all entries stands in one of them"
            )
        return entries.model_copy(update={"daily_budget_usd": self.judge_daily_budget_usd})

    @property
    def judge_cache_s(self) -> float:
        """Seconds for which an answer in the cache is used."""
        days = min(self.judge_cache_days, self.retention_days or self.judge_cache_days)
        return days * 86_400

    @property
    def tls(self) -> Tls | None:
        """Key and certificate, where there are any."""
        if self.tls_cert is None or self.tls_key is None:
            return None
        return Tls(cert=self.tls_cert, key=self.tls_key)

    @property
    def is_reachable(self) -> bool:
        """True if other machines can reach an address that it listens on."""
        return any(
            address is not None and not address.is_loopback for address in (self.listen, self.grpc)
        )

    def check_door(self, *, has_token: bool) -> None:
        """Refuse to listen where others can reach it while nothing asks for a token.

        Raises:
            ConfigError: Names the address.
        """
        place = f"--data {self.data}" if self.role == "all" else f"--postgresql {self.postgresql}"
        for name, address in (("listen", self.listen), ("grpc", self.grpc)):
            if address is not None and not address.is_loopback and not has_token:
                raise ConfigError(
                    f"{name} {address}: other machines could reach this address and nothing asks "
                    f"for a token; make one with `scouter token create {place}`, or "
                    "listen on 127.0.0.1"
                )

    @model_validator(mode="after")
    def _room_for_the_largest_request(self) -> "CollectorSettings":
        needed = self.max_body + self.max_inflated
        if self.max_in_flight < needed:
            raise ValueError(
                f"max_in_flight {self.max_in_flight}: the largest request (max_body and "
                f"max_inflated, {needed} bytes) would never fit; raise the one or lower the others"
            )
        return self

    @model_validator(mode="after")
    def _whole_rabbitmq(self) -> "CollectorSettings":
        if self.rabbitmq and not (self.rabbitmq_username and self.rabbitmq_password):
            raise ValueError(
                "rabbitmq needs rabbitmq_username and rabbitmq_password; there is no default "
                f"(the password: {ENV_PREFIX}RABBITMQ_PASSWORD)"
            )
        return self

    @model_validator(mode="after")
    def _whole_sasl(self) -> "CollectorSettings":
        if self.kafka_security_protocol.startswith("SASL") and self.kafka_sasl_mechanism is None:
            raise ValueError(
                f"kafka_security_protocol {self.kafka_security_protocol} needs kafka_sasl_mechanism"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, then environment, then the file that was handed in as `_file`."""
        flags = cast(
            dict[str, Any],
            dict(cast(InitSettingsSource, init_settings).init_kwargs),  # pyright: ignore[reportUnknownArgumentType] - typed as a bare dict there
        )
        file = cast(dict[str, Any], flags.pop("_file", {}))
        # To look for each setting in an environment without any takes most of the time.
        is_in_environment = any(name.upper().startswith(ENV_PREFIX) for name in os.environ)
        return (
            InitSettingsSource(settings_cls, init_kwargs=flags),
            *((env_settings,) if is_in_environment else ()),
            InitSettingsSource(settings_cls, init_kwargs=file),
        )
