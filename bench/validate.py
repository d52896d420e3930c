"""How long `validate` and `lineage` take, and how they grow: user time, wall time and memory of whole processes.

    python bench/validate.py [--repeat 5]

Bars for 1,000 models with full column typing: `validate` under 5 s cold and under 1.5 s warm, `lineage --model` under
1.5 s, under 150 MB; 100 -> 1,000 models at most 12 times the time; a small project under 0.7 s from command to prompt.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Cost:
    user_secs: float
    wall_secs: float
    memory_mb: float


def write_project(root: Path, models: int) -> None:
    """Chains of ten models over twenty sources: filters, casts, expressions, one window in ten."""
    (root / "sources").mkdir(parents=True)
    (root / "models").mkdir()
    (root / "stream_project.yml").write_text("project:\n  name: bench\n")
    columns = "\n".join(
        f"      - {{name: {name}, type: {kind}}}"
        for name, kind in (
            ("order_id", "BIGINT"),
            ("customer_id", "BIGINT"),
            ("country", "STRING"),
            ("amount", '"DECIMAL(10, 2)"'),
            ("status", "STRING"),
            ("ordered_at", "TIMESTAMP(3)"),
        )
    )
    sources = [
        f"  - name: orders_{n}\n    topic: orders.{n}.v1\n    columns:\n{columns}\n"
        "    event_time:\n      column: ordered_at\n"
        for n in range(20)
    ]
    (root / "sources" / "orders.yml").write_text("sources:\n" + "".join(sources))
    for start in range(0, models, 10):
        texts = [_model(number) for number in range(start, min(start + 10, models))]
        (root / "models" / f"models_{start:04d}.yml").write_text("models:\n" + "".join(texts))


def _model(number: int) -> str:
    place = number % 10
    origin = f'source("orders_{number // 10 % 20}")' if place == 0 else f'ref("model_{number - 1:04d}")'
    head = f"  - name: model_{number:04d}\n    description: Model {number}\n    owner: team\n    sql: |\n"
    if place == 9:
        sql = (
            "SELECT country, TUMBLE_START(ordered_at, INTERVAL '1' HOUR) AS hour, COUNT(*) AS orders,\n"
            f"SUM(amount) AS revenue\nFROM {{{{ {origin} }}}}\n"
            "GROUP BY country, TUMBLE(ordered_at, INTERVAL '1' HOUR)"
        )
    else:
        sql = (
            "SELECT o.order_id, o.customer_id, UPPER(o.country) AS country, o.amount,\n"
            "CASE WHEN o.amount > 100 THEN 'large' ELSE o.status END AS status, o.ordered_at\n"
            f"FROM {{{{ {origin} }}}} AS o\nWHERE o.amount > {number} AND o.status <> 'cancelled'"
        )
    return head + "".join(f"      {line}\n" for line in sql.splitlines())


def measure(project: Path, *arguments: str, cold: bool) -> Cost:
    """One process. Cold means that nothing is remembered of an earlier one."""
    if cold:
        shutil.rmtree(project / ".penstock", ignore_errors=True)
    command = [str(Path(sys.executable).parent / "penstock"), *arguments, "--project-dir", str(project)]
    begun = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
        os.execv(command[0], command)
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        raise SystemExit(f"{' '.join(command)} failed")
    return Cost(usage.ru_utime, time.perf_counter() - begun, usage.ru_maxrss / 1024)


def best_of(repeat: int, projects: dict[int, Path]) -> dict[tuple[str, int], Cost]:
    """The cheapest run of each kind; kinds and sizes take turns, so that a slow moment hits all of them."""
    best: dict[tuple[str, int], Cost] = {}
    for _ in range(repeat):
        for size, project in projects.items():
            found = {
                "validate, cold": measure(project, "validate", cold=True),
                "validate, warm": measure(project, "validate", cold=False),
                "lineage --model": measure(project, "lineage", "--model", "model_0000", cold=False),
            }
            for kind, cost in found.items():
                if (kind, size) not in best or cost.user_secs < best[kind, size].user_secs:
                    best[kind, size] = cost
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    repeat = parser.parse_args().repeat
    sizes = (1, 100, 300, 1000)
    with tempfile.TemporaryDirectory() as folder:
        projects = {size: Path(folder) / f"p{size}" for size in sizes}
        for size, project in projects.items():
            write_project(project, size)
        best = best_of(repeat, projects)
    print(f"{'command':<16} {'models':>7} {'user s':>8} {'wall s':>8} {'MB':>6}   (best of {repeat})")
    for (kind, size), cost in sorted(best.items()):
        print(f"{kind:<16} {size:>7} {cost.user_secs:>8.2f} {cost.wall_secs:>8.2f} {cost.memory_mb:>6.0f}")
    for kind in dict.fromkeys(kind for kind, _ in best):
        growth = best[kind, 1000].wall_secs / best[kind, 100].wall_secs
        print(f"{kind}: 100 -> 1,000 models takes {growth:.1f} x the time")


if __name__ == "__main__":
    main()
