"""`quarterline bench`: what this machine does, beside a peer in the same run."""

from __future__ import annotations

from typing import Annotated

import typer

from api.bench_result import Figures, in_words
from api.terminal import JsonOption, answer, complain, fail, say

Interceptors = Annotated[int, typer.Option(help="Size of the fleet.", min=1)]
Readings = Annotated[int, typer.Option(help="Readings of each interceptor.", min=1)]
Repeats = Annotated[int, typer.Option(help="How often each is measured; the median counts.", min=1)]
Curves = Annotated[
    bool,
    typer.Option(
        "--curves",
        help="Instead: the cost of one by the size of the fleet, 1,000 to --interceptors, and by history.",
    ),
]

bench_app = typer.Typer(help="Measure this machine, against a peer in the same run.", no_args_is_help=True)


@bench_app.command("ingest")
def ingest(
    messages: Annotated[int, typer.Option(help="Length of the queue.", min=1000)] = 100_000,
    runs: Annotated[int, typer.Option(help="Runs of each, in turn.", min=1)] = 3,
    mqtt: Annotated[str, typer.Option(help="MQTT version of both: 3.1.1 or 5.")] = "3.1.1",
    shape: Annotated[
        str,
        typer.Option(help="What a message is: nine, small, eleven, rods, array, electrodes or chirpstack."),
    ] = "nine",
    window: Annotated[
        int, typer.Option(help="Messages that may be unacknowledged at once.", min=1, max=60_000)
    ] = 1000,
    json: JsonOption = False,
) -> None:
    """Messages a second acknowledged after commit, beside a bare receive-and-acknowledge loop."""
    from ingest import bench
    from ingest.bench_payload import SHAPES

    if mqtt not in {"3.1.1", "5"}:
        fail(f"--mqtt: {mqtt!r} is neither 3.1.1 nor 5", 2)
    if shape not in SHAPES:
        fail(f"--shape: {shape!r} is none of {', '.join(SHAPES)}", 2)
    result = bench.bench_ingest(
        messages=messages, runs=runs, version=mqtt, window=window, shape=SHAPES[shape], progress=complain
    )
    if json:
        answer(result.as_json())
    else:
        say(bench.in_words(result))


@bench_app.command("memory")
def memory(
    messages: Annotated[int, typer.Option(help="Messages that pass.", min=1000)] = 300_000,
    json: JsonOption = False,
) -> None:
    """Resident memory while messages are taken, committed and acknowledged."""
    from ingest import bench_memory

    result = bench_memory.bench_memory(messages=messages, progress=complain)
    if json:
        answer(result.as_json())
    else:
        say(bench_memory.in_words(result))


@bench_app.command("fold")
def fold(
    interceptors: Interceptors = 10_000,
    readings: Readings = 96,
    repeats: Repeats = 3,
    curves: Curves = False,
    json: JsonOption = False,
) -> None:
    """Readings a second of the filter alone and of the whole fold, beside filterpy, pandas and a copy of the bytes."""
    from api.bench_fold import bench_fold, fold_curves

    if curves:
        answer(fold_curves(repeats=repeats, most=interceptors, progress=complain))
        return
    _tell(
        bench_fold(interceptors=interceptors, readings=readings, repeats=repeats, progress=complain),
        json=json,
    )


@bench_app.command("assess")
def assess(
    interceptors: Interceptors = 1_000_000,
    readings: Readings = 3,
    repeats: Repeats = 3,
    curves: Curves = False,
    json: JsonOption = False,
) -> None:
    """A fleet stepped by a reading each and judged: time, peak of memory, crossing quantiles a second."""
    from api.bench_assess import assess_curve, bench_assess

    if curves:
        answer(assess_curve(repeats=repeats, most=interceptors, progress=complain))
        return
    _tell(
        bench_assess(interceptors=interceptors, readings=readings, repeats=repeats, progress=complain),
        json=json,
    )


@bench_app.command("replay")
def replay(
    interceptors: Annotated[
        int, typer.Option(help="Size of the fleet, at most 1000.", min=1, max=1000)
    ] = 1000,
    readings: Readings = 96,
    repeats: Repeats = 3,
    json: JsonOption = False,
) -> None:
    """Native messages a second through decoding, store, fold and decisions, beside parsing alone."""
    from api.bench_replay import bench_replay
    from api.serve import load_rules
    from api.settings import load_settings

    rules = load_rules(load_settings(None))
    _tell(
        bench_replay(
            interceptors=interceptors, readings=readings, repeats=repeats, rules=rules, progress=complain
        ),
        json=json,
    )


def _tell(figures: Figures, *, json: bool) -> None:
    if json:
        answer(figures.as_json())
    else:
        say(in_words(figures))
