"""A head that hands out tasks, and workers that do them: the shape of Ray and Dask, with the standard library only.

`tasks.py head` counts the prime numbers below a limit, in blocks; `tasks.py worker` does one block after the other. The
head listens on its host name, which workers know through the plugin `svc`. A block whose worker leaves is given to
another.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import socket
import sys
import threading
import time
from multiprocessing.connection import Client, Connection, Listener

PORT = 6379
KEY = b"primes"
"""Keeps strangers from the queue; in earnest, a Secret."""
BLOCK = 5000
PATIENCE = 120.0
"""Seconds for which a worker looks for its head."""


def head(limit: int, workers: int) -> None:
    """Hand out all blocks once all workers have come, collect the counts, and say what they add up to."""
    blocks = [(begin, min(begin + BLOCK, limit)) for begin in range(0, limit, BLOCK)]
    waiting: queue.Queue[tuple[int, int]] = queue.Queue()
    for block in blocks:
        waiting.put(block)
    counts: queue.Queue[int] = queue.Queue()
    complete = threading.Barrier(workers)
    with Listener((socket.gethostname(), PORT), authkey=KEY) as listener:

        def accept() -> None:
            while True:
                with contextlib.suppress(OSError, EOFError):
                    line = listener.accept()
                    threading.Thread(target=hand_out, args=(line, complete, waiting, counts), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        total = sum(counts.get() for _ in blocks)
        print(f"{total} primes below {limit}, from {len(blocks)} tasks", flush=True)


def hand_out(
    line: Connection, complete: threading.Barrier, waiting: queue.Queue[tuple[int, int]], counts: queue.Queue[int]
) -> None:
    """Give one worker block after block; the one that it leaves undone goes back to the queue."""
    name = line.recv()
    print(f"{name} has come", flush=True)
    block = waiting.get()  # before the others begin, so that each worker has one
    complete.wait()
    while True:
        try:
            line.send(block)
            counts.put(line.recv())
        except (OSError, EOFError):
            print(f"{name} has left, its task goes to another", flush=True)
            waiting.put(block)
            return
        block = waiting.get()


def worker(address: str, *, leaves: bool) -> None:
    """Do blocks until the head has no more; or, as if it had crashed, leave in the middle of one."""
    done = 0
    with connected(address) as line:
        line.send(os.environ.get("HOSTNAME") or socket.gethostname())
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                begin, end = line.recv()
                if leaves:
                    sys.exit("left in the middle of a task, as it was told to")
                line.send(sum(map(is_prime, range(begin, end))))
                done += 1
    print(f"did {done} tasks", flush=True)


def connected(address: str) -> Connection:
    """A connection to the head, which may not listen yet, or not have its name yet."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return Client((address, PORT), authkey=KEY)
        except OSError as error:
            if time.monotonic() > end:
                raise SystemExit(f"cannot reach {address}:{PORT}: {error}") from error
            time.sleep(0.1)


def is_prime(number: int) -> bool:
    """Return True for a prime number."""
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def main() -> None:
    """Be the head or a worker."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=("head", "worker"))
    parser.add_argument("--limit", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=1, help="workers for which the head waits")
    parser.add_argument("--head", default="", help="host name of the head")
    parser.add_argument("--leave", action="store_true", help="let the worker crash in the middle of its first task")
    given = parser.parse_args()
    if given.role == "head":
        head(given.limit, given.workers)
    else:
        worker(given.head, leaves=given.leave)


if __name__ == "__main__":
    main()
