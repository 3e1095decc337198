"""A real browser: Debian's Chromium, driven by Playwright."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from playwright.sync_api import Dialog, Page, sync_playwright

from tests.support.components import require_program

_LISTEN: Final = """
window.violations = [];
addEventListener(
  "securitypolicyviolation",
  e => window.violations.push(e.violatedDirective + " " + e.blockedURI),
);
"""


@dataclass
class Seen:
    """Faults in a browser while a test looked at pages."""

    problems: list[str] = field(default_factory=list[str])


@contextmanager
def browser_page(
    base_url: str,
    *,
    width: int = 1280,
    height: int = 900,
    dark: bool = False,
    script: bool = True,
) -> Generator[tuple[Page, Seen]]:
    """A page of a new browser; what a user would have noticed is in `Seen`.

    Args:
        base_url: Of the site; requests to any other are a problem.
        width: Of the window, in pixels.
        height: Of the window.
        dark: Asks for the dark scheme.
        script: Runs scripts of pages.
    """
    program = require_program("chromium", "chromium")
    seen = Seen()

    def dismiss(dialog: Dialog) -> None:
        seen.problems.append(dialog.message)
        dialog.dismiss()

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        context = browser.new_context(
            base_url=base_url,
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            java_script_enabled=script,
        )
        page = context.new_page()
        page.add_init_script(_LISTEN)
        page.on("dialog", dismiss)
        page.on(
            "console",
            lambda line: seen.problems.append(line.text) if line.type == "error" else None,
        )
        page.on("pageerror", lambda error: seen.problems.append(str(error)))
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith((base_url, "data:"))
                else seen.problems.append(f"request to {request.url}")
            ),
        )
        yield page, seen
        browser.close()
