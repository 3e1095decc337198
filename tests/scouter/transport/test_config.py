"""Settings: secrets that cannot be sent are refused unseen, and the original's arguments read."""

import traceback
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from scouter.transport.config import (
    GrpcConfig,
    HttpConfig,
    KafkaConfig,
    OtlpConfig,
    RabbitMQConfig,
    RedisConfig,
)

TOKEN_CONFIGS = [HttpConfig, OtlpConfig, GrpcConfig]
ADDRESSES = [
    (HttpConfig, "server_uri", "SCOUTER_URL", "http"),
    (OtlpConfig, "endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT", "https"),
    (GrpcConfig, "server_uri", "SCOUTER_GRPC_URI", "http"),
    (RedisConfig, "address", "REDIS_ADDR", "redis"),
    (RabbitMQConfig, "address", "RABBITMQ_ADDR", "amqp"),
]


def refused(make: Callable[[], object]) -> str:
    """All that an error shows of settings that cannot be."""
    with pytest.raises(ValidationError) as caught:
        make()
    return f"{caught.value} {''.join(traceback.format_exception(caught.value))}"


@pytest.mark.parametrize("config", TOKEN_CONFIGS)
def test_a_token_of_the_environment_has_no_white_space_around_it(
    config: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret that is mounted as a file often ends with a line break."""
    monkeypatch.setenv("SCOUTER_AUTH_TOKEN", " s3cret\r\n")
    assert config().auth_token.get_secret_value() == "s3cret"
    monkeypatch.setenv("SCOUTER_AUTH_TOKEN", "\n")
    assert config().auth_token is None


def test_nor_has_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "s3cret\n")
    password = KafkaConfig().password
    assert password is not None
    assert password.get_secret_value() == "s3cret"


@pytest.mark.parametrize("token", ["s3cret\n", "s3 cret", "s3crét", "s3cret\x00", ""])
@pytest.mark.parametrize("config", TOKEN_CONFIGS)
def test_a_token_that_cannot_be_sent_is_refused_unseen(
    config: type[Any], token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values: list[Any] = [token, SecretStr(token)]
    for value in values:
        said = refused(lambda value=value: config(auth_token=value))
        assert "auth_token" in said
        assert "s3" not in said
    if len(token) > 6 and token.isprintable():
        monkeypatch.setenv("SCOUTER_AUTH_TOKEN", token)
        assert "s3" not in refused(config)


@pytest.mark.parametrize("value", ["s3cret\n", "s3crét", " s3cret"])
@pytest.mark.parametrize("config", [OtlpConfig, GrpcConfig])
def test_a_header_that_cannot_be_sent_is_refused_unseen(config: type[Any], value: str) -> None:
    said = refused(lambda: config(headers={"x-key": SecretStr(value)}))
    assert "x-key" in said
    assert "s3cr" not in said
    assert "headers" in refused(lambda: config(headers={"x key": SecretStr("v")}))


@pytest.mark.parametrize(("config", "field", "variable", "scheme"), ADDRESSES)
def test_an_address_with_credentials_is_refused_unseen(
    config: type[Any],
    field: str,
    variable: str,
    scheme: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Addresses stand in logs and in what settings look like."""
    for user in ("me:pa55word", ":pa55word", "pa55word"):
        address = f"{scheme}://{user}@127.0.0.1:9"
        said = refused(lambda address=address: config(**{field: address}))
        assert field in said
        assert "pa55word" not in said
        monkeypatch.setenv(variable, address)
        assert "pa55word" not in refused(config)
    monkeypatch.setenv(variable, f"{scheme}://127.0.0.1:9\n")
    assert getattr(config(), field) == f"{scheme}://127.0.0.1:9"


HTTP, GRPC, KAFKA, RABBIT, REDIS = map(
    dict[str, Any],
    (
        {"server_uri": "http://c:1", "auth_token": "t"},
        {"server_uri": "http://c:2", "timeout_secs": 7},
        {
            "brokers": "k:9092",
            "username": "u",
            "password": "p",
            "compression_type": "gzip",
            "message_timeout_ms": 600_000,
            "message_max_bytes": 2_097_164,
            "config": {"linger_ms": 5},
        },
        {"host": "r", "port": 5673, "username": "u", "password": "p"},
        {"address": "redis://r:6380"},
    ),
)


def quietly(make: Callable[..., Any], *args: object, **fields: object) -> Any:
    """Make a configuration; a warning would be an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return make(*args, **fields)


def test_what_means_the_same_here() -> None:
    assert quietly(HttpConfig, **HTTP).server_uri == "http://c:1"
    assert quietly(GrpcConfig, **GRPC).timeout_s == 7
    kafka = quietly(KafkaConfig, **KAFKA)
    assert (kafka.brokers, kafka.username, kafka.compression_type) == ("k:9092", "u", "gzip")
    assert (kafka.timeout_s, kafka.max_message_bytes) == (600, 2_097_164)
    assert kafka.config == {"linger_ms": 5}
    rabbit = quietly(RabbitMQConfig, **RABBIT)
    assert (rabbit.address, rabbit.username) == ("amqp://r:5673", "u")
    assert quietly(RedisConfig, **REDIS).address == "redis://r:6380"


def test_by_position() -> None:
    http: Any = HttpConfig
    assert quietly(http, "http://c:1") == HttpConfig(server_uri="http://c:1")
    assert quietly(http, "http://c:1", None, None, "t").auth_token.get_secret_value() == "t"
    kafka = quietly(KafkaConfig, "u", "p", "k:9092", None, "gzip", 20_000)
    assert (kafka.username, kafka.brokers, kafka.timeout_s) == ("u", "k:9092", 20)
    assert quietly(RabbitMQConfig, "::1", 5673).address == "amqp://[::1]:5673"
    assert quietly(RedisConfig, "redis://r:1").address == "redis://r:1"
    with pytest.raises(TypeError, match="HttpConfig takes server_uri, username"):
        http("a", "b", "c", "d", "e")
    with pytest.raises(TypeError, match="'server_uri' twice"):
        http("http://c:1", server_uri="http://c:1")
    with pytest.raises(TypeError, match="'timeout_s' twice"):
        quietly(GrpcConfig, timeout_secs=1, timeout_s=1)
    with pytest.raises(TypeError, match="OtlpConfig takes "):
        quietly(OtlpConfig, "http://c:1")


UNUSED = [
    (HttpConfig, "username", "u", "auth_token="),
    (HttpConfig, "password", "hidden", "auth_token="),
    (GrpcConfig, "username", "u", "auth_token="),
    (GrpcConfig, "password", "hidden", "auth_token="),
    (GrpcConfig, "connect_timeout_secs", 1, "timeout_s="),
    (GrpcConfig, "keep_alive_interval_secs", 1, "timeout_s="),
    (GrpcConfig, "keep_alive_timeout_secs", 1, "timeout_s="),
    (GrpcConfig, "keep_alive_while_idle", False, "timeout_s="),
    (KafkaConfig, "topic", "scouter_monitoring", "records_topic="),
    (KafkaConfig, "log_level", object(), "logger `kafka`"),
    (KafkaConfig, "max_retries", 3, "300 s"),
    (RabbitMQConfig, "queue", "q", "records_queue="),
    (RabbitMQConfig, "max_retries", 3, "300 s"),
    (RedisConfig, "channel", "c", "records_stream="),
    (RedisConfig, "chanel", "c", "records_stream="),
]


@pytest.mark.parametrize(
    ("kind", "name", "value", "advice"),
    UNUSED,
    ids=[f"{kind.__name__}-{name}" for kind, name, _, _ in UNUSED],
)
def test_what_means_nothing_warns_once(
    kind: Callable[..., Any], name: str, value: object, advice: str
) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        made = [kind(**{name: value}) for _ in range(2)]

    [warning] = seen
    assert advice in str(warning.message)
    assert "hidden" not in str(warning.message)
    assert warning.filename == __file__
    assert made == [kind()] * 2


@pytest.mark.parametrize("kind", [HttpConfig, GrpcConfig, KafkaConfig, RabbitMQConfig, RedisConfig])
def test_none_is_not_given(kind: Any) -> None:
    plain = kind(compression_type=None) if kind is KafkaConfig else kind()
    assert quietly(kind, **dict.fromkeys(kind.original)) == plain
    assert quietly(kind, *[None] * len(kind.original)) == plain


def test_none_means_no_compression() -> None:
    assert quietly(KafkaConfig, compression_type=None).compression_type is None


def test_rabbitmq_gets_the_address_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RABBITMQ_ADDR", "amqp://elsewhere:1")
    assert quietly(RabbitMQConfig, port=5673).address == "amqp://localhost:5673"
    with pytest.raises(ValidationError, match="leave out the others"):
        quietly(RabbitMQConfig, host="r", address="amqp://r:1", username="u", password="p")


def test_unknown_arguments_are_still_refused() -> None:
    with pytest.raises(ValidationError, match="sever_uri"):
        quietly(HttpConfig, sever_uri="http://c:1")
