"""Settings: where they come from, and what is said when they are wrong."""

import os
import re
from pathlib import Path
from typing import Any, Final

import pytest

from collector.alerts.delivery.delivery import channels_of
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
    """A container and a service learn so where to listen."""
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
    for text, fault in (
        ("{openai", "Expecting property name"),
        ("[" * 20_000, "nested"),
        ('{"a": {"kind": "openai"}, "a": {}}', "'a' stands twice"),
    ):
        monkeypatch.setenv("SCOUTER_COLLECTOR_PROVIDERS", text)
        with pytest.raises(ConfigError) as caught:
            load_settings({})
        said = str(caught.value)
        assert "'providers' in the environment as SCOUTER_COLLECTOR_PROVIDERS: " in said
        assert f"the value is not JSON: {fault}" in said or fault in said


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


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"kafka": "a:1"}, "role worker: a fleet needs kafka"),
        ({"postgresql": "postgresql://db/scouter"}, "role worker: a fleet needs kafka"),
        ({"kafka": "a:1", "postgresql": "postgresql://u:secret@db/s"}, "postgresql"),
        ({"max_behind": "1GB", "backups": "b"}, "backups, max_behind: not in a fleet"),
        ({"max_behind": "1GB"}, "max_behind: not in a fleet"),
        ({"role": "all", "postgresql": "postgresql://db/s"}, "say role gateway"),
    ],
)
def test_settings_of_a_fleet_are_whole(flags: dict[str, Any], message: str) -> None:
    """What a role needs is there, and what would do nothing is refused."""
    whole = {"kafka": "a:1", "postgresql": "postgresql://db/s"}
    given = {"role": "worker"} | ({} if whole.keys() & flags.keys() else whole) | flags
    with pytest.raises(ConfigError, match=message):
        load_settings(given)
    assert load_settings({"role": "worker"} | whole).role == "worker"


def test_an_open_door_needs_a_token() -> None:
    settings = load_settings({"listen": "0.0.0.0:4318"})
    with pytest.raises(ConfigError, match=r"listen 0\.0\.0\.0:4318: .* token create"):
        settings.check_door(has_token=False)
    settings.check_door(has_token=True)
    load_settings({"grpc": "off"}).check_door(has_token=False)
    address = "postgresql://scouter@db.example/scouter"
    fleet = {"role": "api", "kafka": "a:1", "postgresql": address, "listen": "0.0.0.0:1"}
    with pytest.raises(ConfigError, match=f"token create --postgresql {address}"):
        load_settings(fleet).check_door(has_token=False)
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
        ConfigError, match=r"'quiet' in .*s\.yaml, line 1; did you mean quiet_s\? known: data, "
    ):
        load_settings({}, file)
    monkeypatch.setenv("SCOUTER_COLLECTOR_QUITE_S", "3s")
    with pytest.raises(ConfigError, match="'quite_s' in the environment as SCOUTER_COLLECTOR_QUIT"):
        load_settings({})


BROKEN: Final = {
    "open": (b"space: [\n", "line 2: while parsing a flow node, did not find"),
    "tab": (b"space:\n\t- a\n", "line 2: while scanning for the next token"),
    "list": (b"\n- space\n", "line 2: not settings; expected lines of `name: value`"),
    "text": (b"hello\n", "line 1: not settings; expected lines of `name: value`"),
    "two": (b"space: a\n---\nspace: b\n", "line 2: expected a single document"),
    "latin-1": (b"\nspace: \xe9\n", "line 2: byte 0xe9 is not UTF-8"),
    "utf-16": ("space: a".encode("utf-16"), "line 1: the file is UTF-16; expected UTF-8"),
    "nul": (b"\nspace: a\0\n", "line 2: unacceptable character #x0000"),
    "twice": (b"space: a\nquiet_s: 3s\nspace: b\n", "line 3: the key 'space' stands twice"),
    "twice-inside": (b"providers:\n  a: {x: 1, x: 2}\n", "line 2: the key 'x' stands twice"),
    "deep": (b"\nspace: " + b"[" * 5000, "line 2, field 'space': nested more than 200 levels"),
    "deep-block": (
        b"providers:\n" + b"".join(b" " * n + b" a:\n" for n in range(300)),
        "line 201, field 'providers': nested more than 200 levels",  # an object begins in each line
    ),
    "aliases": (
        b"a: &a [x, x, x, x, x, x, x, x, x, x]\n"
        + b"".join(
            b"%c: &%c [%s]\n" % (letter + 1, letter + 1, b",".join([b"*%c" % letter] * 10))
            for letter in b"abcdefgh"
        ),
        "line 7: more than 2000000 values",  # 11, 111, 1,111 … in lines 1, 2, 3 …
    ),
    "itself": (b"profile: &a [*a]\n", "line 1: an alias contains itself"),
    "tag": (b"space: !!python/name:os.system\n", "line 1: the tag 'python/name:os.system'"),
    "infinite": (b"quiet_s: .inf\n", "line 1: '.inf' is no JSON value"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_named_with_its_line(tmp_path: Path, case: str) -> None:
    content, message = BROKEN[case]
    file = tmp_path / "s.yaml"
    file.write_bytes(content)
    with pytest.raises(FileFormatError) as caught:
        load_settings({}, file)
    assert f"{file}, {message}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_wrong_value_of_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("space: a\n\nquiet_s: 7 parsecs\n")
    with pytest.raises(ConfigError, match=r"'quiet_s' in .*s\.yaml, line 3: '7 parsecs' is not a"):
        load_settings({}, file)


def test_what_yaml_1_1_took_for_something_else_is_text(tmp_path: Path) -> None:
    """`off` was false there, `no` too, a date a date, and 1_000 a thousand."""
    file = tmp_path / "s.yaml"
    file.write_text("grpc: off\njudge_cache_bytes: off\nspace: no\nprofile: [2026-01-02]\n")
    found = load_settings({}, file)
    assert (found.grpc, found.judge_cache_bytes, found.space) == (None, 0, "no")
    assert found.profile == ("2026-01-02",)


def test_what_is_no_file_is_named_and_an_empty_one_is_fine(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    for content in ("", "\n", "# space: a\n\n  # quiet_s: 1\n", "---\n", "\ufeff"):
        file.write_text(content, encoding="utf-8")
        assert load_settings({}, file) == CollectorSettings()
    for path, message in (
        (tmp_path / "nowhere.yaml", "No such file"),
        (tmp_path, "Is a directory"),
        (file / "s.yaml", "Not a directory"),
        (tmp_path / "a\0", "null"),
    ):
        with pytest.raises(ConfigError) as caught:
            load_settings({}, path)
        assert f"{path}: cannot read the file: " in str(caught.value)
        assert message in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file; run as another user")
def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.touch(mode=0)
    with pytest.raises(ConfigError, match=r"s\.yaml: cannot read the file: Permission denied"):
        load_settings({}, file)


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


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("alerts_slack_url", "hooks.slack.com/services/s3cret", "does not begin with http"),
        ("alerts_slack_url", "https://u:s3cret@hooks.slack.com/", "has credentials in it"),
        ("alerts_webhook_url", "https:///s3cret", "has no host"),
        ("alerts_webhook_url", "grpc://host:1/s3cret", "has a path"),
        ("alerts_pagerduty_key", "s3cret", "32 letters and digits"),
        ("alerts_webhook_headers", "authorization=s3cret%0A", "a line break"),
        ("alerts_alertmanager", "http://u:s3cret@host:9093", "has credentials in it"),
        ("alerts_alertmanager", "host:9093", "does not begin with http"),
        ("alerts_heartbeat_s", "4m", "less than or equal to 180"),
        ("alerts_heartbeat_s", "0", "greater than 0"),
        ("public_url", "grpc://host:4317", "does not begin with http:// or https://"),
    ],
)
def test_a_channel_that_cannot_work_is_refused_without_its_secret(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(f"SCOUTER_COLLECTOR_{name.upper()}", value)
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        load_settings({})
    assert name in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_channels_do_not_show_their_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "slack_url": "https://hooks.slack.com/services/s3cret?x=1",
        "pagerduty_key": "s3cret" + "0" * 26,
        "webhook_headers": "authorization=Bearer%20s3cret",
        "webhook_url": "http://127.0.0.1:9/s3cret", "alertmanager": "http://h:9093/prefix/",
    }  # fmt: skip
    for name, value in given.items():
        monkeypatch.setenv(f"SCOUTER_COLLECTOR_ALERTS_{name.upper()}", value)
    found = load_settings({})
    assert "s3cret" not in repr(found)
    assert found.alerts_alertmanager == "http://h:9093/prefix"
    names = [each.name for each in channels_of(found)]
    assert names == ["log", "webhook", "slack", "pagerduty", "alertmanager"]
