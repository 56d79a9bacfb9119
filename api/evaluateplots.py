"""One picture per interceptor of an evaluation, as SVG: what was true, what was told, and what went wrong.

Drawn by ourselves like the dashboard's charts: the libraries that would do it weigh 84 MB, for a developer's plot.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from markupsafe import escape

from simulators.score import Judged
from simulators.score_levels import HALF_WIDTH
from simulators.truth import seconds
from simulators.truthbook import DAY_S, Book, Record, slot

Line = dict[str, Any]
WIDTH: Final = 1200
LEFT: Final = 150
RIGHT: Final = 20
TOP: Final = 46
HEIGHT: Final = 340  # of the fraction's panel
LANE: Final = 20
GAP_DAYS: Final = 1.6  # a line is broken where days are missing
LEAST_TOP: Final = 0.30
STEPS_DAYS: Final = (1, 2, 7, 14, 30, 61, 91, 182)
MOST_TICKS: Final = 14
COLOURS: Final = ("#e8b04a", "#7fb069", "#b07aa1", "#5fb3b3", "#d98880", "#8d99ae", "#c9a66b", "#6a8fd8")
STYLE: Final = """
text { font: 12px system-ui, sans-serif; fill: #333 } .title { font-size: 15px; font-weight: 600 }
.axis { stroke: #999; stroke-width: 1 } .grid { stroke: #e6e6e6; stroke-width: 1 }
.limit { stroke: #c0392b; stroke-width: 1.2; stroke-dasharray: 6 4 }
.truth { fill: none; stroke: #222; stroke-width: 1.6 } .estimate { fill: none; stroke: #1f6fb2; stroke-width: 1.8 }
.band { fill: #1f6fb2; fill-opacity: 0.18; stroke: none } .fault { fill-opacity: 0.22 }
.small { font-size: 11px } .end { text-anchor: end } .middle { text-anchor: middle }
.service { stroke: #222; stroke-width: 1; stroke-dasharray: 2 3; stroke-opacity: 0.6 }
.true { fill: #222 } .told { fill: #1f6fb2 } .hot { fill: #d35400 } .over { fill: #c0392b }
.possible { fill: none; stroke: #d35400 } .partial { fill: #fff; stroke-width: 1.5 } .true.partial { stroke: #222 }
.told.partial { stroke: #1f6fb2 }
"""


@dataclass(frozen=True, slots=True)
class _Frame:
    """From instants [s] and fractions to the picture's coordinates."""

    first_s: float
    last_s: float
    top: float

    def x(self, at_s: float) -> float:
        part = (at_s - self.first_s) / max(self.last_s - self.first_s, 1.0)
        return LEFT + min(max(part, 0.0), 1.0) * (WIDTH - LEFT - RIGHT)

    def y(self, fraction: float) -> float:
        return TOP + HEIGHT * (1.0 - min(max(fraction / self.top, 0.0), 1.0))


def draw(judged: Judged, output: Iterable[Line], folder: Path, prefix: str = "") -> int:
    """Write ``<prefix><interceptor>.svg`` for every interceptor of the truth; returns how many."""
    lines: dict[str, dict[str, list[Line]]] = defaultdict(lambda: defaultdict(list))
    for line in output:
        if line.get("interceptor") in judged.book.records:
            lines[line["interceptor"]][line["type"]].append(line)
    for name, record in judged.book.records.items():
        text = picture(judged.book, record, lines[name])
        (folder / f"{prefix}{name}.svg").write_text(text, encoding="utf-8")
    return len(judged.book.records)


def picture(book: Book, record: Record, lines: dict[str, list[Line]]) -> str:
    """The SVG of one interceptor: ``lines`` are its output by type."""
    told = [(seconds(line["at"]), *_told(line, record.compartment)) for line in lines.get("assessment", ())]
    true = [(at_s, record.depths[slot(at_s)].fraction) for at_s in record.midnights_s]
    highest = max((one[1] for one in (*true, *told) if one[1] is not None), default=0.0)
    frame = _Frame(book.first_s, book.last_s, max(LEAST_TOP, 1.1 * highest))
    seen = sorted(seconds(line["pumped_at"]) for line in lines.get("pump_out", ()))
    lanes = list(_lanes(record, lines, frame))
    kinds = sorted(
        {one.kind for one in record.troubles if one.start_s < book.last_s and one.end_s > book.first_s}
    )
    height = TOP + HEIGHT + 30 + LANE * len(lanes) + 14
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}"><style>{STYLE}</style><rect width="100%" height="100%" fill="#fff"/>',
        f'<text class="title" x="{LEFT}" y="20">{escape(record.interceptor)} · {escape(record.principle)}</text>',
        *_faults(record, frame, kinds, height),
        *_axes(frame, book.limit),
        *_band(told, seen, frame),
        *(_path("truth", piece, frame) for piece in _pieces(true, record.starts_s)),
        *(_path("estimate", piece, frame) for piece in _pieces([one[:2] for one in told], seen)),
        *_services(record, frame, height),
        *_legend(kinds),
    ]
    for place, (title, marks) in enumerate(lanes):
        y = TOP + HEIGHT + 30 + LANE * place + LANE / 2
        parts.append(f'<text class="small end" x="{LEFT - 10}" y="{y + 4:.1f}">{escape(title)}</text>')
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts += [mark.replace("@y", f"{y:.1f}") for mark in marks]
    return "\n".join([*parts, "</svg>\n"])


def _told(line: Line, compartment: int) -> tuple[float | None, float | None]:
    """Fraction and deviation of the monitored compartment."""
    own = next((one for one in line.get("compartments") or () if one["compartment"] == compartment), line)
    return own.get("fraction"), own.get("fraction_sd")


def _pieces(
    points: Iterable[Sequence[float | None]], breaks_s: Sequence[float]
) -> Iterator[list[tuple[float, float]]]:
    """Runs of points with neither a gap in time nor a pump-out between them."""
    run: list[tuple[float, float]] = []
    for at_s, value in points:
        if at_s is None or value is None:
            continue
        if run and (at_s - run[-1][0] > GAP_DAYS * DAY_S or _between(breaks_s, run[-1][0], at_s)):
            yield run
            run = []
        run.append((at_s, value))
    if run:
        yield run


def _between(breaks_s: Sequence[float], first_s: float, last_s: float) -> bool:
    return bisect_right(breaks_s, first_s) < bisect_right(breaks_s, last_s)


def _path(name: str, points: list[tuple[float, float]], frame: _Frame) -> str:
    text = " ".join(f"{frame.x(at_s):.1f},{frame.y(value):.1f}" for at_s, value in points)
    return f'<polyline class="{name}" points="{text}"/>'


def _band(
    told: list[tuple[float, float | None, float | None]], breaks_s: Sequence[float], frame: _Frame
) -> Iterator[str]:
    def edge(side: float) -> Iterator[tuple[float, float | None]]:
        for at_s, value, sd in told:
            known = value is not None and sd is not None
            yield at_s, max(0.0, (value or 0.0) + side * HALF_WIDTH * (sd or 0.0)) if known else None

    runs = zip(_pieces(edge(-1.0), breaks_s), _pieces(edge(1.0), breaks_s), strict=True)
    for low, high in runs:
        corners = [*high, *reversed(low)]
        text = " ".join(f"{frame.x(at_s):.1f},{frame.y(value):.1f}" for at_s, value in corners)
        yield f'<polygon class="band" points="{text}"/>'


def _axes(frame: _Frame, limit: float) -> Iterator[str]:
    step = 0.05 if frame.top <= 0.5 else 0.1
    for count in range(int(frame.top / step + 1e-9) + 1):
        y = frame.y(count * step)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="end" x="{LEFT - 10}" y="{y + 4:.1f}">{100 * count * step:.0f}%</text>'
    bottom = TOP + HEIGHT
    for at_s, text in _dates(frame):
        x = frame.x(at_s)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>'
        yield f'<text class="middle" x="{x:.1f}" y="{bottom + 18}">{text}</text>'
    yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>'
    y = frame.y(limit)
    yield f'<line class="limit" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'


def _dates(frame: _Frame) -> Iterator[tuple[float, str]]:
    days = (frame.last_s - frame.first_s) / DAY_S
    step = next((one for one in STEPS_DAYS if days / one <= MOST_TICKS), STEPS_DAYS[-1])
    when = datetime.fromtimestamp(frame.first_s, UTC)
    while when.timestamp() <= frame.last_s:
        yield when.timestamp(), f"{when.day} {when:%b}"
        when += timedelta(days=step)


def _faults(record: Record, frame: _Frame, kinds: list[str], height: float) -> Iterator[str]:
    for one in record.troubles:
        if one.kind not in kinds:
            continue
        first, last = frame.x(one.start_s), frame.x(one.end_s)
        colour = COLOURS[kinds.index(one.kind) % len(COLOURS)]
        yield (
            f'<rect class="fault" x="{first:.1f}" y="{TOP}" width="{max(last - first, 1.5):.1f}" '
            f'height="{height - TOP - 14:.0f}" fill="{colour}"><title>{escape(one.kind)}</title></rect>'
        )
        yield (  # a fault of an hour is thinner than a line: a mark that can be seen
            f'<rect x="{first - 1:.1f}" y="{TOP}" width="{max(last - first, 4.0):.1f}" height="5" '
            f'fill="{colour}"/>'
        )


def _services(record: Record, frame: _Frame, height: float) -> Iterator[str]:
    for service in record.services:
        x = frame.x(service.start_s)
        yield f'<line class="service" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{height - 14:.0f}"/>'


def _legend(kinds: list[str]) -> Iterator[str]:
    x = float(LEFT)
    for name, text in (("truth", "truth"), ("estimate", "estimate, 90% interval"), ("limit", "limit")):
        yield f'<line class="{name}" x1="{x:.0f}" x2="{x + 22:.0f}" y1="34" y2="34"/>'
        yield f'<text x="{x + 28:.0f}" y="38">{text}</text>'
        x += 50 + 7 * len(text)
    for place, kind in enumerate(kinds):
        colour = COLOURS[place % len(COLOURS)]
        yield f'<rect x="{x:.0f}" y="28" width="12" height="12" fill="{colour}" fill-opacity="0.5"/>'
        yield f'<text x="{x + 18:.0f}" y="38">{escape(kind.replace("_", " "))}</text>'
        x += 40 + 7 * len(kind)


def _lanes(record: Record, lines: dict[str, list[Line]], frame: _Frame) -> Iterator[tuple[str, list[str]]]:
    """Rows of marks under the panel: ``@y`` stands for the row's height."""
    last = {line["id"]: line for line in lines.get("pump_out", ())}
    hot = {line["id"]: line for line in lines.get("hot_discharge", ())}
    yield "pump-outs, true", [_dot("true", frame.x(one.start_s), one.complete) for one in record.services]
    yield (
        "pump-outs, told",
        [_dot("told", frame.x(seconds(line["pumped_at"])), line["complete"]) for line in last.values()],
    )
    yield "hot discharges, true", [_tick("hot", frame.x(one.start_s)) for one in record.hot]
    yield (
        "hot discharges, told",
        [
            _tick("hot" if line["status"] == "confirmed" else "possible", frame.x(seconds(line["start"])))
            for line in hot.values()
        ],
    )
    yield "over_limit firing", [_bar(frame, *span) for span in _firing(lines.get("alert", ()), frame.last_s)]


def _dot(name: str, x: float, complete: bool) -> str:
    return f'<circle class="{name}{"" if complete else " partial"}" cx="{x:.1f}" cy="@y" r="5"/>'


def _tick(name: str, x: float) -> str:
    return f'<rect class="{name}" x="{x - 1:.1f}" y="@y" width="2" height="12" transform="translate(0 -6)"/>'


def _bar(frame: _Frame, first_s: float, last_s: float) -> str:
    first, last = frame.x(first_s), frame.x(last_s)
    wide = max(last - first, 2.0)
    return f'<rect class="over" x="{first:.1f}" y="@y" width="{wide:.1f}" height="8" transform="translate(0 -4)"/>'


def _firing(alerts: Iterable[Line], last_s: float) -> list[tuple[float, float]]:
    """From when to when an ``over_limit`` fired [s]."""
    begun: dict[str, float] = {}
    spans: list[tuple[float, float]] = []
    for line in alerts:
        if line["kind"] != "over_limit":
            continue
        if line["state"] == "firing":
            begun.setdefault(line["id"], seconds(line["at"]))
        elif line["state"] == "resolved" and line["id"] in begun:
            spans.append((begun.pop(line["id"]), seconds(line["at"])))
    return spans + [(first_s, last_s) for first_s in begun.values()]
