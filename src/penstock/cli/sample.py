"""Writes example orders for a new project: JSON Lines files in its first topic. `python -m penstock.cli.sample
DIRECTORY`."""

import argparse
import json
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from penstock.connectors.topic_fields import TOPICS

TOPIC: Final = TOPICS / "orders.raw.v1"
START: Final = datetime(2026, 1, 1, 9, tzinfo=UTC)


def orders(minute: int, count: int) -> Iterator[dict[str, Any]]:
    """The orders of one minute, equal at every call. A few arrive out of order, and some are cancelled."""
    chance = random.Random(minute)
    for number in range(count):
        at = START + timedelta(minutes=minute, seconds=60 * number / count - chance.choice([0, 0, 0, 2]))
        yield {
            "order_id": minute * count + number,
            "customer_id": chance.randint(1, 5000),
            "country": chance.choice(["de", "fr", "it", "us"]),
            "status": chance.choice(["paid", "paid", "paid", "cancelled"]),
            "amount": round(chance.uniform(1, 500), 2),
            "ordered_at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }


def write_minute(project: Path, minute: int, count: int) -> None:
    """Write one file atomically, so that a reader never sees a part of it."""
    folder = project / TOPIC
    folder.mkdir(parents=True, exist_ok=True)
    staged = folder / f"_minute-{minute:04d}"
    staged.write_text("".join(json.dumps(order) + "\n" for order in orders(minute, count)), encoding="utf-8")
    staged.replace(folder / f"minute-{minute:04d}.jsonl")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("project", type=Path)
    parser.add_argument("--minutes", type=int, default=10, help="how many files, each with a minute of orders")
    parser.add_argument("--orders", type=int, default=1000, help="orders in a minute")
    parser.add_argument("--every", type=float, default=0.0, help="seconds to wait after each file")
    arguments = parser.parse_args()
    for minute in range(arguments.minutes):
        write_minute(arguments.project, minute, arguments.orders)
        time.sleep(arguments.every)


if __name__ == "__main__":
    main()
