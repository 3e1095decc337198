"""Lost data as those see it who run a collector: its exit, its answers, its series, its check."""

from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from collector.judging.answers import FILE_NAME as ANSWERS_NAME
from collector.service import run_collector
from collector.settings.load import load_settings
from scouter.cli.app import make_app
from scouter.errors import ConfigError
from tests.collector.conftest import Start
from tests.support.collector_process import CollectorProcess


def test_a_collector_without_its_database(tmp_path: Path) -> None:
    """It ends as on wrong input and names three ways out; with the last one the log is read again.

    The log had not been cut yet, so nothing is lost.
    """
    first = CollectorProcess(tmp_path)
    first.start()
    try:
        body = {"records": [{"uid": f"u{n}", "profile": "later"} for n in range(3)]}
        assert httpx.post(f"{first.url}/v1/records", json=body, timeout=120).status_code == 200
    finally:
        first.kill()
    for each in (tmp_path / "data").glob("store-*"):
        each.unlink()

    data = ["--data", str(tmp_path / "data")]
    settings = {"data": tmp_path / "data", "listen": "127.0.0.1:0", "grpc": "off"}
    with pytest.raises(ConfigError) as refused:
        run_collector(load_settings(settings))
    for said in ("the store in", "is gone", "restore", "check --data", "--accept-loss"):
        assert said in str(refused.value)
    checked = CliRunner().invoke(make_app(), ["collector", "check", *data])
    assert (checked.exit_code, "is gone" in checked.output) == (1, True), checked.output

    again = CollectorProcess(tmp_path, "--accept-loss")
    again.start()
    try:
        sheet = again.get("/api/v1/conservation")
        assert (sheet["records"]["accepted"], sheet["records"]["lost"]) == (3, 0)
        assert (sheet["spans"]["lost"], sheet["has_uncounted_losses"]) == (0, False)
        assert again.metrics()['scouter_lost_total{kind="record",space="default"}'] == 0
    finally:
        again.stop()
    checked = CliRunner().invoke(make_app(), ["collector", "check", *data])
    assert checked.exit_code == 0, checked.output


def test_a_broken_cache_of_answers_begins_anew(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / ANSWERS_NAME).write_bytes(bytes(4096))
    start()
    assert "the cache of judges' answers begins anew" in caplog.text


def test_tokens_that_are_gone_are_reported(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once: to remove them is how to have none."""
    start().stop()
    TokenFile(tmp_path / "data").create("me", [Scope.ADMIN], "default")
    start()
    start().stop()
    (tmp_path / "data" / "access.db").unlink()
    start()
    assert "access.db is gone: nobody needs a token" in caplog.text
    caplog.clear()
    start()
    assert caplog.text == ""
