"""ClickHouse: its real engine, from the Python package chdb, behind its HTTP interface."""

import sys
from pathlib import Path
from typing import Final

from penstock.clients.extras import require
from penstock.dev.processes import RunningService, own_port, responds, start

USER: Final = "default"
DATABASE: Final = "default"


def up(home: Path, port: int | None = None) -> RunningService:
    """Start the engine on the data below `home`, which only one process can use at a time."""
    require("chdb", extra="dev-clickhouse")
    port = own_port(home, port)
    command: list[str | Path] = [sys.executable, "-m", "penstock.dev.clickhouse_server", str(port), home / "data"]
    url = f"http://127.0.0.1:{port}"
    about = {"url": url, "user": USER, "password": "", "database": DATABASE}
    return start("ClickHouse", home, command, about, lambda: responds(f"{url}/ping"))
