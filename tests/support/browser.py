"""A real browser: Debian's Chromium, its headless form if there is one, driven by Playwright."""

import shutil
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final

from axe_playwright_python.base import AXE_SCRIPT, AxeResults
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

from tests.support.components import require_program

_LISTEN: Final = """
window.violations = [];
addEventListener(
  "securitypolicyviolation",
  e => window.violations.push(e.violatedDirective + " " + e.blockedURI),
);
"""

_WIDTH_RULES: Final = ("scrollable-region-focusable",)
"""Rules of axe for which a width makes a difference."""
_COLOUR_RULES: Final = ("color-contrast", "link-in-text-block")
"""Rules of axe for which a scheme of colours makes a difference."""
PHONE_PX: Final = 390
_DESK_PX: Final = 1280


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
    """A page of a browser without a past; what a user would have noticed is in `Seen`.

    Args:
        base_url: Of the site; requests to any other are a problem.
        width: Of the window, in pixels.
        height: Of the window.
        dark: Asks for the dark scheme.
        script: Runs scripts of pages.
    """
    seen = Seen()

    def dismiss(dialog: Dialog) -> None:
        seen.problems.append(dialog.message)
        dialog.dismiss()

    with ExitStack() as stack:
        browser = _KEPT.browser() if _KEPT.is_on else _launch(stack)
        context = browser.new_context(
            base_url=base_url,
            viewport={"width": width, "height": height},
            locale="en-GB",
            color_scheme="dark" if dark else "light",
            java_script_enabled=script,
        )
        stack.callback(context.close)
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


def open_view(page: Page, address: str) -> None:
    """Go to a view, wait for its script and unfold everything."""
    page.goto(address)
    if "/traces/" in address:
        page.locator(".waterfall[data-ready]").wait_for()
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")


def assert_everybody_can_read(page: Page, address: str) -> None:
    """Hold a view against the width of a phone, and against the rules of axe.

    One visit shows it on a phone, on a desk and in the dark.

    Args:
        page: As wide as a phone, in the light scheme; it is left so.
        address: Of the view.
    """
    open_view(page, address)
    page.evaluate(AXE_SCRIPT)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE_PX, address
    _assert_accessible(page, f"{address} on a phone", _WIDTH_RULES)
    page.set_viewport_size({"width": _DESK_PX, "height": 900})
    _assert_accessible(page, address)
    page.emulate_media(color_scheme="dark")
    _assert_accessible(page, f"{address} in the dark", _COLOUR_RULES)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": PHONE_PX, "height": 844})


def _assert_accessible(page: Page, named: str, rules: tuple[str, ...] = ()) -> None:
    options: dict[str, list[str]] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = [*rules]
    found = AxeResults(page.evaluate("options => axe.run(options)", options))
    assert found.violations_count == 0, (named, found.generate_report())


@contextmanager
def kept_browser() -> Generator[None]:
    """Inside the block, all pages are of one browser: to start it takes longer than most tests.

    Each page has cookies and a store of its own. Once there is a page, `asyncio.run` does not work
    inside the block: Playwright's loop runs in the same thread.
    """
    with ExitStack() as stack:
        _KEPT.stack, _KEPT.found = stack, None
        try:
            yield
        finally:
            _KEPT.stack = _KEPT.found = None


class _Kept:
    """The browser of the block, once a page was asked for."""

    stack: ExitStack | None = None
    found: Browser | None = None

    @property
    def is_on(self) -> bool:
        return self.stack is not None

    def browser(self) -> Browser:
        assert self.stack is not None, "no block keeps a browser"
        if self.found is None:
            self.found = _launch(self.stack)
        return self.found


_KEPT: Final = _Kept()


def _launch(stack: ExitStack) -> Browser:
    # The same pages for two thirds of the processor: it draws no window.
    program = shutil.which("chromium-headless-shell") or require_program("chromium", "chromium")
    playwright = stack.enter_context(sync_playwright())
    browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
    stack.callback(browser.close)
    return browser
