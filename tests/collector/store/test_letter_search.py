"""Letters that speak of what is erased, however they write it."""

import json

import pytest

from collector.store.letter_reads import LetterSearch


def trace(n: int) -> str:
    return f"{n + 0xABCDEF0123456789ABCDEF:032x}"


@pytest.mark.parametrize(
    ("payload", "is_found"),
    [
        pytest.param(b'{"uid": "u-7"}', True, id="value"),
        pytest.param(b'{"uid": "u-77"}', False, id="longer"),
        pytest.param(b'{"u-7": 1}', True, id="key"),
        pytest.param(b'{"body": "{\\"uid\\": \\"u-7\\"}"}', True, id="json-in-json"),
        pytest.param(b'[{"x": ["u\\u002d7"]}]', True, id="escaped"),
        pytest.param(b'{"uid": "u-7", "cut', True, id="cut-off"),
        pytest.param(b'{"body": "{\\"uid\\": \\"u-7\\", \\"cut', True, id="inside-cut-off"),
        pytest.param(b"\x0a\x03u-7", True, id="protobuf"),
        pytest.param(b"\x0a\x04u-77", False, id="protobuf-longer"),
        pytest.param(bytes.fromhex("ff" + trace(1)), True, id="trace"),
        pytest.param(json.dumps({"traceId": trace(1).upper()}).encode(), True, id="trace-json"),
        pytest.param(json.dumps({"traceId": trace(2)}).encode(), False, id="other-trace"),
        pytest.param(b'{"tags": {"user": "ann"}}', True, id="tag"),
        pytest.param(b'{"tags": {"user": "anna"}}', False, id="tag-longer"),
        pytest.param(b'{"tags": {"name": "ann"}}', False, id="other-tag"),
        pytest.param(b'{"key": "user", "value": {"stringValue": "ann"}}', True, id="tag-otlp"),
        pytest.param(b"\x0a\x04user\x12\x05\x0a\x03ann", True, id="tag-protobuf"),
        pytest.param(b'{"a":' * 500 + b'"u-7"' + b"}" * 500, True, id="deep"),
        pytest.param(b"", False, id="empty"),
    ],
)
def test_letters_that_speak_of_it(payload: bytes, is_found: bool) -> None:
    assert LetterSearch(["u-7"], [trace(1)], ("user", "ann")).finds(payload) is is_found
