"""The tables, as SQLAlchemy Core knows them. Times are microseconds since the epoch; values are SI."""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)
from sqlalchemy.types import BigInteger

from analysis.units import COLUMNS

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Micros = BigInteger().with_variant(Integer(), "sqlite")
#: Order states after which an interceptor may have another order.
OVER = ("closed", "declined", "cancelled")

# ---- history -----------------------------------------------------------------------------------------

#: Sensors by a small number: the key of every reading. It outlives the registry's sensor.
sensor_keys = Table(
    "sensor_keys",
    metadata,
    Column("key", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
)

readings = Table(
    "readings",
    metadata,
    Column("sensor_key", Integer, nullable=False, primary_key=True, autoincrement=False),
    Column("time_us", Micros, nullable=False, primary_key=True, autoincrement=False),
    Column("received_us", Micros, nullable=False),
    Column("flags", Integer, nullable=False),
    Column("seq", Micros),
    *(Column(name, Float) for name in COLUMNS),
    Column("profile", LargeBinary),
    sqlite_with_rowid=False,
)
Index("ix_readings_received_us", readings.c.received_us)

#: Items that had no good time of their own, by what they are known by.
item_keys = Table(
    "item_keys",
    metadata,
    Column("sensor_key", Integer, primary_key=True, autoincrement=False),
    Column("key", LargeBinary, primary_key=True),
    Column("received_us", Micros, nullable=False),
    sqlite_with_rowid=False,
)

quarantine = Table(
    "quarantine",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("sensor", Text),
    Column("topic", Text, nullable=False),
    Column("received_us", Micros, nullable=False),
    Column("reason", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("size", Integer, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("device_profile", Text),
    Column("outcome", Text),
    Column("tried_us", Micros),
)
Index("ix_quarantine_sensor_id", quarantine.c.sensor, quarantine.c.id)

totals = Table(
    "totals",
    metadata,
    Column("name", Text, primary_key=True),
    Column("count", Micros, nullable=False),
)
unknown_fields = Table(
    "unknown_fields",
    metadata,
    Column("sensor", Text, primary_key=True),
    Column("field", Text, primary_key=True),
    Column("count", Micros, nullable=False),
)
connectivity = Table(
    "connectivity",
    metadata,
    Column("sensor", Text, primary_key=True),
    Column("online", Boolean, nullable=False),
    Column("received_us", Micros, nullable=False),
)
contacts = Table(
    "contacts",
    metadata,
    Column("sensor", Text, primary_key=True),
    Column("received_us", Micros, nullable=False),
)

#: How fast a sensor sends: when its token bucket would be full again, where that is not soon.
paces = Table(
    "paces",
    metadata,
    Column("sensor", Text, primary_key=True),
    Column("full_us", Micros, nullable=False),
)
gaps = Table(
    "gaps",
    metadata,
    Column("id", Text, primary_key=True),
    Column("sensor", Text, nullable=False),
    Column("interceptor", Text),
    Column("kind", Text, nullable=False),
    Column("start_us", Micros, nullable=False),
    Column("end_us", Micros, nullable=False),
    Column("missing", Micros, nullable=False),
    Column("first_seq", Micros),
    Column("last_seq", Micros),
    Column("noticed_us", Micros, nullable=False),
)
Index("ix_gaps_sensor_start_us", gaps.c.sensor, gaps.c.start_us)
Index("ix_gaps_noticed_us", gaps.c.noticed_us)

# ---- registry ----------------------------------------------------------------------------------------

sites = Table(
    "sites",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("ordinance", Text, nullable=False),
    Column("timezone", Text, nullable=False),
    Column("kitchen", Text, nullable=False),
    Column("latitude", Float),
    Column("longitude", Float),
    Column("units", Text, nullable=False),
    Column("seats", Integer),
    Column("equipment", Text, nullable=False),
    Column("contacts", Text, nullable=False),
)
haulers = Table(
    "haulers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("licenses", Text, nullable=False),
    Column("webhook", Text),
    Column("email", Text),
    Column("secret", Text),
)
interceptors = Table(
    "interceptors",
    metadata,
    Column("id", Text, primary_key=True),
    Column("site", Text, ForeignKey("sites.id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("base_depth_m", Float, nullable=False),
    Column("static_level_m", Float, nullable=False),
    Column("volume_m3", Float),
    Column("compartments", Integer, nullable=False),
    Column("frequency", Text),
    Column("last_pump_out", Text),
    Column("hauler", Text, ForeignKey("haulers.id")),
    Column("dispatch", Text, nullable=False),
    Column("place", Text),
)
sensors = Table(
    "sensors",
    metadata,
    Column("id", Text, primary_key=True),
    Column("interceptor", Text, ForeignKey("interceptors.id"), nullable=False),
    Column("compartment", Integer, nullable=False),
    Column("profile", Text, nullable=False),
    Column("interval_s", Float, nullable=False),
    Column("device", Text, nullable=False),
)

# ---- ledger ------------------------------------------------------------------------------------------

meta = Table(
    "meta",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
journal = Table(
    "journal",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("at_us", Micros, nullable=False),
    Column("type", Text, nullable=False),
    Column("interceptor", Text),
    Column("body", Text, nullable=False),
)
Index("ix_journal_interceptor_seq", journal.c.interceptor, journal.c.seq)
Index("ix_journal_type_seq", journal.c.type, journal.c.seq)

alerts = Table(
    "alerts",
    metadata,
    Column("id", Text, primary_key=True),
    Column("interceptor", Text),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("citation", Text),
    Column("basis", Text, nullable=False),
    Column("sensor", Text),
    Column("flag", Text),
    Column("since_us", Micros, nullable=False),
    Column("changed_us", Micros, nullable=False),
    Column("evidence", Text, nullable=False),
)
Index("ix_alerts_interceptor_changed_us", alerts.c.interceptor, alerts.c.changed_us)
Index("ix_alerts_state", alerts.c.state)

orders = Table(
    "orders",
    metadata,
    Column("id", Text, primary_key=True),
    Column("interceptor", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("due", Text, nullable=False),
    Column("opened_us", Micros, nullable=False),
    Column("changed_us", Micros, nullable=False),
    Column("hauler", Text),
    Column("papers", Text, nullable=False),
    Column("offered_us", Micros),
    Column("offer_expires_us", Micros),
    Column("scheduled_us", Micros),
    Column("declined", Text, nullable=False),
    Column("pump_out", Text),
    Column("manifest", Text),
    Column("citation", Text),
    Column("note", Text, nullable=False),
)
_still_open = orders.c.state.not_in(OVER)
Index(
    "uq_orders_open",
    orders.c.interceptor,
    unique=True,
    sqlite_where=_still_open,
    postgresql_where=_still_open,
)
Index("ix_orders_opened_us", orders.c.opened_us)

pump_outs = Table(
    "pump_outs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("interceptor", Text, nullable=False),
    Column("start_us", Micros, nullable=False),
    Column("end_us", Micros, nullable=False),
    Column("complete", Boolean, nullable=False),
    Column("confidence", Float, nullable=False),
    Column("before", Text, nullable=False),
    Column("after", Text, nullable=False),
)
hot_discharges = Table(
    "hot_discharges",
    metadata,
    Column("id", Text, primary_key=True),
    Column("interceptor", Text, nullable=False),
    Column("sensor", Text, nullable=False),
    Column("start_us", Micros, nullable=False),
    Column("end_us", Micros),
    Column("peak_c", Float, nullable=False),
    Column("duration_s", Float, nullable=False),
    Column("status", Text, nullable=False),
)
manifests = Table(
    "manifests",
    metadata,
    Column("id", Text, primary_key=True),
    Column("interceptor", Text, nullable=False),
    Column("pumped_us", Micros, nullable=False),
    Column("received_us", Micros, nullable=False),
    Column("complete", Boolean, nullable=False),
    Column("number", Text),
    Column("hauler", Text),
    Column("volume_m3", Float),
    Column("fog_m", Float),
    Column("solids_m", Float),
    Column("fields", Text, nullable=False),
)
core_samples = Table(
    "core_samples",
    metadata,
    Column("id", Text, primary_key=True),
    Column("interceptor", Text, nullable=False),
    Column("compartment", Integer, nullable=False),
    Column("sampled_us", Micros, nullable=False),
    Column("received_us", Micros, nullable=False),
    Column("fog_m", Float, nullable=False),
    Column("solids_m", Float, nullable=False),
    Column("by", Text, nullable=False),
)
frequency_decisions = Table(
    "frequency_decisions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("interceptor", Text, nullable=False),
    Column("decision", Text, nullable=False),
    Column("frequency", Text),
    Column("effective", Text),
    Column("decided_us", Micros, nullable=False),
    Column("by", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("proposal", Text),
)
frequency_proposals = Table(
    "frequency_proposals",
    metadata,
    Column("id", Text, primary_key=True),
    Column("interceptor", Text, nullable=False),
    Column("current", Text, nullable=False),
    Column("proposed", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("citation", Text, nullable=False),
    Column("evidence", Text, nullable=False),
    Column("effective", Text),
    Column("at_us", Micros, nullable=False),
    Column("state", Text, nullable=False),
)
for _table in (pump_outs, hot_discharges, manifests, core_samples, frequency_decisions, frequency_proposals):
    Index(f"ix_{_table.name}_interceptor", _table.c.interceptor)

latest = Table(
    "latest",
    metadata,
    Column("interceptor", Text, primary_key=True),
    Column("at_us", Micros, nullable=False),
    Column("body", Text, nullable=False),
)
outbox = Table(
    "outbox",
    metadata,
    Column("id", Text, primary_key=True),
    Column("channel", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("created_us", Micros, nullable=False),
    Column("due_us", Micros, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("error", Text, nullable=False),
)
Index(
    "ix_outbox_due",
    outbox.c.due_us,
    sqlite_where=text("state = 'waiting'"),
    postgresql_where=text("state = 'waiting'"),
)
api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("subject", Text),
    Column("created_us", Micros, nullable=False),
    Column("revoked_us", Micros),
)
sign_ins = Table(
    "sign_ins",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("expires_us", Micros, nullable=False),
    Column("once", Boolean, nullable=False),
)
idempotency = Table(
    "idempotency",
    metadata,
    Column("key", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("body", Text, nullable=False),
    Column("at_us", Micros, nullable=False),
)
