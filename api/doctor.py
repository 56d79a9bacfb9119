"""`quarterline doctor`: what is configured, reachable, writable, in step, and what to do where it is not."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import Final

import httpx

from store import open_store
from store.ports import StoreError

PACKAGES: Final = ("analysis", "store", "ingest", "alerts", "simulators", "api")
OK, WARN, FAULT = "ok", "warning", "fault"
_CLOCK_SLACK_S: Final = 5.0
_SPACE_FAULT: Final = 100 * 2**20
_SPACE_WARN: Final = 2**30


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: how it is, and what to do where it is not well."""

    part: str
    state: str
    detail: str
    remedy: str = ""


def modules() -> Iterator[Finding]:
    """Which file each of our packages is loaded from, and whether another distribution claims its name."""
    claims = packages_distributions()
    for name in PACKAGES:
        place = str(Path(str(import_module(name).__file__)).parent)
        strangers = sorted(set(claims.get(name, [])) - {"quarterline"})
        if strangers:
            yield Finding(
                f"package {name}",
                FAULT,
                f"{place}; also claimed by {', '.join(strangers)}",
                f"install quarterline in an environment of its own, without {', '.join(strangers)}",
            )
        else:
            yield Finding(f"package {name}", OK, place)
    try:
        yield Finding("quarterline", OK, version("quarterline"))
    except PackageNotFoundError:
        yield Finding(
            "quarterline", WARN, "not installed as a distribution", "run: pip install -e . (or make demo)"
        )


def data_dir(path: Path) -> Iterator[Finding]:
    """Whether the data directory can be written and has room."""
    if not path.exists():
        yield Finding("data directory", WARN, f"{path} does not exist yet", "it is made at the first start")
        path = next(p for p in path.parents if p.exists())
    if not os.access(path, os.W_OK | os.X_OK):
        yield Finding(
            "data directory", FAULT, f"{path} cannot be written", "give this user the right to write there"
        )
        return
    free = shutil.disk_usage(path).free
    state = FAULT if free < _SPACE_FAULT else WARN if free < _SPACE_WARN else OK
    yield Finding(
        "disk",
        state,
        f"{free / 2**30:.1f} GiB free at {path}",
        "" if state == OK else "make room, or move data_dir",
    )


def store_file(path: Path, data_dir: Path) -> Iterator[Finding]:
    """Whether the store opens and is sound."""
    if not path.exists():
        return
    try:
        store = open_store(data_dir)
    except (StoreError, OSError) as error:
        yield Finding("store", FAULT, str(error), "restore from a backup, or move the file aside")
        return
    try:
        verdict = store.integrity()
        totals = store.history.totals()
        yield Finding(
            "store",
            OK if verdict == "ok" else FAULT,
            f"{verdict}; {totals.stored} readings stored, {totals.quarantined} items in quarantine",
            "" if verdict == "ok" else "restore from a backup",
        )
        keys = [k for k in store.ledger.keys() if k.revoked_us is None]
        yield Finding(
            "keys",
            OK if keys else WARN,
            f"{len(keys)} in force",
            "" if keys else "run: quarterline token create",
        )
    finally:
        store.close()


def tcp(part: str, host: str, port: int, remedy: str, *, timeout_s: float = 3.0) -> Finding:
    """Whether something answers at an address."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s):
            return Finding(part, OK, f"{host}:{port} answers")
    except OSError as error:
        return Finding(part, FAULT, f"{host}:{port}: {error}", remedy)


def ca_file(path: Path | None) -> Iterator[Finding]:
    """Whether the CA file can be read as one."""
    if path is None:
        return
    try:
        ssl.create_default_context(cafile=str(path))
    except (OSError, ssl.SSLError) as error:
        yield Finding(
            "mqtt.ca_file",
            FAULT,
            f"{path}: {error}",
            "give the PEM file of the authority that signed the broker's certificate",
        )
    else:
        yield Finding("mqtt.ca_file", OK, str(path))


def running_service(address: str, *, now: Callable[[], float] = time.time) -> Iterator[Finding]:
    """What a running service says of itself, and whether its host's clock is in step with ours."""
    try:
        answer = httpx.get(f"{address}/readyz", timeout=3.0)
    except httpx.HTTPError as error:
        yield Finding(
            "service", WARN, f"{address}: {error}", "start it: quarterline serve --config quarterline.toml"
        )
        return
    state = OK if answer.status_code == 200 else FAULT
    yield Finding(
        "service",
        state,
        f"{address}/readyz: {answer.text.strip()[:300]}",
        "" if state == OK else "see what it says is not ready",
    )
    stated = answer.headers.get("date")
    if stated:
        off = parsedate_to_datetime(stated).timestamp() - now()
        state = OK if abs(off) <= _CLOCK_SLACK_S else FAULT
        yield Finding(
            "clock",
            state,
            f"the service's host differs by {off:.0f} s",
            "" if state == OK else "run NTP on both hosts",
        )


def local_clock() -> Finding:
    """Whether this machine's clock can be right at all: readings before 2020 or far ahead are re-stamped."""
    year = time.gmtime().tm_year
    if year < 2024:
        return Finding("clock", FAULT, f"this machine says it is {year}", "set the clock; run NTP")
    return Finding("clock", OK, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
