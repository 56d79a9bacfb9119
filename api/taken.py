"""What became of each item of a message that came by HTTP, in the order of its elements."""

from __future__ import annotations

from collections.abc import Mapping

from api.service import ItemTaken
from ingest.explain import HEARTBEAT, READING, Part, explain
from ingest.message import RawMessage
from ingest.profile import DeviceProfile
from store.records import CommitResult, Sensor


def items_of(
    message: RawMessage, sensor: Sensor | None, profiles: Mapping[str, DeviceProfile], result: CommitResult
) -> tuple[ItemTaken, ...]:
    """One outcome for each item of one message, as the commit of that message alone told it."""
    for one in result.quarantined:
        if one.reason == "rate":
            return (ItemTaken(None, "quarantined", None, one.reason, one.detail),)
    conflicts = iter([one for one in result.quarantined if one.reason == "conflict"])
    taken: list[ItemTaken] = []
    number = 0
    for part in explain(message, sensor, profiles):
        if part.kind != READING or part.item is None:
            taken.append(_other(part))
            continue
        outcome = result.others.get(number, "stored")
        number += 1
        conflict = next(conflicts) if outcome == "quarantined" else None
        taken.append(
            ItemTaken(
                part.place,
                outcome,
                part.item.time_us,
                "" if conflict is None else conflict.reason,
                "" if conflict is None else conflict.detail,
            )
        )
    return tuple(taken)


def _other(part: Part) -> ItemTaken:
    if part.kind == HEARTBEAT:
        return ItemTaken(part.place, "heartbeat", None, "", "no quantity in it: taken as a sign of life")
    return ItemTaken(part.place, "quarantined", None, part.reason, part.detail)
