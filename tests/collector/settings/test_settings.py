"""Settings: where they come from, and what is said when they are wrong."""

import os
from pathlib import Path

import pytest

from collector.settings.load import load_settings
from collector.settings.model import CollectorSettings
from collector.settings.page import describe
from collector.settings.values import HostPort
from scouter.errors import ConfigError, FileFormatError


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:

    for name in list(os.environ):
        if name.upper().startswith("SCOUTER_COLLECTOR_"):
            monkeypatch.delenv(name)


def test_flags_win_over_environment_and_that_over_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "scouter.yaml"
    file.write_text("space: of-file\nquiet_s: 1m\nlisten: 127.0.0.1:1\nprofile: [a, b]\n")
    monkeypatch.setenv("SCOUTER_COLLECTOR_SPACE", "of-environment")
    monkeypatch.setenv("scouter_collector_quiet_s", "2m")
    monkeypatch.setenv("SCOUTER_COLLECTOR_KAFKA", "host:1")
    found = load_settings({"space": "of-flag", "data": None}, file)

    assert found.space == "of-flag"
    assert found.quiet_s == 120
    assert found.listen == ("127.0.0.1", 1)
    assert (found.profile, found.kafka) == (("a", "b"), "host:1")
    assert found.data == Path("scouter-data")


def test_addresses_in_the_environment_are_written_as_on_the_command_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A container and a service are told so where to listen."""
    monkeypatch.setenv("SCOUTER_COLLECTOR_LISTEN", "[::1]:5")
    monkeypatch.setenv("SCOUTER_COLLECTOR_GRPC", "off")
    settings = load_settings({})
    assert (settings.listen, settings.grpc) == (("::1", 5), None)
    monkeypatch.setenv("SCOUTER_COLLECTOR_GRPC", "127.0.0.1:7")
    assert load_settings({}).grpc == ("127.0.0.1", 7)
    monkeypatch.setenv("SCOUTER_COLLECTOR_LISTEN", "4318")
    with pytest.raises(ConfigError, match="'4318' is not HOST:PORT"):
        load_settings({})


def test_what_is_json_in_the_environment_is_named_if_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SCOUTER_COLLECTOR_PROVIDERS", "{openai")
    with pytest.raises(ConfigError, match=r"'providers' in .* as SCOUTER_COLLECTOR_PROVIDERS"):
        load_settings({})


def test_a_list_in_the_environment_has_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCOUTER_COLLECTOR_PROFILE", "one.yaml, two")
    assert load_settings({}).profile == ("one.yaml", "two")
    assert load_settings({"profile": ["three"]}).profile == ("three",)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("7s", 7), ("7", 7), ("5m", 300), ("1h", 3600), ("2d", 172800), ("0.5", 0.5)],
)
def test_times(text: str, seconds: float) -> None:
    assert load_settings({"quiet_s": text}).quiet_s == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("2048", 2048), ("64KiB", 65536), ("128MB", 128_000_000), ("1gib", 2**30), ("1.5kB", 1500)],
)
def test_sizes(text: str, size: int) -> None:
    assert load_settings({"memory_limit": text}).memory_limit == size


@pytest.mark.parametrize(
    ("text", "host", "port", "is_loopback"),
    [
        ("127.0.0.1:0", "127.0.0.1", 0, True),
        (":9", "127.0.0.1", 9, True),
        ("[::1]:9", "::1", 9, True),
        ("localhost:9", "localhost", 9, True),
        ("0.0.0.0:9", "0.0.0.0", 9, False),  # noqa: S104 nothing listens in this test
        ("127.evil.example:9", "127.evil.example", 9, False),
        ("192.168.0.1:65535", "192.168.0.1", 65535, False),
    ],
)
def test_addresses(text: str, host: str, port: int, is_loopback: bool) -> None:
    found = load_settings({"listen": text}).listen
    assert found == HostPort(host, port)
    assert found.is_loopback is is_loopback


def test_proxies_are_trusted_by_address_or_network() -> None:
    assert load_settings({}).trusted_proxies == ()
    found = load_settings({"trusted_proxies": "10.0.0.7, 10.1.0.0/16,::1"}).trusted_proxies
    assert found == ("10.0.0.7", "10.1.0.0/16", "::1")


def test_an_open_door_needs_a_token() -> None:
    settings = load_settings({"listen": "0.0.0.0:4318"})
    with pytest.raises(ConfigError, match=r"listen 0\.0\.0\.0:4318: .* token create"):
        settings.check_door(has_token=False)
    settings.check_door(has_token=True)
    load_settings({"grpc": "off"}).check_door(has_token=False)
    with pytest.raises(ConfigError, match=r"grpc \[::\]:1"):
        load_settings({"grpc": "[::]:1"}).check_door(has_token=False)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"quiet_s": "7 parsecs"}, "'quiet_s' by --quiet-s: '7 parsecs' is not a time"),
        ({"quiet_s": "-1"}, "'quiet_s' by --quiet-s"),
        ({"memory_limit": "much"}, "'much' is not a size"),
        ({"memory_limit": "1"}, "greater than or equal to 1024"),
        ({"listen": "4318"}, "'4318' is not HOST:PORT"),
        ({"listen": "a:70000"}, "is not HOST:PORT"),
        ({"kafka_security_protocol": "TLS"}, "'PLAINTEXT', 'SSL'"),
        ({"kafka_security_protocol": "SASL_SSL"}, "needs kafka_sasl_mechanism"),
        ({"space": ""}, "'space' by --space"),
        ({"trusted_proxies": "*"}, "'*' is no IP address or network"),
        ({"trusted_proxies": "10.0.0.7, proxy.example"}, "'proxy.example' is no IP address"),
        ({"rabbitmq": "amqp://h"}, "there is no default"),
        ({"rabbitmq": "amqp://h", "rabbitmq_username": "u"}, "COLLECTOR_RABBITMQ_PASSWORD"),
    ],
)
def test_wrong_values_are_named(flags: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(flags)
    assert message in str(caught.value)


def test_unknown_settings_are_refused_wherever_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("quiet: 3s\n")
    with pytest.raises(
        ConfigError, match=r"'quiet' in .*s\.yaml; did you mean quiet_s\? known: data, "
    ):
        load_settings({}, file)
    monkeypatch.setenv("SCOUTER_COLLECTOR_QUITE_S", "3s")
    with pytest.raises(ConfigError, match="'quite_s' in the environment as SCOUTER_COLLECTOR_QUIT"):
        load_settings({})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("space: [", "line 2: not YAML"),
        ("- space", "not settings; expected lines of `name: value`"),
        ("\xff", "not YAML"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_bytes((content + "\n").encode("latin-1"))
    with pytest.raises(FileFormatError) as caught:
        load_settings({}, file)
    assert message in str(caught.value)
    assert "s.yaml" in str(caught.value)


def test_a_missing_file_is_named_and_an_empty_one_is_fine(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: No such file"):
        load_settings({}, tmp_path / "nowhere.yaml")
    (tmp_path / "empty.yaml").touch()
    assert load_settings({}, tmp_path / "empty.yaml") == CollectorSettings()


def test_every_setting_is_described() -> None:
    for name, field in CollectorSettings.model_fields.items():
        assert field.description, name
        assert f"[SCOUTER_COLLECTOR_{name.upper()}" in describe(name)


def test_a_password_does_not_show() -> None:
    given = load_settings({"kafka_sasl_password": "open sesame"})
    assert "sesame" not in repr(given)


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:4318",
        "http://otel.example",
        "https://otel.example/otlp/v1/logs",
        "https://otel.example:8443/team@blue/",
        "http://[::1]:4317",
        "grpc://otel.example:4317",
        "grpc://[::1]:1/",
        "grpcs://127.0.0.1:65535",
    ],
)
def test_addresses_that_results_are_sent_to(address: str) -> None:
    assert load_settings({"results_otlp": address}).results_otlp == address


@pytest.mark.parametrize(
    ("address", "fault"),
    [
        ("otel.example:4317", "'otel.example:4317' does not begin with http://"),
        ("otel.example", "does not begin with"),
        ("", "'' does not begin with"),
        ("ftp://otel.example:21", "does not begin with"),
        ("http:otel.example", "does not begin with"),
        ("http://", "has no host"),
        ("grpc://:4317", "has no host"),
        ("http://a:0", "has port 0"),
        ("http://a:65536", "cannot be read"),
        ("http://a:b:4318", "cannot be read"),
        ("http://[::1", "cannot be read"),
        ("http://a b", "has a blank"),
        ("http://a/\n", "has a blank"),
        ("https://me:s3cret@a", "the address has credentials in it"),
        ("grpc://s3cret@a:4317", "the address has credentials in it"),
        ("https://me:s3cret/4@a:1", "the address cannot be read;"),
        ("https://a/logs?key=s3cret", "the address has a query"),
        ("grpc://a", "'grpc://a' has no port, which is 4317 as a rule"),
        ("grpcs://a/", "has no port"),
        ("grpc://a:4317/v1/logs", "has a path, which gRPC does not know"),
    ],
)
def test_a_wrong_address_says_what_would_be_right(address: str, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings({"results_otlp": address})
    said = str(caught.value)
    assert said.startswith("setting 'results_otlp' by --results-otlp: ")
    assert fault in said
    assert "expected http://HOST:PORT" in said
    assert "such as https://otel.example:4318 or grpc://127.0.0.1:4317" in said
    assert "results_otlp_headers" in said
    assert "s3cret" not in said


@pytest.mark.parametrize(
    ("headers", "fault"),
    [
        ("authorization", "expected name=value"),
        ("a b=s3cret", "'a b' is no name of a header"),
        ("=s3cret", "expected name=value"),
        ("a%0A=s3cret", "no name of a header"),
        ("token=s3cret%0A", "the value of 'token' cannot be sent: it has a line break"),
        ("token=%20s3cret", "a blank at an end"),
        ("token=s3cret\u00e9", "what is not ASCII"),
        ({"token": "s3cret\n"}, "the value of 'token' cannot be sent"),
    ],
)
def test_headers_that_no_client_can_send_are_refused_at_the_start(
    headers: object, fault: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings({"results_otlp_headers": headers})
    assert fault in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_headers_are_read_as_opentelemetry_writes_them() -> None:
    found = load_settings({"results_otlp_headers": "Authorization=Bearer%20x, team = blue,empty="})
    headers = found.results_otlp_headers
    assert headers is not None
    given = {name: value.get_secret_value() for name, value in headers.items()}
    assert given == {"Authorization": "Bearer x", "team": "blue", "empty": ""}
