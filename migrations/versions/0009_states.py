"""What becomes of sources: kinds that wait for a permission, access that changed, calls that are counted."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Run the SQL file beside this one as it is: no parameters, so `%` and `:` mean nothing."""
    sql = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(sql, execution_options={"no_parameters": True})
