"""`quarterline bench`: what this machine does, beside a peer in the same run."""

from __future__ import annotations

from typing import Annotated

import typer

from api.terminal import JsonOption, answer, complain, fail, say

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
    from ingest.bench import bench_ingest, in_words
    from ingest.bench_payload import SHAPES

    if mqtt not in {"3.1.1", "5"}:
        fail(f"--mqtt: {mqtt!r} is neither 3.1.1 nor 5", 2)
    if shape not in SHAPES:
        fail(f"--shape: {shape!r} is none of {', '.join(SHAPES)}", 2)
    result = bench_ingest(
        messages=messages, runs=runs, version=mqtt, window=window, shape=SHAPES[shape], progress=complain
    )
    if json:
        answer(result.as_json())
    else:
        say(in_words(result))


@bench_app.command("memory")
def memory(
    messages: Annotated[int, typer.Option(help="Messages that pass.", min=1000)] = 300_000,
    json: JsonOption = False,
) -> None:
    """Resident memory while messages are taken, committed and acknowledged."""
    from ingest.bench_memory import bench_memory, in_words

    result = bench_memory(messages=messages, progress=complain)
    if json:
        answer(result.as_json())
    else:
        say(in_words(result))
