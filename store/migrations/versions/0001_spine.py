"""The spine: history, registry, ledger."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make every table."""
    op.create_table(
        "alerts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("interceptor", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("citation", sa.Text(), nullable=True),
        sa.Column("basis", sa.Text(), nullable=False),
        sa.Column("sensor", sa.Text(), nullable=True),
        sa.Column("flag", sa.Text(), nullable=True),
        sa.Column("since_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("changed_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alerts")),
    )
    op.create_index("ix_alerts_interceptor_changed_us", "alerts", ["interceptor", "changed_us"], unique=False)
    op.create_index("ix_alerts_state", "alerts", ["state"], unique=False)
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("created_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("revoked_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
    )
    op.create_table(
        "connectivity",
        sa.Column("sensor", sa.Text(), nullable=False),
        sa.Column("online", sa.Boolean(), nullable=False),
        sa.Column("received_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("sensor", name=op.f("pk_connectivity")),
    )
    op.create_table(
        "contacts",
        sa.Column("sensor", sa.Text(), nullable=False),
        sa.Column("received_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("sensor", name=op.f("pk_contacts")),
    )
    op.create_table(
        "core_samples",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("interceptor", sa.Text(), nullable=False),
        sa.Column("compartment", sa.Integer(), nullable=False),
        sa.Column("sampled_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("received_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("fog_m", sa.Float(), nullable=False),
        sa.Column("solids_m", sa.Float(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_core_samples")),
    )
    op.create_index("ix_core_samples_interceptor", "core_samples", ["interceptor"], unique=False)
    op.create_table(
        "frequency_decisions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("interceptor", sa.Text(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("frequency", sa.Text(), nullable=True),
        sa.Column("effective", sa.Text(), nullable=True),
        sa.Column("decided_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("proposal", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_frequency_decisions")),
    )
    op.create_index(
        "ix_frequency_decisions_interceptor", "frequency_decisions", ["interceptor"], unique=False
    )
    op.create_table(
        "frequency_proposals",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("interceptor", sa.Text(), nullable=False),
        sa.Column("current", sa.Text(), nullable=False),
        sa.Column("proposed", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("citation", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("effective", sa.Text(), nullable=True),
        sa.Column("at_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_frequency_proposals")),
    )
    op.create_index(
        "ix_frequency_proposals_interceptor", "frequency_proposals", ["interceptor"], unique=False
    )
    op.create_table(
        "haulers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("licenses", sa.Text(), nullable=False),
        sa.Column("webhook", sa.Text(), nullable=True),
        sa.Column("email", sa.Text(), nullable=True),
        sa.Column("secret", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_haulers")),
    )
    op.create_table(
        "hot_discharges",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("interceptor", sa.Text(), nullable=False),
        sa.Column("sensor", sa.Text(), nullable=False),
        sa.Column("start_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("end_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("peak_c", sa.Float(), nullable=False),
        sa.Column("duration_s", sa.Float(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hot_discharges")),
    )
    op.create_index("ix_hot_discharges_interceptor", "hot_discharges", ["interceptor"], unique=False)
    op.create_table(
        "idempotency",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("at_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_idempotency")),
    )
    op.create_table(
        "item_keys",
        sa.Column("sensor_key", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("received_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("sensor_key", "key", name=op.f("pk_item_keys")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "journal",
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("interceptor", sa.Text(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_journal")),
    )
    op.create_index("ix_journal_interceptor_seq", "journal", ["interceptor", "seq"], unique=False)
    op.create_index("ix_journal_type_seq", "journal", ["type", "seq"], unique=False)
    op.create_table(
        "latest",
        sa.Column("interceptor", sa.Text(), nullable=False),
        sa.Column("at_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("interceptor", name=op.f("pk_latest")),
    )
    op.create_table(
        "manifests",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("interceptor", sa.Text(), nullable=False),
        sa.Column("pumped_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("received_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("complete", sa.Boolean(), nullable=False),
        sa.Column("number", sa.Text(), nullable=True),
        sa.Column("hauler", sa.Text(), nullable=True),
        sa.Column("volume_m3", sa.Float(), nullable=True),
        sa.Column("fog_m", sa.Float(), nullable=True),
        sa.Column("solids_m", sa.Float(), nullable=True),
        sa.Column("fields", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_manifests")),
    )
    op.create_index("ix_manifests_interceptor", "manifests", ["interceptor"], unique=False)
    op.create_table(
        "meta",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_meta")),
    )
    op.create_table(
        "orders",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("interceptor", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("due", sa.Text(), nullable=False),
        sa.Column("opened_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("changed_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("hauler", sa.Text(), nullable=True),
        sa.Column("papers", sa.Text(), nullable=False),
        sa.Column("offered_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("offer_expires_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("scheduled_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("declined", sa.Text(), nullable=False),
        sa.Column("pump_out", sa.Text(), nullable=True),
        sa.Column("manifest", sa.Text(), nullable=True),
        sa.Column("citation", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_orders")),
    )
    op.create_index("ix_orders_opened_us", "orders", ["opened_us"], unique=False)
    op.create_index(
        "uq_orders_open",
        "orders",
        ["interceptor"],
        unique=True,
        sqlite_where=sa.text("(state NOT IN ('closed', 'declined', 'cancelled'))"),
        postgresql_where=sa.text("(state NOT IN ('closed', 'declined', 'cancelled'))"),
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("due_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
    )
    op.create_index(
        "ix_outbox_due",
        "outbox",
        ["due_us"],
        unique=False,
        sqlite_where=sa.text("state = 'waiting'"),
        postgresql_where=sa.text("state = 'waiting'"),
    )
    op.create_table(
        "pump_outs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("interceptor", sa.Text(), nullable=False),
        sa.Column("start_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("end_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("complete", sa.Boolean(), nullable=False),
        sa.Column("confidence", sa.Float(), nullable=False),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("after", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pump_outs")),
    )
    op.create_index("ix_pump_outs_interceptor", "pump_outs", ["interceptor"], unique=False)
    op.create_table(
        "quarantine",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("sensor", sa.Text(), nullable=True),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("received_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("device_profile", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quarantine")),
    )
    op.create_index("ix_quarantine_sensor_id", "quarantine", ["sensor", "id"], unique=False)
    op.create_table(
        "readings",
        sa.Column("sensor_key", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column(
            "time_us",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("received_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("flags", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("surface_m", sa.Float(), nullable=True),
        sa.Column("distance_m", sa.Float(), nullable=True),
        sa.Column("fog_bottom_m", sa.Float(), nullable=True),
        sa.Column("solids_top_m", sa.Float(), nullable=True),
        sa.Column("fog_depth_m", sa.Float(), nullable=True),
        sa.Column("solids_depth_m", sa.Float(), nullable=True),
        sa.Column("pressure_pa", sa.Float(), nullable=True),
        sa.Column("echo_fog_s", sa.Float(), nullable=True),
        sa.Column("echo_solids_s", sa.Float(), nullable=True),
        sa.Column("inlet_c", sa.Float(), nullable=True),
        sa.Column("inlet_max_c", sa.Float(), nullable=True),
        sa.Column("inlet_over_s", sa.Float(), nullable=True),
        sa.Column("tank_c", sa.Float(), nullable=True),
        sa.Column("air_c", sa.Float(), nullable=True),
        sa.Column("battery_v", sa.Float(), nullable=True),
        sa.Column("battery_pct", sa.Float(), nullable=True),
        sa.Column("rssi_dbm", sa.Float(), nullable=True),
        sa.Column("profile", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("sensor_key", "time_us", name=op.f("pk_readings")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_readings_received_us", "readings", ["received_us"], unique=False)
    op.create_table(
        "sensor_keys",
        sa.Column("key", sa.Integer(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_sensor_keys")),
        sa.UniqueConstraint("id", name=op.f("uq_sensor_keys_id")),
    )
    op.create_table(
        "sign_ins",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("expires_us", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("once", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_sign_ins")),
    )
    op.create_table(
        "sites",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("ordinance", sa.Text(), nullable=False),
        sa.Column("timezone", sa.Text(), nullable=False),
        sa.Column("kitchen", sa.Text(), nullable=False),
        sa.Column("latitude", sa.Float(), nullable=True),
        sa.Column("longitude", sa.Float(), nullable=True),
        sa.Column("units", sa.Text(), nullable=False),
        sa.Column("seats", sa.Integer(), nullable=True),
        sa.Column("equipment", sa.Text(), nullable=False),
        sa.Column("contacts", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sites")),
    )
    op.create_table(
        "totals",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("count", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_totals")),
    )
    op.create_table(
        "unknown_fields",
        sa.Column("sensor", sa.Text(), nullable=False),
        sa.Column("field", sa.Text(), nullable=False),
        sa.Column("count", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("sensor", "field", name=op.f("pk_unknown_fields")),
    )
    op.create_table(
        "interceptors",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("site", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("base_depth_m", sa.Float(), nullable=False),
        sa.Column("static_level_m", sa.Float(), nullable=False),
        sa.Column("volume_m3", sa.Float(), nullable=True),
        sa.Column("compartments", sa.Integer(), nullable=False),
        sa.Column("frequency", sa.Text(), nullable=True),
        sa.Column("last_pump_out", sa.Text(), nullable=True),
        sa.Column("hauler", sa.Text(), nullable=True),
        sa.Column("dispatch", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["hauler"], ["haulers.id"], name=op.f("fk_interceptors_hauler_haulers")),
        sa.ForeignKeyConstraint(["site"], ["sites.id"], name=op.f("fk_interceptors_site_sites")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_interceptors")),
    )
    op.create_table(
        "sensors",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("interceptor", sa.Text(), nullable=False),
        sa.Column("compartment", sa.Integer(), nullable=False),
        sa.Column("profile", sa.Text(), nullable=False),
        sa.Column("interval_s", sa.Float(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["interceptor"], ["interceptors.id"], name=op.f("fk_sensors_interceptor_interceptors")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sensors")),
    )
