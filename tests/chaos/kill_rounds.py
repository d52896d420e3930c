"""Kill the quickstart again and again while orders arrive, then drain it and count.

    python tests/chaos/kill_rounds.py [--rounds 10] [--seed 1]

Every round starts `penstock run`, drops files into its topic, and kills it with SIGKILL at a random moment after the
first batch was planned. At the end `run --once` drains what is left, and the ids in both stateless topics are compared
with the input files. Exits 1 when an id is missing or comes twice.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from pyarrow.parquet import read_table

from penstock.cli.sample import TOPIC, write_minute

PENSTOCK = str(Path(sys.executable).parent / "penstock")


def written(project: Path, topic: str) -> Counter[int]:
    files = (project / ".penstock" / "topics" / topic).glob("*-*/part-*.parquet")
    return Counter(i for file in files for i in read_table(file, columns=["order_id"])["order_id"].to_pylist())


def expected(project: Path, smallest: float) -> set[int]:
    lines = [line for file in (project / TOPIC).glob("*.jsonl") for line in file.read_text().splitlines()]
    orders = [json.loads(line) for line in lines]
    return {o["order_id"] for o in orders if o["status"] == "paid" and o["amount"] >= smallest}


def planned(project: Path) -> int:
    """How many batches were planned or committed so far, over all queries."""
    checkpoints = project / ".penstock" / "project.shop" / "default" / "checkpoints"
    return sum(1 for log in ("offsets", "commits") for path in checkpoints.glob(f"*/{log}/*") if path.name.isdigit())


def one_round(project: Path, minutes: list[int], chance: random.Random) -> str:
    before = planned(project)
    runner = subprocess.Popen([PENSTOCK, "run"], cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 90
    while planned(project) == before and runner.poll() is None and time.monotonic() < deadline:
        write_minute(project, minutes.pop(0), 400)
        time.sleep(1)
    for _ in range(chance.randint(0, 4)):
        write_minute(project, minutes.pop(0), 400)
        time.sleep(chance.uniform(0, 0.7))
    ended = runner.poll()
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    return f"{planned(project) - before} log entries" + (f", had ended with {ended}" if ended is not None else "")


def verdict(project: Path) -> bool:
    sound = True
    for topic, smallest in (("orders.clean.v1", 0.01), ("large_orders", 450)):
        found, wanted = written(project, topic), expected(project, smallest)
        twice = [i for i, times in found.items() if times > 1]
        missing, extra = wanted - found.keys(), found.keys() - wanted
        print(f"{topic}: {len(wanted):,} expected, {len(missing)} missing, {len(twice)} twice, {len(extra)} too many")
        sound = sound and not (missing or twice or extra)
    return sound


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1000))
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    print(f"seed {arguments.seed}")
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "shop"
        subprocess.run([PENSTOCK, "init", str(project)], check=True, stdout=subprocess.DEVNULL)
        for minute in range(10):  # the sample's orders have the numbers of other minutes
            (project / TOPIC / f"minute-{minute:04d}.jsonl").unlink()
        minutes = list(range(1000))
        for number in range(1, arguments.rounds + 1):
            print(f"round {number}: killed after {one_round(project, minutes, chance)}", flush=True)
        drained = subprocess.run([PENSTOCK, "run", "--once"], cwd=project, capture_output=True, text=True)
        print(drained.stderr if drained.returncode else "drained")
        sys.exit(0 if verdict(project) and drained.returncode == 0 else 1)


if __name__ == "__main__":
    main()
