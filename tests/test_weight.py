"""Weight of an installation, as the page on operating says; heavy parts are behind extras."""

import re
from pathlib import Path
from typing import Final

import pytest

from tests.bench.weight import INSTALLATIONS, needed, weight_bytes

PAGE: Final = Path(__file__).parents[1] / "docs" / "operate.md"
HEAVY: Final = {
    "anthropic", "duckdb", "fastapi", "google-genai", "grpcio", "kafka-python", "numpy", "openai",
    "nltk", "opentelemetry-exporter-otlp", "pandas", "pika", "prometheus-client", "psycopg",
    "pyarrow", "pydantic-ai-slim", "redis", "rouge-score", "sacrebleu", "starlette", "uvicorn",
}  # fmt: skip


def test_the_base_has_no_vendor_and_no_server() -> None:
    assert needed(()) & HEAVY == set()
    assert needed(("judges",)) & HEAVY == {
        "anthropic",
        "google-genai",
        "openai",
        "pydantic-ai-slim",
    }
    assert (
        needed(("collector",))
        & {"anthropic", "google-genai", "openai", "numpy", "pandas", "psycopg"}
        == set()
    )


@pytest.mark.parametrize("installation", INSTALLATIONS)
def test_the_page_says_what_it_weighs(installation: str) -> None:
    """Within a fifth, as other versions of the packages are a little larger or smaller."""
    rows = dict(re.findall(r"^\| `(\S+)` \| \d+ \| (\d+) \|$", PAGE.read_text(), re.MULTILINE))
    weight = sum(map(weight_bytes, needed(INSTALLATIONS[installation]))) / 1e6
    assert int(rows[installation]) == pytest.approx(weight, rel=0.2)
