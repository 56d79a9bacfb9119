"""The pages as HTML: what they say, in whose units, and that nothing a person wrote becomes markup."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.pages.charts import FractionChart, Mark, Point, fraction_bar, fraction_chart, level_of, sparkline
from api.pages.words import Reader, ago, in_days, interval, percent

Client = Callable[..., httpx.Client]
US = Reader("us", "America/Los_Angeles")
SI = Reader("si", "America/Los_Angeles")


def _text(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_an_empty_service_says_what_to_do_next(client: Client) -> None:
    page = client("manager").get("/")
    assert page.status_code == 200
    assert "quarterline fleet import fleet.toml" in page.text


def test_the_list_shows_the_most_urgent_first(client: Client, history: Any) -> None:
    page = client("read-only").get("/").text
    rows = re.findall(r'<a id="i-([^"]+)"', page)
    assert rows == ["luigi-gi1", "wok-gi1"]
    first = _text(page[page.index('id="i-luigi-gi1"') : page.index('id="i-wok-gi1"')])
    for words in (
        "26.6 %",
        "25 – 29 %",
        "+0.10 in/day",
        "Immediately",
        "Over the limit",
        "Order offered: Valley Pumping",
        "6 min ago",
    ):
        assert words in first
    second = _text(page[page.index('id="i-wok-gi1"') :])
    assert "No record ask for the last manifest" in second
    assert "never" in second


def test_what_people_wrote_is_escaped(client: Client, history: Any) -> None:
    asker = client("manager")
    for path in ("/", "/interceptors/luigi-gi1", "/?q=%3Cscript%3E"):
        page = asker.get(path).text
        assert "<Trattoria>" not in page
        assert "<b>rising</b>" not in page
        assert "<script>" not in page
    assert "Luigi&#39;s &lt;Trattoria&gt;" in asker.get("/").text


def test_the_search_and_the_filters(client: Client, history: Any) -> None:
    asker = client("manager")

    def found(query: str) -> list[str]:
        return re.findall(r'<a id="i-([^"]+)"', asker.get(f"/?{query}").text)

    assert found("q=golden") == ["wok-gi1"]
    assert found("only=unknown") == ["wok-gi1"]
    assert found("only=attention") == ["luigi-gi1"]
    assert found("q=nowhere") == []
    assert "None of the 2 interceptors fits" in asker.get("/?q=nowhere").text
    assert asker.get("/?only=everything").status_code == 422


def test_one_interceptor_in_its_sites_units(client: Client, history: Any) -> None:
    text = _text(client("read-only").get("/interceptors/luigi-gi1").text)
    for words in (
        "Instrument estimate, not a determination of violation",
        "26.6 %",
        "90 % interval 24.6 % to 28.6 %",
        "8.9 in ± 0.6 in",  # 227.164 mm, 1.645 × 9 mm
        "1,000 gal",
        "base depth 48.0 in",
        "City of Sierra Madre",
        "SMMC 13.14.150.E.1",
        "at most 6 months",
        "Complete pump-out",
        "7.9 in FOG, 3.5 in solids",
        "Nov 30, 2026 15:45",
        "77.0 °F",
        "Order offered: Valley Pumping",
        "Proposed Nov 29 16:00",
        "Offered Nov 29 17:00",
    ):
        assert words in text, words


def test_an_interceptor_without_anything_says_what_to_do(client: Client, fleet: Any) -> None:
    text = _text(client("read-only").get("/interceptors/wok-gi1").text)
    assert "No estimate yet" in text
    assert "quarterline/v1/d-0002/readings" in text
    assert "base depth 1000 mm" in text
    assert client("read-only").get("/interceptors/nowhere").status_code == 404


def test_a_browser_gets_a_page_for_a_problem_and_a_program_its_details(client: Client, fleet: Any) -> None:
    asker = client("read-only")
    page = asker.get("/interceptors/<b>", headers={"Accept": "text/html"})
    assert page.status_code == 404
    assert page.headers["content-type"].startswith("text/html")
    assert "there is no interceptor &#39;&lt;b&gt;&#39;" in page.text
    assert asker.get("/interceptors/x").headers["content-type"] == "application/problem+json"
    api = asker.get("/api/v1/sites/x", headers={"Accept": "text/html"})
    assert api.headers["content-type"] == "application/problem+json"


def test_a_part_of_a_page_is_the_page_without_its_frame(client: Client, history: Any) -> None:
    asker = client("manager")
    for path in ("/", "/interceptors/luigi-gi1"):
        part = asker.get(path, params={"fragment": "true"}).text
        assert "<html" not in part
        assert part.strip() in asker.get(path).text


def test_pages_have_no_inline_style_or_script_and_name_no_other_host(client: Client, history: Any) -> None:
    asker = client("manager")
    for path in ("/", "/interceptors/luigi-gi1", "/sign-in"):
        page = asker.get(path).text
        assert " style=" not in page
        assert not re.search(r"<script(?![^>]*\bsrc=)", page)
        assert not re.search(r'(?:src|href|action)="(?:https?:)?//', page)


# ---- drawings and words ------------------------------------------------------------------------------


_FRACTIONS = st.floats(0, 2, allow_nan=False)


@given(st.none() | _FRACTIONS, st.none() | st.floats(0, 0.5), st.none() | st.floats(0, 1))
def test_a_bar_is_well_formed_and_says_its_figures(
    fraction: float | None, sd: float | None, p_over: float | None
) -> None:
    drawing = ElementTree.fromstring(str(fraction_bar(fraction, sd, p_over, 0.25)))
    assert drawing.attrib["role"] == "img"
    told = drawing.attrib["aria-label"]
    assert told == "no estimate" if fraction is None else percent(fraction) in told
    for shape in drawing.iter("rect"):
        assert 0 <= float(shape.attrib["x"]) <= float(shape.attrib["x"]) + float(shape.attrib["width"]) <= 152


@given(
    st.lists(st.tuples(st.floats(0, 400), _FRACTIONS, st.floats(0, 0.2)), max_size=40), st.text(max_size=8)
)
def test_a_chart_of_any_history_is_well_formed_and_inside_its_frame(
    history: list[tuple[float, float, float]], label: str
) -> None:
    start = 1.796e9
    points = [Point(start - day * 86_400, fraction, sd) for day, fraction, sd in history]
    marks = [Mark(point.at_s, label) for point in points[:3]]
    text = "".join(char for char in label if char.isprintable())
    chart = FractionChart(
        points,
        0.25,
        start,
        US,
        pump_outs=[Mark(m.at_s, text) for m in marks],
        samples=[Mark(start, text, value=0.9)],
    )
    drawing = ElementTree.fromstring(str(fraction_chart(chart)))
    for dot in drawing.iter("circle"):
        assert 0 <= float(dot.attrib["cx"]) <= 1240
        assert 0 <= float(dot.attrib["cy"]) <= 330


def test_ticks_stand_on_local_dates_over_a_change_of_clocks() -> None:
    days = [1_793_430_000.0 + n * 86_400 for n in range(7)]  # 31 October 2026 on, clocks change on 1 November
    chart = FractionChart([Point(day, 0.1, 0.01) for day in days], 0.25, days[-1], US)
    drawn = str(fraction_chart(chart))
    for label in ("Nov 1", "Nov 2", "Nov 3"):
        assert drawn.count(f">{label}<") == 1


def test_colours_follow_the_limit() -> None:
    assert level_of(None, None, 0.25) == "unknown"
    assert level_of(0.25, 0.4, 0.25) == "near"  # a breach is strictly above
    assert level_of(0.2501, 0.4, 0.25) == "over"
    assert level_of(0.19, 0.0, 0.25) == "well"
    assert str(sparkline([0.1], 0.25)) == ""


def test_numbers_as_people_read_them() -> None:
    assert (US.depth(0.1016), SI.depth(0.1016), US.depth(None)) == ("4.0 in", "102 mm", "–")
    assert (US.temperature(60.0), SI.temperature(60.0)) == ("140.0 °F", "60.0 °C")
    assert (US.rate(2.54), SI.rate(-2.54)) == ("+0.10 in/day", "-2.5 mm/day")
    assert (US.volume(3.785411784), SI.volume(3.785)) == ("1,000 gal", "3,785 l")
    assert US.at(1_796_083_200_000_000) == "Nov 30, 2026 16:00"
    assert SI.at(1_796_083_200_000_000) == "30 Nov 2026 16:00"
    assert percent(0.266) == "26.6 %"
    assert interval(0.01, 0.02) == (0.0, pytest.approx(0.0429))
    assert [ago(s) for s in (None, 5, 60, 7200, 200_000)] == [
        "never",
        "just now",
        "1 min ago",
        "2 h ago",
        "2 d ago",
    ]
    assert [in_days(n) for n in (0, 1, 5, -1, -9)] == [
        "today",
        "tomorrow",
        "in 5 days",
        "yesterday",
        "9 days ago",
    ]
