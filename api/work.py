"""What the commands do: each function is one command's work, without the words of the command line."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, BinaryIO, Final

from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from api import doctor
from api.core import Rules
from api.fleet_file import Known, frequency_check, parse_fleet
from api.logs import set_up_logs
from api.recording import instant_text, merged, opened, parse_instant, read_events, read_messages
from api.replay import Progress, Replay
from api.security import new_key, new_sign_in
from api.serve import load_rules, store_path
from api.serve import serve as run_service
from api.service import Fleet
from api.settings import Settings, load_settings
from store import open_store
from store.ports import Store
from store.records import Totals

_USE: Final = "give the path of a file that exists"


class WorkError(Exception):
    """The work could not be done; exit status 1."""


class UseError(Exception):
    """The command was used wrongly; exit status 2."""


def serve(config: Path | None) -> None:
    """Run the service until it is told to stop."""
    settings = load_settings(config)
    set_up_logs(settings.log)
    run_service(settings)


@contextlib.contextmanager
def the_store(settings: Settings) -> Iterator[Store]:
    """The configured store, closed afterwards."""
    store = open_store(settings.data_dir)
    try:
        yield store
    finally:
        store.close()


def read_fleet(file: Path, rules: Rules, store: Store) -> Fleet:
    """A fleet file's objects, checked against what is known already."""
    registry = store.registry
    known = Known(
        ordinances=rules.ordinances,
        profiles=rules.profiles,
        check_frequency=frequency_check(rules.ordinances, datetime.now(tz=UTC).date()),
        registered=Fleet(
            sites=tuple(registry.sites()),
            interceptors=tuple(registry.interceptors()),
            sensors=tuple(registry.sensors()),
            haulers=tuple(registry.haulers()),
        ),
    )
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UseError(f"{file}: is not UTF-8 text") from None
    return parse_fleet(text, str(file), known)


def put_fleet(store: Store, fleet: Fleet) -> int:
    """Put a fleet's objects into the registry, all or none."""
    with store.transaction():
        return store.registry.put_fleet(
            sites=fleet.sites, interceptors=fleet.interceptors, sensors=fleet.sensors, haulers=fleet.haulers
        )


def import_fleet(file: Path, config: Path | None) -> str:
    """Import a fleet file; returns what it did, in words."""
    settings = load_settings(config)
    rules = load_rules(settings)
    with the_store(settings) as store:
        fleet = read_fleet(file, rules, store)
        changed = put_fleet(store, fleet)
    return (
        f"{file}: {len(fleet.sites)} sites, {len(fleet.interceptors)} interceptors, "
        f"{len(fleet.sensors)} sensors, {len(fleet.haulers)} haulers; "
        f"{changed} new or changed, in {store_path(settings)}"
    )


# ---- replay ------------------------------------------------------------------------------------------


def replay(
    fleet: Path,
    messages: str,
    events: str | None,
    until: str | None,
    out: str,
    config: Path | None,
    rules: Rules | None = None,
) -> Totals:
    """Replay a recorded stream by the configured rules, or ``rules``; returns the counts of the summary."""
    if messages == "-" and events == "-":
        raise UseError("--messages and --events cannot both be standard input")
    try:
        until_us = None if until is None else parse_instant(until)
    except ValueError as error:
        raise UseError(f"--until: {error}") from None
    rules = rules or load_rules(load_settings(config))
    with tempfile.TemporaryDirectory(prefix="quarterline-replay-") as folder:
        store = open_store(Path(folder), durable=False)
        try:
            put_fleet(store, read_fleet(fleet, rules, store))
            with _written(out) as file:
                return _replay_into(file, store, rules, messages, events, until_us)
        finally:
            store.close()


def _replay_into(
    file: IO[bytes], store: Store, rules: Rules, messages: str, events: str | None, until_us: int | None
) -> Totals:
    with contextlib.ExitStack() as stack:
        stdin = sys.stdin.buffer
        source, name = stack.enter_context(opened(messages, stdin))
        known = read_events(*stack.enter_context(opened(events, stdin))) if events is not None else []
        progress = stack.enter_context(_progress())
        return Replay(store, rules, file).run(
            merged(read_messages(source, name), known), until_us=until_us, progress=progress
        )


@contextlib.contextmanager
def _written(out: str) -> Iterator[BinaryIO]:
    """Standard output, or a file that appears only when it is whole."""
    if out == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(out)
    if not target.parent.is_dir():
        raise UseError(f"--out: {target.parent} is no directory")
    if target.exists() and not target.is_file():  # a pipe or a device is written straight away
        with target.open("wb") as file:
            yield file
        return
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        part = Path(file.name)
        try:
            yield file  # type: ignore[misc]  # a NamedTemporaryFile is a BinaryIO in all that is used
        except BaseException:
            part.unlink()
            raise
    umask = os.umask(0)
    os.umask(umask)
    part.chmod(0o666 & ~umask)
    part.replace(target)


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("replaying")

        def show(progress: Progress) -> None:
            bar.update(
                task, description=f"{progress.messages:,} messages, at {instant_text(progress.at_us)[:16]}Z"
            )

        yield show


# ---- keys --------------------------------------------------------------------------------------------


def _now_us() -> int:
    return time.time_ns() // 1000


def create_key(name: str, role: str, subject: str | None, config: Path | None) -> str:
    """Make a key; returns it, to be shown once."""
    with the_store(load_settings(config)) as store:
        key, token = new_key(name, role, subject=subject, now_us=_now_us())
        with store.transaction():
            store.ledger.put_key(key)
    return token


def list_keys(config: Path | None) -> list[dict[str, Any]]:
    """The keys that exist, without their secrets."""
    with the_store(load_settings(config)) as store:
        return [
            {
                "id": key.id,
                "name": key.name,
                "role": key.role,
                "subject": key.subject,
                "created": instant_text(key.created_us),
                "revoked": None if key.revoked_us is None else instant_text(key.revoked_us),
            }
            for key in store.ledger.keys()
        ]


def revoke_key(identity: str, config: Path | None) -> str:
    """Take a key out of force."""
    from dataclasses import replace

    with the_store(load_settings(config)) as store:
        found = [key for key in store.ledger.keys() if key.id == identity]
        if not found:
            raise UseError(f"no key {identity!r}: see `quarterline token list`")
        with store.transaction():
            store.ledger.put_key(replace(found[0], revoked_us=_now_us()))
    return f"key {identity} ({found[0].name}) is revoked"


def sign_in_link(name: str, role: str, config: Path | None) -> str:
    """Make a one-time sign-in link."""
    settings = load_settings(config)
    with the_store(settings) as store:
        record, token = new_sign_in(name, role, now_us=_now_us(), minutes=settings.auth.sign_in_minutes)
        with store.transaction():
            store.ledger.put_sign_in(record)
    return f"{settings.http.url}/sign-in/{token}"


# ---- looking -----------------------------------------------------------------------------------------


def look(config: Path | None) -> list[doctor.Finding]:
    """Everything `quarterline doctor` looks at."""
    settings = load_settings(config)
    findings = [*doctor.modules(), doctor.local_clock(), *doctor.data_dir(settings.data_dir)]
    findings += doctor.store_file(store_path(settings), settings.data_dir)
    rules = load_rules(settings)
    findings.append(doctor.Finding("ordinances", doctor.OK, ", ".join(sorted(rules.ordinances))))
    findings.append(doctor.Finding("device profiles", doctor.OK, ", ".join(sorted(rules.profiles))))
    findings += doctor.ca_file(settings.mqtt.ca_file)
    if settings.mqtt.enabled:
        remedy = "start the broker, or set [mqtt] host and port"
        findings.append(doctor.tcp("mqtt", settings.mqtt.host, settings.mqtt.port, remedy))
    findings += doctor.running_service(settings.http.url)
    return findings
