"""The composition root of a running service: settings in, threads and sockets out."""

from __future__ import annotations

import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import structlog
import uvicorn

from alerts.channels import LogChannel, WebhookChannel
from alerts.dispatch import Dispatcher
from alerts.ordinance import Ordinance, load_ordinances
from alerts.policy import Policy
from api.bell import Bell
from api.commands import Commands
from api.core import Core, Rules
from api.datadir import held
from api.engine import Engine
from api.http.app import create_app
from api.intake import Flow
from api.recent import Recent
from api.settings import ConfigurationError, Settings, check_bind
from api.source import ClockSource, Source
from ingest.profile import DeviceProfile, load_profiles
from ingest.session import SWITCH_S, MqttSettings, Session
from ingest.spool import Spool, SpoolError
from simulators.clock import AcceleratedClock
from store import open_store
from store.ports import Store
from store.records import JournalEntry, OutboxItem

T = TypeVar("T")
_log = structlog.get_logger("quarterline.serve")


def load_rules(settings: Settings) -> Rules:
    """Ordinances, device profiles and policy as configured.

    Raises
    ------
    alerts.ordinance.OrdinanceError, ingest.profile.ProfileError
        A file is wrong; the text names file and key.
    """
    policy = Policy(
        p_raise=settings.policy.p_raise,
        p_clear=settings.policy.p_clear,
        lead_days=settings.policy.lead_days,
        offer_timeout_s=settings.policy.offer_timeout_s,
        urgent_offer_timeout_s=settings.policy.urgent_offer_timeout_s,
        silent_min_s=settings.policy.silent_min_s,
        verify_min_s=settings.policy.verify_min_s,
    )
    return Rules(
        ordinances=load_ordinances(settings.ordinances.paths),
        profiles=load_profiles(settings.profiles.paths),
        policy=policy,
        decide_every_us=settings.decide.interval_s * 1_000_000,
    )


def service_clock(settings: Settings) -> Callable[[], float]:
    """The wall clock, or a demo's accelerated one."""
    clock = settings.clock
    if clock.speed == 1.0 and clock.start_s is None:
        return time.time
    start_s = clock.start_s if clock.start_s is not None else time.time()
    return AcceleratedClock(start_s, clock.real_start_s or time.time(), clock.speed)


def mqtt_source(settings: Settings, clock: Callable[[], float]) -> Source:
    """The MQTT session, or the bare clock where no broker is wanted."""
    mqtt = settings.mqtt
    if not mqtt.enabled:
        return ClockSource(clock)
    return Session(
        MqttSettings(
            host=mqtt.host,
            port=mqtt.port,
            client_id=mqtt.client_id,
            username=mqtt.username,
            password=mqtt.secret(),
            tls=mqtt.tls,
            ca_file=mqtt.ca_file,
            version=mqtt.version,
            keepalive_s=mqtt.keepalive_s,
            window=mqtt.window,
            subscriptions=mqtt.subscriptions,
        ),
        clock,
    )


def spool_opener(settings: Settings) -> Callable[[int], Spool] | None:
    """Opens the disk spool for the number of the last message committed; None where none is wanted."""
    spool = settings.spool
    if not (settings.mqtt.enabled and spool.enabled):
        return None
    folder = spool.dir or settings.data_dir / "spool"

    def opened(taken: int) -> Spool:
        try:
            return Spool(folder, spool.max_bytes, taken=taken)
        except SpoolError as error:
            raise ConfigurationError([f"spool.dir: {error}"]) from None

    return opened


class LiveService:
    """What the HTTP room sees of the running service."""

    def __init__(self, settings: Settings, store: Store, rules: Rules, engine: Engine) -> None:
        self.settings = settings
        self.store = store
        self.ordinances: Mapping[str, Ordinance] = rules.ordinances
        self.profiles: Mapping[str, DeviceProfile] = rules.profiles
        self._engine = engine

    @property
    def recent(self) -> Recent:
        """The last messages of each topic."""
        return self._engine.recent

    def now(self) -> float:
        """The service's clock [s]."""
        return self._engine.now()

    def submit(self, command: Callable[[Commands], T]) -> T:
        """Run a command in the writer's thread."""
        return self._engine.submit(command)

    def readiness(self) -> dict[str, tuple[bool, str]]:
        """Each part, whether it is well, and why not."""
        return self._engine.readiness()

    def pending(self) -> int:
        """Items received and not yet committed."""
        return self._engine.pending()

    def flow(self) -> Flow:
        """How far what was received has come."""
        return self._engine.flow()

    def subscribe(self) -> Bell:
        """The bell that rings after each commit with journal lines."""
        return self._engine.bell


@contextmanager
def running(settings: Settings) -> Iterator[LiveService]:
    """A running service without its HTTP face: store, writer, session and dispatcher."""
    rules = load_rules(settings)
    clock = service_clock(settings)
    sys.setswitchinterval(SWITCH_S)
    store = open_store(settings.data_dir)
    try:
        check_bind(settings, store.ledger.keys())

        def make_core(written: Callable[[list[JournalEntry]], None]) -> Core:
            return Core(store, rules, start_us=int(clock() * 1e6), written=written)

        engine = Engine(
            make_core,
            mqtt_source(settings, clock),
            clock,
            record=settings.record,
            spool=spool_opener(settings),
            patience_s=settings.spool.patience_s,
        )
        dispatcher = _dispatcher(settings, store, engine)
        engine.start()
        dispatcher.start()
        try:
            yield LiveService(settings, store, rules, engine)
        finally:
            dispatcher.stop()
            engine.stop()
    finally:
        store.close()


def _dispatcher(settings: Settings, store: Store, engine: Engine) -> Dispatcher:
    def put(item: OutboxItem) -> None:
        engine.submit(lambda commands: commands.store.ledger.put_outbox(item))

    return Dispatcher(
        due=store.ledger.due,
        put=put,
        channels={
            "webhook": WebhookChannel(
                lambda: {h.id: h for h in store.registry.haulers()},
                allow_private=settings.webhooks.allow_private,
            ),
            "log": LogChannel(),
        },
        clock=time.time,
    )


def listen(settings: Settings) -> socket.socket:
    """The HTTP port, bound before anything else starts.

    Raises
    ------
    ConfigurationError
        The port is taken or not ours to use; the text says how to choose another.
    """
    family = socket.AF_INET6 if ":" in settings.http.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.http.host, settings.http.port))
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            [
                f"http.port: cannot listen on {settings.http.host}:{settings.http.port} ({error.strerror}); "
                "choose another with QUARTERLINE_HTTP__PORT or [http] port in the configuration"
            ]
        ) from None
    return listener


def serve(settings: Settings, *, ready: Callable[[LiveService], None] = lambda _: None) -> None:
    """Run the service until SIGINT or SIGTERM; everything handed over is committed before it returns."""
    listener = listen(settings)
    with held(settings.data_dir), running(settings) as service:
        config = uvicorn.Config(
            create_app(service),
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=5,
        )
        server = uvicorn.Server(config)
        ready(service)
        with _stops(server, service.subscribe()):
            server.run(sockets=[listener])


@contextmanager
def _stops(server: uvicorn.Server, bell: Bell) -> Iterator[None]:
    """uvicorn raises the signal again after it stopped; here that is the wanted end, so it is swallowed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}

    def stop(_number: int, _frame: object) -> None:
        server.should_exit = True
        bell.close()  # event streams end now, not when the grace is over

    for one in before:
        signal.signal(one, stop)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def store_path(settings: Settings) -> Path:
    """Where the store's file lies."""
    return settings.data_dir / "quarterline.sqlite3"
