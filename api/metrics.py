"""The metrics page: counters over all time as the store holds them, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from api.intake import Flow
from ingest.told import SessionStatus
from store.records import Totals

LOSSES = "possible_losses"  # where the ledger counts them
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Losses:
    """What may have been lost, or was given up, over all time."""

    possible: int = 0  # times that the broker had forgotten the session
    quarantine_dropped: int = 0


def exposition(
    totals: Totals,
    pending: int,
    parts: Mapping[str, tuple[bool, str]],
    flow: Flow,
    session: SessionStatus | None = None,
    losses: Losses | None = None,
) -> str:
    """The page. ``quarterline_items_received_total`` = the outcomes' sum + ``quarterline_items_pending``."""
    lines = [*_lines(totals, pending, parts), *_flow(flow), *_losses(losses or Losses())]
    if session is not None:
        lines += _session(session)
    return "\n".join([*lines, ""])


def _lines(totals: Totals, pending: int, parts: Mapping[str, tuple[bool, str]]) -> Iterator[str]:
    yield from _head("quarterline_messages_received_total", "counter", "MQTT messages and HTTP bodies taken.")
    yield f"quarterline_messages_received_total {totals.messages}"
    yield from _head("quarterline_items_received_total", "counter", "Items received, pending ones included.")
    yield f"quarterline_items_received_total {totals.received + pending}"
    yield from _head("quarterline_items_total", "counter", "Items by what became of them.")
    for outcome in ("stored", "duplicate", "quarantined", "retained", "heartbeat"):
        yield f'quarterline_items_total{{outcome="{outcome}"}} {getattr(totals, outcome)}'
    yield from _head("quarterline_items_pending", "gauge", "Items received and not yet committed.")
    yield f"quarterline_items_pending {pending}"
    yield from _head("quarterline_ready", "gauge", "1 where a part of the service is well.")
    for part in sorted(parts):
        yield f'quarterline_ready{{part="{part}"}} {int(parts[part][0])}'


def _flow(flow: Flow) -> Iterator[str]:
    yield from _gauge(
        "quarterline_reader_queue", "Messages read from the network and not handed on.", flow.waiting
    )
    yield from _gauge(
        "quarterline_reader_queue_bound", "The most the reader holds; then it stops reading.", flow.bound
    )
    yield from _gauge(
        "quarterline_acknowledgement_lag_seconds", "Age of the oldest message to be acknowledged.", flow.lag_s
    )
    if flow.spool is None:
        return
    yield from _gauge("quarterline_spool_bytes", "What the disk spool takes up.", flow.spool.bytes)
    yield from _gauge(
        "quarterline_spool_capacity_bytes", "The most it may take up.", flow.spool.capacity_bytes
    )
    yield from _gauge("quarterline_spool_records", "Messages in the disk spool.", flow.spool.records)
    yield from _gauge(
        "quarterline_spool_oldest_age_seconds",
        "Age of the oldest message in the disk spool.",
        flow.spool_age_s,
    )


def _losses(losses: Losses) -> Iterator[str]:
    name = "quarterline_possible_losses_total"
    yield from _head(name, "counter", "Times that the broker had forgotten the session and what it held.")
    yield f"{name} {losses.possible}"
    name = "quarterline_quarantine_dropped_total"
    yield from _head(name, "counter", "Quarantined items dropped for want of room.")
    yield f"{name} {losses.quarantine_dropped}"


def _session(session: SessionStatus) -> Iterator[str]:
    name = "quarterline_mqtt_connections_total"
    yield from _head(name, "counter", "Connections that the broker welcomed since the service started.")
    yield f"{name} {session.connections}"
    yield from _gauge("quarterline_mqtt_connected", "1 while messages can come in.", int(session.connected))
    yield from _gauge(
        "quarterline_mqtt_stalled",
        "1 while connected and nothing has come for too long.",
        int(session.stalled),
    )
    yield from _gauge(
        "quarterline_mqtt_client_id_in_use",
        "1 while another client seems to use mqtt.client_id.",
        int(session.contested),
    )


def _gauge(name: str, words: str, value: float) -> Iterator[str]:
    yield from _head(name, "gauge", words)
    yield f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"


def _head(name: str, kind: str, words: str) -> Iterator[str]:
    yield f"# HELP {name} {words}"
    yield f"# TYPE {name} {kind}"
