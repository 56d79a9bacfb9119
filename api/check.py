"""`sensor check`: a sensor's last messages, and what each became field by field, or why it was refused."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from alerts.calendar import iso_instant
from api.recent import Recent
from ingest.explain import READING, Field, Part, explain
from ingest.message import RawMessage
from ingest.profile import DeviceProfile
from store.ports import History, Store
from store.records import Item, Json, Quarantined, Sensor, StoredReading

MOST: Final = 50
_MOVED_US: Final = 100_000  # how far an item without a time of its own may have moved to a free instant
_END_US: Final = 2**62


def check(
    store: Store, recent: Recent, profiles: Mapping[str, DeviceProfile], sensor: str, *, limit: int = 10
) -> Json:
    """What is known of the last messages under a sensor's id, newest first; it need not be in the fleet."""
    identity = sensor.lower()
    known = next((one for one in store.registry.sensors() if one.id == identity), None)
    refused = store.history.quarantine(sensor=identity, limit=MOST * 4, newest_first=True)
    messages = recent.of(identity)[:limit]
    shown = [_live(one, known, profiles, store.history, refused) for one in messages]
    there = {(one.received_us, one.topic) for one in messages}
    shown += [_kept(one, known, profiles) for one in refused if (one.received_us, one.topic) not in there]
    oldest = messages[-1].received_us if messages else _END_US
    if known is not None and len(messages) < limit:
        rows = store.history.before(identity, _END_US, limit=limit)
        shown += [_stored(row) for row in rows if row.received_us < oldest]
    shown.sort(key=lambda one: one["received_at"], reverse=True)
    heard = store.history.contacts().get(identity)
    online = store.history.connectivity().get(identity)
    return {
        "sensor": identity,
        "known": known is not None,
        "interceptor": None if known is None else known.interceptor,
        "profile": None if known is None else known.profile,
        "heard_at": None if heard is None else iso_instant(heard),
        "online": None if online is None else online[0],
        "advice": _advice(identity, known, shown),
        "messages": shown[:limit],
    }


def _advice(identity: str, known: Sensor | None, shown: Sequence[Json]) -> str | None:
    topic = f"quarterline/v1/{identity}/readings"
    if known is None:
        return (
            f"{identity} is in no fleet: `quarterline sensor add {identity} --interceptor ID` registers it; "
            "what came is kept in quarantine"
        )
    if not shown:
        return (
            f"nothing has come yet: publish to {topic} with the name and password of "
            f"`quarterline sensor password {identity}`; a broker that refuses it says so in its own log"
        )
    return None


# ---- messages ----------------------------------------------------------------------------------------


def _live(
    message: RawMessage,
    known: Sensor | None,
    profiles: Mapping[str, DeviceProfile],
    history: History,
    refused: Sequence[Quarantined],
) -> Json:
    if message.size:
        whole = f"{message.size} bytes came, too long to show field by field"
        mine = [
            one for one in refused if (one.received_us, one.topic) == (message.received_us, message.topic)
        ]
        parts = [_refusal(one) for one in mine] or [_part("taken", detail=whole)]
        return _entry(message.received_us, message.topic, message.payload, message.size, parts)
    rate = next((one for one in refused if one.reason == "rate" and _same(one, message)), None)
    if rate is not None:
        return _entry(message.received_us, message.topic, message.payload, 0, [_refusal(rate)])
    parts = [_judged(part, message, history, refused) for part in explain(message, known, profiles)]
    return _entry(message.received_us, message.topic, message.payload, 0, parts)


def _same(one: Quarantined, message: RawMessage) -> bool:
    return one.received_us == message.received_us and one.sha256 == _digest(message.payload)


def _judged(part: Part, message: RawMessage, history: History, refused: Sequence[Quarantined]) -> Json:
    if part.kind != READING or part.item is None:
        return _part(part.kind, part.fields, reason=part.reason, detail=part.detail, place=part.place)
    item = part.item
    for one in refused:
        if (one.reason, one.received_us, one.sha256) == ("conflict", message.received_us, _digest(item.raw)):
            return _part("refused", part.fields, reason="conflict", detail=one.detail, place=part.place)
    row = _row_of(item, history)
    outcome, detail, time_us = "duplicate", "these values were there already", item.time_us
    if row is not None and row.received_us >= item.received_us:
        outcome, detail, time_us = "stored", "", row.time_us
    if item.flags:
        detail = f"{detail}; its own time was missing or wrong, the time of receipt stands in".lstrip("; ")
    return _part(outcome, part.fields, detail=detail, place=part.place, time_us=time_us)


def _row_of(item: Item, history: History) -> StoredReading | None:
    until_us = item.time_us + (_MOVED_US if item.key is not None else 1)
    for row in history.readings([item.sensor], since_us=item.time_us, until_us=until_us):
        if all(math.isclose(row.values.get(k, math.nan), v, rel_tol=1e-9) for k, v in item.values.items()):
            return row
    return None


def _kept(one: Quarantined, known: Sensor | None, profiles: Mapping[str, DeviceProfile]) -> Json:
    """What is in quarantine only: of before the service's start, or of a sensor nobody knows."""
    fields: tuple[Field, ...] = ()
    if one.is_whole:
        message = RawMessage(one.topic, one.payload, one.received_us)
        fields = next((part.fields for part in explain(message, known, profiles)), ())
    part = _part("refused", fields, reason=one.reason, detail=one.detail)
    return _entry(one.received_us, one.topic, one.payload, one.size, [part])


def _stored(row: StoredReading) -> Json:
    """A reading of before the service's start: its bytes are gone, its values are in the history."""
    fields = tuple(Field("", None, None, None, column, value) for column, value in row.values.items())
    part = _part("stored", fields, time_us=row.time_us)
    return _entry(row.received_us, "", None, 0, [part])


def _entry(received_us: int, topic: str, payload: bytes | None, size: int, parts: Sequence[Json]) -> Json:
    text: str | None = None
    if payload is not None:
        try:
            text = payload.decode()
        except UnicodeDecodeError:
            text = "hex:" + payload.hex()
    return {
        "received_at": iso_instant(received_us),
        "topic": topic or None,
        "payload": text,
        "size": size or (None if payload is None else len(payload)),
        "parts": list(parts),
    }


def _refusal(one: Quarantined) -> Json:
    return _part("refused", reason=one.reason, detail=one.detail)


def _part(
    outcome: str,
    fields: Sequence[Field] = (),
    *,
    reason: str = "",
    detail: str = "",
    place: int | None = None,
    time_us: int | None = None,
) -> Json:
    return {
        "outcome": outcome,
        "place": place,
        "time": None if time_us is None else iso_instant(time_us),
        "reason": reason or None,
        "detail": detail or None,
        "fields": [_field(one) for one in fields],
    }


def _field(one: Field) -> dict[str, Any]:
    return {
        "source": one.source or None,
        "raw": one.raw,
        "quantity": one.quantity,
        "unit": one.unit,
        "si": one.column,
        "value": one.value,
        "note": one.note or None,
    }


def _digest(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()
