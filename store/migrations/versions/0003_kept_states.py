"""What the estimate remembers of readings that retention thinned."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_MICROS = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add a table; what is there stays."""
    op.create_table(
        "kept_states",
        sa.Column("interceptor", sa.Text(), nullable=False),
        sa.Column("time_us", _MICROS, nullable=False),
        sa.Column("newest_us", _MICROS, nullable=True),
        sa.Column("daily_us", _MICROS, nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("interceptor", name=op.f("pk_kept_states")),
    )
