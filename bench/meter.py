"""Sends records to a topic at a steady rate, and takes the times of those that come out of another.

    python bench/meter.py send SERVERS TOPIC RATE
    python bench/meter.py listen SERVERS TOPIC WARM_UP_SECS SECONDS

Each is a process of its own, so that neither waits for the other, nor for the driver of the queries between them. A
record is `{"id": …, "sent": …}`. Topics have one partition, so records come in the order in which they were sent.
"""

import gc
import json
import os
import subprocess
import sys
import time
from array import array

from confluent_kafka import Consumer, Producer, TopicPartition

PATIENCE_SECS = 60


def measured(servers: str, topic: str, out: str, rate: int, warm_up_secs: int, seconds: int) -> list[float]:
    """The milliseconds that records took from one topic to the other, from a while after the first one came through."""
    this = (sys.executable, __file__)
    sending = subprocess.Popen([*this, "send", servers, topic, str(rate)])
    try:
        told = subprocess.run(
            [*this, "listen", servers, out, str(warm_up_secs), str(seconds)], stdout=subprocess.PIPE, check=True
        )
    finally:
        sending.terminate()
        sending.wait()
    found: list[float] = json.loads(told.stdout)
    return found


def send(servers: str, topic: str, rate: int) -> None:
    """Send until the process is ended."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "socket.nagle.disable": True})
    parent = os.getppid()
    begun, sent = time.time(), 0
    while os.getppid() == parent:
        time.sleep(max(0.0, begun + sent / rate - time.time()))
        producer.produce(topic, json.dumps({"id": sent, "sent": time.time()}))
        producer.poll(0)
        sent += 1


def listen(servers: str, topic: str, warm_up_secs: int, seconds: int) -> list[float]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "meter",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,
            "socket.nagle.disable": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    took_ms = array("d")
    ids = array("q")
    begins, ends = float("inf"), float("inf")
    heard = time.time()
    while time.time() < heard + PATIENCE_SECS:
        # One at a time: `consume` would wait until it has as many as it may take.
        message = consumer.poll(0.1)
        if message is None or message.error():
            continue
        heard = time.time()
        record = json.loads(message.value())
        if ends == float("inf"):
            begins = heard + warm_up_secs
            ends = begins + seconds
        if record["sent"] >= ends:
            break
        if record["sent"] >= begins:
            took_ms.append((heard - record["sent"]) * 1000)
            ids.append(record["id"])
    else:
        raise SystemExit(f"no record came through within {PATIENCE_SECS} s")
    consumer.close()
    if list(ids) != list(range(ids[0], ids[0] + len(ids))):
        raise SystemExit("records are missing, came twice, or not in order")
    return list(took_ms)


def main() -> None:
    match sys.argv[1:]:
        case ["send", servers, topic, rate]:
            send(servers, topic, int(rate))
        case ["listen", servers, topic, warm_up_secs, seconds]:
            gc.disable()
            json.dump(listen(servers, topic, int(warm_up_secs), int(seconds)), sys.stdout)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
