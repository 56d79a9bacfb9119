"""`quarterline broker-config`: fetch who may connect, and write what a broker needs to know of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from api.brokerconfig import BROKERS, Access, Broker, File, Listener
from api.credentials import SERVICE, Credential, credentials, issue, new_password
from api.settings import Settings, load_settings
from api.work import UseError, the_store
from store.ports import Store

_NETWORK_SERVER: Final = "network-server"
_PLAIN: Final = 1883
_TLS: Final = 8883


@dataclass(frozen=True, slots=True)
class Wanted:
    """What can be chosen."""

    broker: str
    out: Path | None = None
    at: str | None = None
    host: str = "0.0.0.0"  # sensors come from outside; the access list is the point of it
    port: int | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    network_server: bool = False
    new_password: bool = False


def broker_config(wanted: Wanted, config: Path | None, *, say: Callable[[str], None]) -> list[File]:
    """The files of a broker's configuration, written where a folder is given; tells the rest by ``say``.

    Raises
    ------
    UseError
        No such broker, or one of the certificate's files without the other.
    """
    broker = BROKERS.get(wanted.broker)
    if broker is None:
        raise UseError(f"no broker {wanted.broker!r}: one of {', '.join(BROKERS)}")
    if (wanted.tls_cert is None) != (wanted.tls_key is None):
        raise UseError("--tls-cert and --tls-key go together: give both, or neither for no TLS")
    for name in ("host", "at", "out", "tls_cert", "tls_key"):
        _fit_for_a_line(f"--{name.replace('_', '-')}", getattr(wanted, name))
    settings = load_settings(config)
    if wanted.out is not None:  # before a password is made that only a file there would show
        wanted.out.mkdir(parents=True, exist_ok=True)
        if not os.access(wanted.out, os.W_OK):
            raise UseError(f"--out: {wanted.out}: cannot be written to; give another folder")
    at = (wanted.at or broker.folder).rstrip("/")
    with the_store(settings) as store:
        access = _access(store, settings, wanted, say)
    files = broker.files(access, _listener(wanted), at)
    if wanted.out is not None:
        for one in files:
            _write(wanted.out / one.name, one)
            say(f"wrote {wanted.out / one.name}")
    _tell(broker, access, at, say)
    return files


def _fit_for_a_line(name: str, said: str | Path | None) -> None:
    if said is not None and (not str(said).strip() or not str(said).isprintable()):
        raise UseError(f"{name}: expected text on one line, found {str(said)[:60]!r}")


def _listener(wanted: Wanted) -> Listener:
    if wanted.tls_cert is None or wanted.tls_key is None:
        return Listener(wanted.host, wanted.port or _PLAIN)
    return Listener(wanted.host, wanted.port or _TLS, str(wanted.tls_cert), str(wanted.tls_key))


def _access(store: Store, settings: Settings, wanted: Wanted, say: Callable[[str], None]) -> Access:
    service = settings.mqtt.username or "quarterline"
    registered = {one.id for one in store.registry.sensors()}
    for name in {service, _NETWORK_SERVER} & registered:
        raise UseError(
            f"the sensor {name!r} has the user name of the service itself: choose another with [mqtt] username"
        )
    _ensure(store, service, SERVICE, settings.mqtt.secret(), wanted, say)
    if wanted.network_server:
        _ensure(store, _NETWORK_SERVER, _NETWORK_SERVER, None, wanted, say)
    found = {one.username: one for one in credentials(store.ledger.keys())}
    without = sorted(registered - {one.sensor for one in found.values()})
    if without:
        say(
            f"{len(without)} sensors have no password yet and cannot connect: {', '.join(without[:5])}"
            f"{' …' if len(without) > 5 else ''}; give them one by `quarterline sensor password ID`"
        )
    return Access(
        sensors=[one for one in found.values() if one.sensor in registered],
        service=found[service],
        subscriptions=settings.mqtt.subscriptions,
        network_server=found.get(_NETWORK_SERVER),
    )


def _ensure(
    store: Store, name: str, role: str, given: str | None, wanted: Wanted, say: Callable[[str], None]
) -> None:
    """See that this user has a password: the configured one, the one it has, or a new one, shown once."""
    known: Credential | None = next(
        (one for one in credentials(store.ledger.keys(subject=name)) if one.sensor is None), None
    )
    if given is not None:
        if known is not None and known.hashes.matches(given):
            return
    elif known is not None and not wanted.new_password:
        return
    password = given or new_password()
    with store.transaction():
        issue(store.ledger, name, role=role, password=password, now_us=time.time_ns() // 1000)
    if given is not None:
        return
    if role != SERVICE:
        say(f"the network server's user name and password, shown this once: {name} {password}")
        return
    say("the service's own password is new and shown this once; for quarterline.toml:")
    say(f'[mqtt]\nusername = "{name}"')
    if wanted.out is None:
        say(f'password = "{password}"')
        return
    path = wanted.out / "quarterline.password"
    _write(path, File(path.name, password + "\n", secret=True))
    say(f'password_file = "{path.resolve()}"')


def _write(path: Path, one: File) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    mode = 0o600 if one.secret else 0o644
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
        file.write(one.text)
    part.replace(path)


def _tell(broker: Broker, access: Access, at: str, say: Callable[[str], None]) -> None:
    say(f"{len(access.sensors)} sensors may publish, each under its own id. Then, on the broker's machine:")
    for step in broker.steps:
        say("  " + step.format(at=at))
