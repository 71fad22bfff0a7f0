"""Train a linear model on several processes, as `torch.distributed` would: data-parallel, with a ring all-reduce.

It reads the variables that Volcano's plugin `pytorch` sets: MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE. Rank 0
writes a checkpoint every ten steps; a run that finds one goes on from there. Only the standard library is needed.
"""

from __future__ import annotations

import argparse
import array
import json
import os
import random
import socket
import time
from pathlib import Path

FEATURES, ROWS = 40, 60
"""Weights of the model, and rows of data that each process has."""
RATE = 0.3
"""Part of the gradient that a step takes."""
PATIENCE = 120.0
"""Seconds to wait for the other processes."""


class Ring:
    """The processes in a circle: each sends to the next and receives from the one before it."""

    def __init__(self, rank: int, size: int, master: tuple[str, int]) -> None:
        """Find the others through the master, and connect."""
        self.rank, self.size = rank, size
        with socket.create_server((socket.gethostname(), 0)) as listener:
            members = self._meet(master, listener.getsockname()[:2])
            self._next = connect(*members[(rank + 1) % size])
            self._before, _ = listener.accept()
        self._next.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _meet(self, master: tuple[str, int], own: tuple[str, int]) -> list[tuple[str, int]]:
        """The addresses of all processes by rank; rank 0 collects them and tells the others."""
        if self.rank:
            with connect(*master) as line, line.makefile("rw") as file:
                print(json.dumps([self.rank, own]), file=file, flush=True)
                return [(host, port) for host, port in json.loads(file.readline())]
        members, files = {0: own}, []
        with socket.create_server(master) as listener:
            while len(members) < self.size:
                line, _ = listener.accept()
                file = line.makefile("rw")
                number, address = json.loads(file.readline())
                members[number] = address
                files.append(file)
        found = [members[number] for number in range(self.size)]
        for file in files:
            print(json.dumps(found), file=file, flush=True)
        return found

    def sum(self, values: list[float]) -> list[float]:
        """The sums of all processes' values: each process adds up one part, then all exchange their parts."""
        parts = [array.array("d", values[number :: self.size]) for number in range(self.size)]
        for step in range(self.size - 1):
            received = self._pass_on(parts[(self.rank - step) % self.size])
            part = parts[(self.rank - step - 1) % self.size]
            for place, value in enumerate(received):
                part[place] += value
        for step in range(self.size - 1):
            parts[(self.rank - step) % self.size] = self._pass_on(parts[(self.rank - step + 1) % self.size])
        return [parts[place % self.size][place // self.size] for place in range(len(values))]

    def _pass_on(self, part: array.array[float]) -> array.array[float]:
        """Send a part to the next process, and return the one that the process before sends."""
        try:
            self._next.sendall(len(part).to_bytes(4, "big") + part.tobytes())
            count = int.from_bytes(receive(self._before, 4), "big")
            return array.array("d", receive(self._before, 8 * count))
        except OSError as error:
            raise SystemExit(f"a peer has left: {error}") from error


def receive(line: socket.socket, count: int) -> bytes:
    """So many bytes."""
    data = b""
    while len(data) < count:
        more = line.recv(count - len(data))
        if not more:
            raise ConnectionError("end of the connection")
        data += more
    return data


def connect(host: str, port: int) -> socket.socket:
    """A connection to a process that may not listen yet, or not have its name yet."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection((host, port), timeout=PATIENCE)
        except OSError as error:
            if time.monotonic() > end:
                raise SystemExit(f"cannot reach {host}:{port}: {error}") from error
            time.sleep(0.1)


def data_of(rank: int) -> list[tuple[list[float], float]]:
    """The rows of one process: the true weights are 1, 2, 3 and so on."""
    rng = random.Random(rank)
    rows = [[rng.uniform(-1, 1) for _ in range(FEATURES)] for _ in range(ROWS)]
    return [(row, sum((place + 1) * value for place, value in enumerate(row))) for row in rows]


def train(ring: Ring, steps: int, checkpoint: Path, fail_at: int) -> None:
    """Follow the gradient; each step is one all-reduce of the gradient and the loss."""
    data = data_of(ring.rank)
    begin, weights = read(checkpoint) if ring.rank == 0 else (0, [0.0] * FEATURES)
    begin, *weights = ring.sum([float(begin), *weights])  # the others have zeros: a broadcast
    if ring.rank == 0 and begin:
        print(f"resumed from step {begin:.0f}", flush=True)
    for step in range(int(begin) + 1, steps + 1):
        gradient, loss = [0.0] * FEATURES, 0.0
        for row, target in data:
            error = sum(weight * value for weight, value in zip(weights, row, strict=True)) - target
            loss += error * error
            for place, value in enumerate(row):
                gradient[place] += error * value
        count = ROWS * ring.size
        loss, *gradient = (value / count for value in ring.sum([loss, *gradient]))
        weights = [weight - RATE * part for weight, part in zip(weights, gradient, strict=True)]
        if ring.rank == 0 and step % 10 == 0:
            write(checkpoint, step, weights)
        if ring.rank == 0 and step % 50 == 0:
            print(f"step {step} loss {loss:.6f}", flush=True)
        if step == fail_at and ring.rank == ring.size - 1 and begin == 0:
            raise SystemExit(f"rank {ring.rank} fails at step {step}, as it was told to")
    if ring.rank == 0:
        worst = max(abs(weight - place - 1) for place, weight in enumerate(weights))
        print(f"converged with {ring.size} processes: largest error of a weight {worst:.4f}", flush=True)


def read(checkpoint: Path) -> tuple[int, list[float]]:
    """The step and the weights of a checkpoint; zeros without one."""
    if not checkpoint.exists():
        return 0, [0.0] * FEATURES
    found = json.loads(checkpoint.read_text())
    return found["step"], found["weights"]


def write(checkpoint: Path, step: int, weights: list[float]) -> None:
    """Replace the checkpoint as a whole, so that a crash leaves the one before."""
    temporary = checkpoint.with_suffix(".new")
    temporary.write_text(json.dumps({"step": step, "weights": weights}))
    temporary.replace(checkpoint)


def main() -> None:
    """Train as one of the processes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--fail-at", type=int, default=0, help="step at which the last rank of the first run exits")
    given = parser.parse_args()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    ring = Ring(rank, size, (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
    train(ring, given.steps, given.checkpoint, given.fail_at)


if __name__ == "__main__":
    main()
