"""`quarterline sensor check`: asks the running service, which has the messages; where none runs, the store."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx

from api.check import check
from api.http.guard import COOKIE
from api.recent import Recent
from api.security import READ_ONLY, close_session, open_session
from api.serve import load_rules
from api.settings import Settings, load_settings
from api.work import UseError, WorkError, the_store
from store.ports import Store
from store.records import Json

_LOOK_S: Final = 1.0  # between two looks of --follow
_SESSION_HOURS: Final = 24.0
_SHOWN: Final = 64  # characters of a raw value

Ask = Callable[[], Json]


def look(sensor: str, config: Path | None, *, limit: int) -> Json:
    """What is known of a sensor's last messages."""
    with _asking(sensor, config, limit) as ask:
        return ask()


def follow(
    sensor: str, config: Path | None, *, limit: int, stop_after_s: float | None = None
) -> Iterator[Json]:
    """First what there is, oldest message first, then each message as it comes; until told to stop."""
    deadline = None if stop_after_s is None else time.monotonic() + stop_after_s
    told: set[tuple[str, str | None, str | None]] = set()
    with _asking(sensor, config, limit) as ask:
        while True:
            found = ask()
            names = {_name(one): one for one in reversed(found["messages"])}
            yield {**found, "messages": [one for name, one in names.items() if name not in told]}
            told = set(names)
            if deadline is not None and time.monotonic() >= deadline:
                return
            time.sleep(_LOOK_S)


def _name(message: Json) -> tuple[str, str | None, str | None]:
    return message["received_at"], message["topic"], message["payload"]


@contextmanager
def _asking(sensor: str, config: Path | None, limit: int) -> Iterator[Ask]:
    if not sensor.isprintable() or "/" in sensor or sensor in {"", ".", ".."}:
        raise UseError(f"{sensor!r} is no id of a sensor: letters, digits and . _ : -, as in the topic")
    settings = load_settings(config)
    profiles = load_rules(settings).profiles
    with the_store(settings) as store, _signed_in(settings, store) as client:

        def ask() -> Json:
            try:
                answer = client.get(
                    f"/api/v1/sensors/{quote(sensor, safe='')}/check", params={"limit": limit}
                )
            except httpx.TransportError:  # no service runs: what the store alone knows
                return check(store, Recent(), profiles, sensor, limit=limit)
            if answer.status_code != 200:
                raise WorkError(f"the service answered {answer.status_code}: {answer.text[:300]}")
            found: Json = answer.json()
            return found

        yield ask


@contextmanager
def _signed_in(settings: Settings, store: Store) -> Iterator[httpx.Client]:
    """A client of the service on this machine, signed in for as long as it lasts: who may write the store may look."""
    with store.transaction():
        now_us = time.time_ns() // 1000
        token = open_session(
            store.ledger, "sensor check", READ_ONLY, now_us=now_us, session_hours=_SESSION_HOURS
        )
    http = settings.http
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(http.host, http.host)
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    try:
        with httpx.Client(
            base_url=f"http://{host}:{http.port}", cookies={COOKIE: token}, timeout=10, trust_env=False
        ) as client:
            yield client
    finally:
        with store.transaction():
            close_session(store.ledger, token)


# ---- in words ----------------------------------------------------------------------------------------


def heading(found: Json) -> list[str]:
    """Whose messages these are, and what is to be done first."""
    lines = []
    if found["known"]:
        online = {True: ", online", False: ", offline", None: ""}[found["online"]]
        heard = found["heard_at"] or "never"
        lines.append(f"{found['sensor']} in {found['interceptor']}, last heard {heard}{online}")
    if found["advice"]:
        lines.append(found["advice"])
    return lines


def message_lines(message: Json) -> list[str]:
    """One message as a person reads it."""
    where = f" on {message['topic']}" if message["topic"] else " (its bytes are gone, its values are stored)"
    lines = [f"{message['received_at']}{where}"]
    for part in message["parts"]:
        place = "" if part["place"] is None else f"[{part['place']}] "
        reason = f" ({part['reason']})" if part["reason"] else ""
        at = f" at {part['time']}" if part["time"] else ""
        detail = f": {part['detail']}" if part["detail"] else ""
        lines.append(f"  {place}{part['outcome'].upper()}{reason}{at}{detail}")
        lines += [f"    {_field_line(one)}" for one in part["fields"]]
    return lines


def _field_line(one: dict[str, Any]) -> str:
    value = one["value"]
    if one["source"] is None:
        return f"{one['si']} = {_number(value)}"
    raw = json.dumps(one["raw"], ensure_ascii=False)
    raw = raw if len(raw) <= _SHOWN else raw[:_SHOWN] + "…"
    if one["si"] is None:
        return f"{one['source']}: {raw} -> {one['note']}"
    unit = f" [{one['unit']}]" if one["unit"] else ""
    return f"{one['source']}: {raw} -> {one['quantity']}{unit}, {one['si']} = {_number(value)}"


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else json.dumps(value)
