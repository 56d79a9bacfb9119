"""Missing readings; the sensors' pace; what became of a quarantined item that was tried again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_MICROS = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add tables and columns; what is there stays."""
    op.create_table(
        "gaps",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("sensor", sa.Text(), nullable=False),
        sa.Column("interceptor", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("start_us", _MICROS, nullable=False),
        sa.Column("end_us", _MICROS, nullable=False),
        sa.Column("missing", _MICROS, nullable=False),
        sa.Column("first_seq", _MICROS, nullable=True),
        sa.Column("last_seq", _MICROS, nullable=True),
        sa.Column("noticed_us", _MICROS, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gaps")),
    )
    op.create_index("ix_gaps_sensor_start_us", "gaps", ["sensor", "start_us"], unique=False)
    op.create_index("ix_gaps_noticed_us", "gaps", ["noticed_us"], unique=False)
    op.create_table(
        "paces",
        sa.Column("sensor", sa.Text(), nullable=False),
        sa.Column("full_us", _MICROS, nullable=False),
        sa.PrimaryKeyConstraint("sensor", name=op.f("pk_paces")),
    )
    op.add_column("quarantine", sa.Column("outcome", sa.Text(), nullable=True))
    op.add_column("quarantine", sa.Column("tried_us", _MICROS, nullable=True))
