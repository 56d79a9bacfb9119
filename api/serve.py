"""The composition root of a running service: settings in, threads and sockets out."""

from __future__ import annotations

import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import structlog
import uvicorn

from alerts.channels import LogChannel, WebhookChannel
from alerts.dispatch import Dispatcher
from alerts.ordinance import Ordinance, load_ordinances
from alerts.policy import Policy
from api.bell import Bell
from api.brokersession import Cadence, SessionKeeper, remembered
from api.caretaker import Caretaker, keep_of
from api.commands import Commands
from api.core import Core, Rules
from api.damaged import set_aside_if_damaged
from api.datadir import held
from api.engine import Engine
from api.http.app import create_app
from api.intake import Flow
from api.recent import Recent
from api.settings import ConfigurationError, Settings, check_bind
from api.source import ClockSource
from api.spooling import spool_held, spool_opener
from ingest.pace import Limits
from ingest.profile import DeviceProfile, load_profiles
from ingest.session import SWITCH_S, MqttSettings, Session, SessionStatus
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
        limits=Limits(**settings.limits.model_dump()),
        quarantine_keep=settings.quarantine.keep,
        quarantine_keep_of_one=settings.quarantine.keep_of_one_sensor,
    )


def service_clock(settings: Settings) -> Callable[[], float]:
    """The wall clock, or a demo's accelerated one."""
    clock = settings.clock
    if clock.speed == 1.0 and clock.start_s is None:
        return time.time
    start_s = clock.start_s if clock.start_s is not None else time.time()
    return AcceleratedClock(start_s, clock.real_start_s or time.time(), clock.speed)


def mqtt_source(settings: Settings, clock: Callable[[], float], store: Store) -> Session | ClockSource:
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
            password=mqtt.password.get_secret_value() if mqtt.password is not None else None,
            password_file=mqtt.password_file,
            tls=mqtt.tls,
            ca_file=mqtt.ca_file,
            cert_file=mqtt.cert_file,
            key_file=mqtt.key_file,
            session_expiry_s=mqtt.session_expiry_s,
            stall_s=mqtt.stall_s,
            version=mqtt.version,
            keepalive_s=mqtt.keepalive_s,
            window=mqtt.window,
            subscriptions=mqtt.subscriptions,
        ),
        clock,
        remembered=remembered(store, mqtt.host, mqtt.port, mqtt.client_id),
        silent_after_s=Cadence(store),
    )


class LiveService:
    """What the HTTP room sees of the running service."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        rules: Rules,
        engine: Engine,
        keeper: SessionKeeper | None = None,
    ) -> None:
        self.settings = settings
        self.store = store
        self.ordinances: Mapping[str, Ordinance] = rules.ordinances
        self.profiles: Mapping[str, DeviceProfile] = rules.profiles
        self._engine = engine
        self._keeper = keeper

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

    def session(self) -> SessionStatus | None:
        """How the MQTT session is; None where no broker is wanted."""
        return None if self._keeper is None else self._keeper.session.status()

    def reconnect(self) -> None:
        """Connect to the broker anew at once, with password and TLS files as they now are."""
        if self._keeper is not None:
            self._keeper.session.reconnect()

    def fallen(self) -> str:
        """Which thread that the service cannot do without has ended, in words; empty where none has."""
        return "" if self._keeper is None else self._keeper.fallen

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

        source = mqtt_source(settings, clock, store)
        with ExitStack() as undo:
            undo.callback(source.stop)
            engine = Engine(
                make_core,
                source,
                clock,
                record=settings.record,
                spool=spool_opener(settings, store),
                patience_s=settings.spool.patience_s,
            )
            undo.pop_all()
        dispatcher = _dispatcher(settings, store, engine)
        keeper = (
            None if isinstance(source, ClockSource) else SessionKeeper(source, engine, store, settings.mqtt)
        )
        caretaker = Caretaker(engine.core, engine.submit, keep_of(settings.retention))
        engine.start()
        dispatcher.start()
        caretaker.start()
        if keeper is not None:
            keeper.start()
        try:
            yield LiveService(settings, store, rules, engine, keeper)
        finally:
            if keeper is not None:
                keeper.stop()
            caretaker.stop()
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


@contextmanager
def _sound_store(settings: Settings) -> Iterator[None]:
    set_aside_if_damaged(settings.data_dir, int(service_clock(settings)() * 1e6))
    yield


def serve(settings: Settings, *, ready: Callable[[LiveService], None] = lambda _: None) -> None:
    """Run the service until SIGINT or SIGTERM; everything handed over is committed before it returns."""
    listener = listen(settings)
    with held(settings.data_dir), spool_held(settings), _sound_store(settings), running(settings) as service:
        config = uvicorn.Config(
            create_app(service),
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=5,
        )
        server = uvicorn.Server(config)
        ready(service)
        with _stops(server, service):
            server.run(sockets=[listener])
        if service.fallen():
            raise SystemExit(1)  # whoever started it starts it again


@contextmanager
def _stops(server: uvicorn.Server, service: LiveService) -> Iterator[None]:
    """uvicorn raises the signal again after it stopped; here that is the wanted end, so it is swallowed.

    SIGHUP connects to the broker anew.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    bell = service.subscribe()

    def stop(_number: int, _frame: object) -> None:
        server.should_exit = True
        bell.close()  # event streams end now, not when the grace is over

    for one in before:
        signal.signal(one, stop)
    signal.signal(signal.SIGHUP, lambda _number, _frame: service.reconnect())
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def store_path(settings: Settings) -> Path:
    """Where the store's file lies."""
    return settings.data_dir / "quarterline.sqlite3"
