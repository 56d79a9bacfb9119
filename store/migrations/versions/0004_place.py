"""Where a device stands: some ordinances ask."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a column; what is there stays, its place unknown."""
    op.add_column("interceptors", sa.Column("place", sa.Text(), nullable=True))
