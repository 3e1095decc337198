"""The program `scouter`: finding commands, and what it says when it cannot run one."""

import inspect
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from typer.testing import CliRunner

from collector.commands import start
from collector.settings.model import CollectorSettings
from collector.settings.page import HEADINGS
from scouter.cli import app as cli
from scouter.cli.app import main, make_app

_NO_FLAG = {
    "kafka_sasl_password", "rabbitmq_password", "redis_password", "results_otlp_headers",
    "providers",
}  # fmt: skip
"""Secrets, which others could read off a command line, and what is no single value."""


def run(*args: str) -> "subprocess.CompletedProcess[str]":
    """Run the program as a user would."""
    return subprocess.run(
        [sys.executable, "-m", "scouter.cli.app", *args],
        capture_output=True, text=True, check=False, timeout=120, env={"COLUMNS": "400"},
    )  # fmt: skip


def found_only(monkeypatch: pytest.MonkeyPatch, entry: EntryPoint) -> None:
    """Make an entry point the only one that is installed."""

    def installed(group: str) -> list[EntryPoint]:
        return [entry] if group == cli.GROUP else []

    monkeypatch.setattr(cli, "entry_points", installed)


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, "scouter 0.1.0\n")


@pytest.mark.parametrize(
    "command",
    [
        ["alerts", "list"], ["alerts", "show"], ["alerts", "ack"], ["alerts", "silence"],
        ["alerts", "resolve"],
        ["compare"], ["erase"], ["eval"], ["export"], ["judge", "calibrate"], ["judge", "correct"],
        ["letters", "list"], ["letters", "replay"], ["mcp"], ["profile", "check"],
        ["profile", "list"], ["profile", "push"], ["profile", "activate"],
        ["profile", "deactivate"], ["reevaluate"],
        ["results", "evaluations"], ["results", "tasks"], ["scenarios", "harvest"],
        ["scenarios", "validate"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_help_has_each_example_on_a_line_of_its_own(command: list[str]) -> None:
    """Typer joins the lines of examples that have no margin left beside what is before them."""
    shown = CliRunner().invoke(make_app(), [*command, "--help"], env={"COLUMNS": "300"}).stdout
    example = " ".join(["scouter", *command, ""])
    assert f"Usage: {example}" in shown
    assert [line for line in shown.splitlines() if line.count(example) > 1] == []


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["evaluate"], "No such command 'evaluate'. Did you mean 'reevaluate' or 'eval'?"),
        (["colector"], "No such command 'colector'. Did you mean 'collector'?"),
        (["zzzzzz"], "No such command 'zzzzzz'."),
        (["results", "taks"], "No such command 'taks'. Did you mean 'tasks', 'traces'?"),
        (["eval", "a.yaml", "--agnet", "a:b"], "No such option: --agnet. Did you mean '--agent'?"),
        (["results", "tasks", "--profle", "a"], "--profle. Did you mean '--profile'?"),
        (["profile", "push", "--actvate"], "--actvate. Did you mean '--activate'?"),
    ],
)
def test_what_is_mistyped_is_reported_with_what_is_near(typed: list[str], message: str) -> None:
    done = CliRunner().invoke(make_app(), typed, env={"COLUMNS": "300"})
    assert (done.exit_code, message in done.output) == (2, True), done.output


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("scouter ev", ["eval"]),
        ("scouter results ta", ["tasks"]),
        ("scouter eval --basel", ["--baseline"]),
        ("scouter collector --retention", ["--retention-days"]),
    ],
)
def test_a_shell_completes_commands_and_options(typed: str, found: list[str]) -> None:
    """A shell makes these calls after `scouter --install-completion`."""
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = CliRunner().invoke(
        make_app(), [], prog_name="scouter", env={"_SCOUTER_COMPLETE": "complete_bash", **words}
    )
    assert done.stdout.split() == found


def test_help_lists_the_commands() -> None:
    shown = CliRunner().invoke(make_app(), ["--help"])
    assert shown.exit_code == 0
    assert "collector" in shown.output
    assert "Receive spans and records" in shown.output


def has_flag(name: str) -> bool:
    """A secret has no flag: others see the command line of a process."""
    is_secret = "SecretStr" in str(CollectorSettings.model_fields[name].annotation)
    return name not in _NO_FLAG and not is_secret


def test_help_of_the_collector_explains_every_setting() -> None:
    done = run("collector", "--help")
    assert done.returncode == 0
    for name, field in CollectorSettings.model_fields.items():
        if has_flag(name):
            assert f"--{name.replace('_', '-')}" in done.stdout
            assert str(field.description).split(";")[0][:60] in " ".join(done.stdout.split())
    assert "SCOUTER_COLLECTOR_KAFKA_SASL_PASSWORD" in done.stdout
    lines = done.stdout.splitlines()
    places = [lines.index(f"{each}:") for each in (*HEADINGS, "Commands")]
    assert places == sorted(places)
    kafka = lines[places[HEADINGS.index("Kafka")] : places[HEADINGS.index("Kafka") + 1]]
    shown = {line.split()[0] for line in kafka if line.startswith("  --")}
    flags = filter(has_flag, CollectorSettings.model_fields)
    named = {f"--{name.replace('_', '-')}" for name in flags if name.startswith("kafka")}
    assert shown == named


def test_every_setting_has_a_flag() -> None:
    beside = {"config", "context", "accept_loss"}  # of one start, and in no file
    flags = set(inspect.signature(start).parameters) - beside
    assert flags == set(filter(has_flag, CollectorSettings.model_fields))


def test_an_unknown_command_is_named() -> None:
    done = run("colector")
    assert done.returncode == 2
    assert "colector" in done.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--listen", "0.0.0.0:1"], "other machines could reach this address"),
        (["--listen", "127.0.0.1:0", "--profile", "nobody"], "ready-made profile 'nobody'"),
        (["--config", "nowhere.yaml"], "nowhere.yaml: cannot read the file"),
        (["--quiet-s", "soon"], "'soon' is not a time"),
    ],
)
def test_what_a_person_can_mend_is_one_line_and_code_2(flags: list[str], message: str) -> None:
    done = run("collector", "--data", "/nonexistent/folder", *flags)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("space: a\nspace: b\n", "line 2: the key 'space' stands twice in one object"),
        ("space: " + "[" * 9_000, "line 1, field 'space': nested more than 200 levels deep"),
    ],
    ids=["twice", "deep"],
)
def test_a_broken_settings_file_is_one_line_and_code_2(
    tmp_path: Path, content: str, message: str
) -> None:
    file = tmp_path / "collector.yaml"
    file.write_text(content)
    done = run("collector", "--data", "/nonexistent/folder", "--config", str(file))
    assert done.returncode == 2
    assert done.stderr == f"scouter: {file}, {message}\n"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            EntryPoint("collector", "no_such_module_here:f", cli.GROUP),
            "pip install 'scouter-agents[c",
        ),
        (EntryPoint("other", "no_such_module_here:f", cli.GROUP), "pip install no_such_m"),
    ],
)
def test_a_missing_extra_is_one_line_with_the_command_that_mends_it(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    entry: EntryPoint,
    message: str,
) -> None:
    found_only(monkeypatch, entry)
    monkeypatch.setattr(sys, "argv", ["scouter", entry.name])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert len(said.splitlines()) == 1
    assert "no_such_module_here" in said
    assert message in said


def test_help_still_works_when_a_command_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("collector", "no_such_module_here:f", cli.GROUP)
    found_only(monkeypatch, entry)
    shown = CliRunner().invoke(make_app(), ["--help"])
    assert shown.exit_code == 0
    assert "Not available" in shown.output
    own = CliRunner().invoke(make_app(), ["collector", "--help"], env={"COLUMNS": "300"})
    for output in (shown.output, own.output):
        words = " ".join(output.replace("│", " ").split())
        assert "pip install 'scouter-agents[collector]'" in words


def test_the_program_starts_without_the_service_packages() -> None:
    program = (
        "import sys, scouter.cli.app, collector.commands\n"
        "print(sorted({'duckdb', 'fastapi', 'pyarrow', 'kafka', 'uvicorn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"[]\n"
