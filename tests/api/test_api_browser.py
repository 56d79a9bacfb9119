"""The pages in a real browser: live, reachable by keyboard, phone width, and with no request to anybody else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

pytestmark = pytest.mark.browser


@dataclass
class Visit:
    """A page and what it did behind the scenes."""

    page: Page
    requested: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser(chromium_path: str) -> Iterator[Browser]:
    with sync_playwright() as driver:
        running = driver.chromium.launch(
            executable_path=chromium_path, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield running
        running.close()


@pytest.fixture
def visit(browser: Browser, server: str, link: Callable[..., str]) -> Iterator[Callable[..., Visit]]:
    """Opens a path, signed in by a one-time link."""
    contexts = []

    def go(path: str, *, width: int = 1440, scheme: Any = "light", signed_in: bool = True) -> Visit:
        context = browser.new_context(
            base_url=server, viewport={"width": width, "height": 900}, color_scheme=scheme
        )
        contexts.append(context)
        visit = Visit(context.new_page())
        visit.page.on("request", lambda request: visit.requested.append(request.url))
        visit.page.on("pageerror", lambda error: visit.complaints.append(str(error)))
        visit.page.on(
            "console",
            lambda message: visit.complaints.append(message.text) if message.type == "error" else None,
        )
        if signed_in:
            visit.page.goto(link())
        visit.page.goto(path)
        return visit

    yield go
    for context in contexts:
        context.close()


def _ours(visit: Visit, server: str) -> bool:
    return all(url.startswith((server, "data:", "blob:")) for url in visit.requested)


def test_the_list_shows_and_follows_events(visit: Any, history: Any, server: str) -> None:
    seen = visit("/")
    row = seen.page.get_by_role("row").filter(has_text="luigi-gi1")
    expect(row).to_contain_text("26.6 %")
    expect(row).to_contain_text("Order offered: Valley Pumping")
    expect(seen.page.get_by_role("status")).to_have_text("Live")
    history.submit(lambda commands: commands.answer("or-1", "valley", "accepted", None))
    expect(row).to_contain_text("Order accepted: Valley Pumping")
    expect(seen.page.get_by_role("complementary")).to_contain_text("Order accepted by Valley Pumping")
    assert seen.complaints == []
    assert _ours(seen, server)


def test_one_interceptors_chart_and_tables(visit: Any, history: Any, server: str) -> None:
    seen = visit("/")
    seen.page.get_by_role("link", name="Luigi's <Trattoria>").first.click()
    expect(seen.page.get_by_role("heading", level=1)).to_have_text("Luigi's <Trattoria>")
    chart = seen.page.locator("svg.chart")
    expect(chart).to_be_visible()
    expect(chart.locator("line.limit")).to_have_count(1)
    expect(chart.locator("g.pump.complete")).to_have_count(1)
    expect(chart.locator("path.band")).to_have_count(2)  # before the pump-out and after it
    box = chart.bounding_box()
    assert box is not None
    assert box["height"] > 200
    expect(
        seen.page.get_by_text("Instrument estimate, not a determination of violation").first
    ).to_be_visible()
    expect(seen.page.locator("table.readings tbody tr")).to_have_count(60)
    assert seen.complaints == []
    assert _ours(seen, server)


@pytest.mark.parametrize("path", ["/", "/interceptors/luigi-gi1", "/sign-in"])
@pytest.mark.parametrize("width", [360, 768, 1440])
def test_nothing_sticks_out_sideways(visit: Any, history: Any, path: str, width: int) -> None:
    page = visit(path, width=width, scheme="dark").page
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_keyboard_reaches_the_content(visit: Any, history: Any) -> None:
    page = visit("/").page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    reached = set()
    for _ in range(14):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))
    assert {"q", "only", "Show", "i-luigi-gi1", "i-wok-gi1", "Sign out"} <= reached


def test_dark_and_light_differ(visit: Any, history: Any) -> None:
    grounds = [
        visit("/", scheme=scheme).page.evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]
    assert grounds == ["rgb(244, 246, 247)", "rgb(15, 23, 27)"]


def test_a_key_signs_in_and_the_button_signs_out(visit: Any, fleet: Any, key: Callable[..., str]) -> None:
    page = visit("/", signed_in=False).page
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    page.get_by_label("Or use an API key").fill(key("manager"))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Interceptors")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


def test_the_documentation_renders_without_a_content_delivery_network(visit: Any, server: str) -> None:
    seen = visit("/docs", signed_in=False)
    expect(seen.page.get_by_text("/api/v1/frequency-decisions", exact=True).first).to_be_visible(
        timeout=20_000
    )
    expect(seen.page.get_by_text("OAS 3.1")).to_be_visible()
    assert "does not specify a valid version" not in seen.page.content()
    assert seen.complaints == []
    assert _ours(seen, server)
