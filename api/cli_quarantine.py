"""The `quarantine` commands: what could not become a reading, listed, exported, tried again."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from itertools import chain, islice
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from api.terminal import ConfigOption, JsonOption, answer, complain, say

quarantine_app = typer.Typer(
    help="What could not become a reading, with reason and bytes.", no_args_is_help=True
)
SensorOption = Annotated[str | None, typer.Option(help="Only this sensor's.")]
ReasonOption = Annotated[str | None, typer.Option(help="Only this reason's, such as not_json.")]
WaitingOption = Annotated[
    bool, typer.Option("--waiting", help="Only those that were not taken when tried again.")
]


@quarantine_app.command("list")
def quarantine_list(
    sensor: SensorOption = None,
    reason: ReasonOption = None,
    waiting: WaitingOption = False,
    limit: Annotated[int, typer.Option(help="At most so many, the oldest first.", min=1, max=2**31)] = 1000,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """List items, the oldest first: when they came, from whom, and why they lie here."""
    from api import quarantined
    from api.retry import Chosen, export_line

    found = list(
        islice(quarantined.rows(Chosen(sensor=sensor, reason=reason), config, waiting_only=waiting), limit)
    )
    if json:
        answer([export_line(one) for one in found])
        return
    for one in found:
        line = export_line(one)
        became = f"  [{one.outcome} when tried again]" if one.outcome else ""
        say(
            f"{one.id}  {line['received_at']}  {one.sensor or one.topic}  {one.reason}: {one.detail}  "
            f"({one.size} bytes){became}"
        )


@quarantine_app.command("export")
def quarantine_export(
    out: Annotated[str, typer.Option(help="Where the lines go; - is standard output.")] = "-",
    sensor: SensorOption = None,
    reason: ReasonOption = None,
    waiting: WaitingOption = False,
    messages: Annotated[
        bool,
        typer.Option(
            "--messages", help="As a message file for `quarterline replay`; items cut short are left out."
        ),
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Write items as JSON lines: bytes, size, SHA-256, reason, device profile."""
    from api import quarantined
    from api.retry import Chosen, export_line, message_line

    count = cut = 0
    rows = quarantined.rows(Chosen(sensor=sensor, reason=reason), config, waiting_only=waiting)
    first = list(islice(rows, 1))  # what is wrong shows before an earlier file is written over
    with nullcontext(sys.stdout.buffer) if out == "-" else Path(out).open("wb") as file:
        for one in chain(first, rows):
            if messages and not one.is_whole:
                cut += 1
                continue
            line = message_line(one) if messages else export_line(one)
            file.write(msgspec.json.encode(line) + b"\n")
            count += 1
        file.flush()
    left = f"; {cut} of which only the first 4 KiB are kept were left out" if cut else ""
    complain(f"{count} items{left}")


@quarantine_app.command("retry")
def quarantine_retry(
    ids: Annotated[
        list[int] | None,
        typer.Argument(help="Ids; all that were not taken where none.", min=1, max=2**63 - 1),
    ] = None,
    sensor: SensorOption = None,
    reason: ReasonOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Try items again by the fleet and the device profiles as they now are; nothing is stored twice."""
    from api import quarantined
    from api.retry import Chosen, counts

    tried = quarantined.retry(Chosen(tuple(ids or ()), sensor, reason), config)
    if json:
        answer({"counts": counts(tried), "items": [one.as_json() for one in tried]})
        return
    for one in tried:
        if one.outcome in {"quarantined", "cut"}:
            say(f"{one.id}  {one.sensor or '-'}  {one.reason}: {one.detail}")
    found = counts(tried)
    say(
        f"{len(tried)} tried: {found['stored']} stored, {found['duplicate']} known already, "
        f"{found['heartbeat']} without a value, {found['quarantined']} as before, {found['cut']} cut short"
    )
