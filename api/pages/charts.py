"""Charts as SVG text, drawn by ourselves: crisp at any size, coloured by the page's style sheet.

Every text in them is escaped; no style attributes, so that the content security policy can stay strict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from markupsafe import Markup, escape

from api.pages.words import Reader, interval, percent

_BAR_TOP: Final = 0.5  # the bar shows 0 … 50% of the base depth: the 25% line stands in its middle
_DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Point:
    """One estimate: instant [s], fraction and its standard deviation."""

    at_s: float
    fraction: float
    sd: float


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at an instant [s]; ``value`` where it stands at a height (a core sample)."""

    at_s: float
    label: str
    complete: bool = True
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Crossing:
    """When the limit is expected to be passed [s], with its 80% interval."""

    low_s: float
    middle_s: float
    high_s: float | None


@dataclass(frozen=True, slots=True)
class FractionChart:
    """What one interceptor's chart shows."""

    points: Sequence[Point]
    limit: float
    now_s: float
    reader: Reader
    pump_outs: Sequence[Mark] = ()
    samples: Sequence[Mark] = ()
    crossing: Crossing | None = None


def level_of(fraction: float | None, p_over: float | None, limit: float) -> str:
    """The class that colours an estimate: over, near, well or unknown."""
    if fraction is None:
        return "unknown"
    if fraction > limit or (p_over or 0.0) >= 0.5:
        return "over"
    return "near" if fraction > 0.8 * limit else "well"


def fraction_bar(
    fraction: float | None, sd: float | None, p_over: float | None, limit: float, *, width: int = 150
) -> Markup:
    """A bar of 0 … 50% with estimate, 90% interval and the limit's line."""
    height = 18
    level = level_of(fraction, p_over, limit)

    def x(ratio: float) -> str:
        return f"{min(max(ratio / _BAR_TOP, 0.0), 1.0) * width:.1f}"

    parts = [f'<rect class="track" x="0" y="5" width="{width}" height="8" rx="4"/>']
    words = "no estimate"
    if fraction is not None:
        low, high = interval(fraction, sd)
        words = f"{percent(fraction)} of the base depth, 90% interval {percent(low)} to {percent(high)}"
        start, end = float(x(low)), float(x(high))
        parts.append(f'<rect class="fill" x="0" y="5" width="{x(fraction)}" height="8" rx="4"/>')
        wide = max(end - start, 1.5)
        parts.append(f'<rect class="spread" x="{start:.1f}" y="2" width="{wide:.1f}" height="14" rx="3"/>')
        parts.append(f'<line class="tick" x1="{x(fraction)}" x2="{x(fraction)}" y1="2" y2="16"/>')
    parts.append(f'<line class="limit" x1="{x(limit)}" x2="{x(limit)}" y1="0" y2="18"/>')
    return Markup(
        f'<svg class="bar {level}" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(words)}"><title>{escape(words)}</title>{"".join(parts)}</svg>'
    )


def sparkline(values: Sequence[float | None], limit: float, *, width: int = 80, height: int = 24) -> Markup:
    """The last fractions as a line, the limit as a thin rule."""
    known = [(i, v) for i, v in enumerate(values) if v is not None]
    if len(known) < 2:
        return Markup("")
    top = max(limit * 1.15, max(v for _, v in known) * 1.05)
    step = (width - 4) / max(len(values) - 1, 1)
    at = [(2 + i * step, height - 2 - v / top * (height - 4)) for i, v in known]
    path = "M" + "L".join(f"{px:.1f} {py:.1f}" for px, py in at)
    rule = height - 2 - limit / top * (height - 4)
    return Markup(
        f'<svg class="spark" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'aria-hidden="true"><line class="limit" x1="0" x2="{width}" y1="{rule:.1f}" y2="{rule:.1f}"/>'
        f'<path class="line" d="{path}"/>'
        f'<circle class="end" cx="{at[-1][0]:.1f}" cy="{at[-1][1]:.1f}" r="2"/></svg>'
    )


class _Frame:
    """Scales and axes of the large chart."""

    width, height = 1240, 330
    left, right, top, bottom = 46, 14, 26, 30

    def __init__(self, chart: FractionChart) -> None:
        self.chart = chart
        stamps = [p.at_s for p in chart.points] + [m.at_s for m in (*chart.pump_outs, *chart.samples)]
        first = min(stamps, default=chart.now_s - 14 * _DAY_S)
        self.start = min(first, chart.now_s - 7 * _DAY_S)
        ahead = chart.now_s + 0.05 * (chart.now_s - self.start)
        if chart.crossing is not None:
            wanted = chart.crossing.high_s or chart.crossing.middle_s
            most = chart.now_s + max(0.5 * (chart.now_s - self.start), 7 * _DAY_S)
            ahead = max(ahead, min(wanted + _DAY_S, most))
        self.end = ahead
        highs = [interval(p.fraction, p.sd)[1] for p in chart.points] + [s.value or 0 for s in chart.samples]
        self.ceiling = max(0.3, min(1.0, (int(max(highs, default=0.0) * 20) + 1) / 20), chart.limit * 1.2)

    def x(self, at_s: float) -> float:
        """Horizontal place of an instant, kept inside the plot."""
        share = (at_s - self.start) / max(self.end - self.start, 1.0)
        return self.left + min(max(share, 0.0), 1.0) * (self.width - self.left - self.right)

    def y(self, ratio: float) -> float:
        """Vertical place of a fraction."""
        share = min(max(ratio / self.ceiling, 0.0), 1.0)
        return self.height - self.bottom - share * (self.height - self.top - self.bottom)

    def axes(self) -> Iterator[str]:
        """Grid, labels of percent, and ticks on local dates."""
        base, right = self.height - self.bottom, self.width - self.right
        step = 0.05 if self.ceiling <= 0.4 else 0.1
        for i in range(int(self.ceiling / step + 1e-9) + 1):
            y = self.y(i * step)
            yield f'<line class="grid" x1="{self.left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
            label = f"{i * step * 100:.0f} %"
            yield f'<text class="axis" x="{self.left - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
        for at_s, label in self._ticks():
            x = self.x(at_s)
            yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{self.top}" y2="{base}"/>'
            text = escape(label)
            yield f'<text class="axis" x="{x:.1f}" y="{base + 18}" text-anchor="middle">{text}</text>'

    def _ticks(self) -> Iterator[tuple[float, str]]:
        reader, zone = self.chart.reader, ZoneInfo(self.chart.reader.timezone)
        days = (self.end - self.start) / _DAY_S
        day = datetime.fromtimestamp(self.start, tz=zone).date() + timedelta(days=1)
        every = next((n for n in (1, 2, 7, 14) if days / n <= 12), 0)
        while (at_s := datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()) < self.end:
            if every == 0 and day.day == 1 and (days < 400 or day.month % 3 == 1):
                yield at_s, reader.month(day)
            elif every and (day - date(2001, 1, 1)).days % every == 0:  # 1 January 2001 was a Monday
                yield at_s, reader.short_day(day)
            day += timedelta(days=1)


def fraction_chart(chart: FractionChart) -> Markup:
    """The fraction over time with 90% band, limit, pump-outs, core samples and the expected crossing."""
    frame = _Frame(chart)
    parts = [
        *frame.axes(),
        *_band(frame),
        *_marks(frame),
        *_limit(frame),
        *_expected(frame),
        *_samples(frame),
    ]
    since = chart.reader.day(_date(chart, frame.start))
    words = f"Fill fraction since {since}, limit {percent(chart.limit, 0)}"
    return Markup(
        f'<svg class="chart" viewBox="0 0 {frame.width} {frame.height}" role="img" '
        f'aria-label="{escape(words)}" preserveAspectRatio="xMidYMid meet">{"".join(parts)}</svg>'
    )


def _date(chart: FractionChart, at_s: float) -> date:
    return datetime.fromtimestamp(at_s, tz=ZoneInfo(chart.reader.timezone)).date()


def _segments(chart: FractionChart) -> list[list[Point]]:
    """Runs of estimates; a pump-out ends one, and so does a gap of more than three days."""
    cuts = sorted(mark.at_s for mark in chart.pump_outs)
    runs: list[list[Point]] = []
    for point in sorted(chart.points, key=lambda p: p.at_s):
        last = runs[-1][-1] if runs else None
        broken = last is None or point.at_s - last.at_s > 3 * _DAY_S
        if broken or (last is not None and any(last.at_s < cut <= point.at_s for cut in cuts)):
            runs.append([])
        runs[-1].append(point)
    return runs


def _band(frame: _Frame) -> Iterator[str]:
    for run in _segments(frame.chart):
        spans = [(frame.x(p.at_s), *interval(p.fraction, p.sd)) for p in run]
        upper = [f"{x:.1f} {frame.y(high):.1f}" for x, _, high in spans]
        lower = [f"{x:.1f} {frame.y(low):.1f}" for x, low, _ in reversed(spans)]
        if len(run) > 1:
            yield f'<path class="band" d="M{"L".join(upper)}L{"L".join(lower)}Z"/>'
            line = "L".join(f"{frame.x(p.at_s):.1f} {frame.y(p.fraction):.1f}" for p in run)
            yield f'<path class="line" d="M{line}"/>'
        for point in run:
            low, high = interval(point.fraction, point.sd)
            told = f"{frame.chart.reader.at(round(point.at_s * 1e6))}: {percent(point.fraction)}"
            told += f" ({percent(low)} to {percent(high)})"
            place = f'cx="{frame.x(point.at_s):.1f}" cy="{frame.y(point.fraction):.1f}"'
            radius = 2.5 if len(run) == 1 else 1.6
            yield f'<circle class="dot" {place} r="{radius}"/>'
            yield f'<circle class="hit" {place} r="7"><title>{escape(told)}</title></circle>'


def _limit(frame: _Frame) -> Iterator[str]:
    y, right = frame.y(frame.chart.limit), frame.width - frame.right
    yield f'<line class="limit" x1="{frame.left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
    yield (
        f'<text class="limit-text" x="{frame.left + 6}" y="{y - 6:.1f}">'
        f"{percent(frame.chart.limit, 0)} limit</text>"
    )
    x, base = frame.x(frame.chart.now_s), frame.height - frame.bottom
    yield f'<line class="now" x1="{x:.1f}" x2="{x:.1f}" y1="{frame.top}" y2="{base}"/>'
    yield f'<text class="axis" x="{x:.1f}" y="{frame.top - 8}" text-anchor="middle">now</text>'


def _marks(frame: _Frame) -> Iterator[str]:
    base = frame.height - frame.bottom
    for mark in frame.chart.pump_outs:
        x, kind = frame.x(mark.at_s), "complete" if mark.complete else "partial"
        yield f'<g class="pump {kind}"><title>{escape(mark.label)}</title>'
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{frame.top}" y2="{base}"/>'
        yield f'<path d="M{x - 6:.1f} {frame.top - 10}h12l-6 10z"/></g>'


def _samples(frame: _Frame) -> Iterator[str]:
    for mark in frame.chart.samples:
        x, y = frame.x(mark.at_s), frame.y(mark.value or 0.0)
        yield f'<g class="sample"><title>{escape(mark.label)}</title>'
        yield f'<path d="M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z"/></g>'


def _expected(frame: _Frame) -> Iterator[str]:
    crossing = frame.chart.crossing
    if crossing is None or crossing.middle_s <= frame.chart.now_s or crossing.low_s >= frame.end:
        return
    y, low = frame.y(frame.chart.limit), frame.x(crossing.low_s)
    high = frame.x(crossing.high_s) if crossing.high_s is not None else frame.x(frame.end)
    told = f"expected to reach the limit about {frame.chart.reader.at(round(crossing.middle_s * 1e6))}"
    yield f'<g class="expected"><title>{escape(told)}</title>'
    yield f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
    if crossing.middle_s <= frame.end:
        yield f'<circle cx="{frame.x(crossing.middle_s):.1f}" cy="{y:.1f}" r="5"/>'
    yield "</g>"
