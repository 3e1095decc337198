"""Secrets of the settings: what cannot be sent is refused at once, and shown nowhere."""

import traceback
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from scouter.transport.config import HttpConfig, KafkaConfig
from scouter.transport.otlp.config import GrpcConfig, OtlpConfig
from scouter.transport.rabbitmq.config import RabbitMQConfig
from scouter.transport.redis.config import RedisConfig

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
