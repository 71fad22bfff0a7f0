"""Containers as processes: processor time and seconds for each `true`, beside a shell that runs the same program.

    python benchmarks/bench_processes.py [--smoke] [--containers 1000] [--parallel 16]

Processor time is that of the supervisor and of all its children, without the client.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import subprocess
import tempfile
import time
from pathlib import Path

from kilauea.kubelet.container_runtime import Container
from kilauea.kubelet.processes.runtime import Isolation, ProcessRuntime

TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Processor time of a process and of the children that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICK


async def run_containers(folder: Path, isolation: Isolation, count: int, parallel: int) -> None:
    """Run that many containers, some at a time, and print what each took."""
    runtime = ProcessRuntime(folder / isolation, isolation=isolation, idle=10)
    await runtime.open()
    if runtime.isolation != isolation:
        print(f"{isolation}: not permitted on this machine")
        await runtime.close()
        return
    left = iter(range(count))
    waiting: dict[str, asyncio.Event] = {}

    async def hear() -> None:
        async for state in runtime.exits():
            waiting[state.id].set()

    async def work() -> None:
        for number in left:
            id = f"{isolation}-{number}"
            waiting[id] = asyncio.Event()
            environment = {"PATH": os.environ["PATH"]}
            await runtime.start(
                Container(id, "pod", "main", 0, ["true"], folder / f"{id}.log", environment=environment)
            )
            await waiting[id].wait()
            await runtime.remove(id)

    hearing = asyncio.create_task(hear())
    before, begin = cpu_seconds(runtime.supervisor), time.monotonic()
    await asyncio.gather(*(work() for _ in range(parallel)))
    seconds, cpu = time.monotonic() - begin, cpu_seconds(runtime.supervisor) - before
    hearing.cancel()
    print(f"{isolation}: {1000 * cpu / count:.2f} ms of processor time each, {1000 * seconds / count:.2f} ms")
    await runtime.close()


def run_shell(count: int) -> None:
    """Run the same program that often in a shell, and print what each took."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    script = 'number=0; while [ $number -lt "$1" ]; do /bin/true; number=$((number + 1)); done'
    subprocess.run(["/bin/sh", "-c", script, "sh", str(count)], check=True)
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - begin
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"shell: {1000 * cpu / count:.2f} ms of processor time each, {1000 * seconds / count:.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="a few containers")
    parser.add_argument("--containers", type=int, default=1000)
    parser.add_argument("--parallel", type=int, default=16)
    options = parser.parse_args()
    count = 20 if options.smoke else options.containers
    with tempfile.TemporaryDirectory() as folder:
        run_shell(count)
        asyncio.run(run_containers(Path(folder), "plain", count, options.parallel))
        asyncio.run(run_containers(Path(folder), "namespaces", count, options.parallel))


if __name__ == "__main__":
    main()
