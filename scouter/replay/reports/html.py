"""A release check as one HTML file that needs nothing else: no network, no script to be read.

Text of agents and people is escaped everywhere. A content security policy lets only the one script
of this package run, which filters the list of scenarios.
"""

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from scouter.evaluate.files.versioned import write_whole
from scouter.model.json_value import plain_text
from scouter.replay.reports.html_page import make_page
from scouter.replay.reports.report import Report

_TEMPLATE: Final = "report.html.j2"


def write(path: str | Path, report: Report) -> None:
    """Write the report, all of it or nothing.

    Raises:
        OSError: The file cannot be written.
    """
    write_whole(Path(path), render(report))


def render(report: Report) -> str:
    """Make the HTML text.

    Cost: linear in scenarios and checks; long values, many spans and many records are cut, and the
        text says so.
    """
    names: Mapping[str, object] = {"page": make_page(report), **_assets()}
    text = _environment().get_template(_TEMPLATE).render(names)
    return plain_text(text.replace("\x00", "\ufffd"))


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("scouter.replay", "reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


@cache
def stylesheet() -> Markup:
    """The style that all HTML reports share."""
    css = (Path(__file__).parent / "report.css").read_text(encoding="utf-8")
    return Markup(css)  # noqa: S704 our own file


@cache
def _assets() -> Mapping[str, Markup | str]:
    """The style and the script of this package, and the digest that lets that script run."""
    script = (Path(__file__).parent / "report.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return {
        "css": stylesheet(),
        "script": Markup(script),  # noqa: S704 our own file
        "script_hash": f"sha256-{digest}",
    }
