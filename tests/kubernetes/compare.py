"""Compare our API server with the real one: the same requests, answer by answer.

    python tests/kubernetes/compare.py                       # what `make test-kubernetes` runs: everything in requests/
    python tests/kubernetes/compare.py FILE... --real KUBECONFIG --ours KUBECONFIG
    python tests/kubernetes/compare.py FILE... --real KUBECONFIG --only     # prints the answers of one server

A server whose kubeconfig is not given is started for the run. The real one is built first; without Go, and nothing
built before, the comparison is skipped. Each difference is one line: file, request, field, what the real server says,
what ours says. The exit code is 1 if there is any.
"""

from __future__ import annotations

import argparse
import json
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from playing import Answer, Client, install_definitions, play, read_requests
from real_binaries import HERE, build, missing
from real_server import AS_OURS, real_server

ABSENT = "(nothing)"


@contextmanager
def our_server() -> Iterator[Path]:
    """Our API server in a process of its own; gives its kubeconfig."""
    with tempfile.TemporaryDirectory(prefix="kilauea-apiserver-") as home:
        kubeconfig = Path(home) / "kubeconfig"
        command = [sys.executable, "-m", "kilauea", "apiserver", "--kubeconfig", str(kubeconfig)]
        with (Path(home) / "log").open("wb") as log:
            process = subprocess.Popen(
                [*command, "--data-dir", f"{home}/data", "--listen", "127.0.0.1:0"], stdout=log, stderr=log
            )
        try:
            deadline = time.monotonic() + 30
            while not kubeconfig.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"kilauea apiserver does not start:\n{(Path(home) / 'log').read_text()}")
                time.sleep(0.05)
            yield kubeconfig
        finally:
            process.terminate()
            process.wait(20)


def differences(real: Any, ours: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two answers differ: the path, and both values."""
    if isinstance(real, dict) and isinstance(ours, dict):
        for key in [*real, *(key for key in ours if key not in real)]:
            below = f"{path}.{key}" if path else str(key)
            yield from differences(real.get(key, ABSENT), ours.get(key, ABSENT), below)
    elif isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        for index, (left, right) in enumerate(zip(real, ours, strict=True)):
            yield from differences(left, right, f"{path}[{index}]")
    elif type(real) is not type(ours) or real != ours:
        yield path, real, ours


def answer_differences(request: dict[str, Any], real: Answer, ours: Answer) -> Iterator[tuple[str, Any, Any]]:
    """Where two answers differ, but for what the request says may differ.

    Where one server refuses what the other does not, only the code and the message are told; `code` allows that.
    """
    allowed = tuple(request.get("ignore", ()))
    if real.code != ours.code:
        if "code" in allowed:
            return
        yield "code", f"{real.code} {_message(real)}", f"{ours.code} {_message(ours)}"
        return
    for path, left, right in differences(vars(real), vars(ours)):
        if not path.removeprefix("body.").startswith(allowed):
            yield path, left, right


def _message(answer: Answer) -> str:
    return str(answer.body.get("message", "")) if isinstance(answer.body, dict) else ""


def shown(value: Any) -> str:
    """A value on one line, not too long."""
    text = value if value == ABSENT else json.dumps(value)
    return text if len(text) <= 300 else text[:300] + "..."


def new_namespace(path: Path) -> str:
    """A name for the namespace of a file's requests, another one each time."""
    return f"{path.stem.replace('_', '-')}-{secrets.token_hex(3)}"


def compare(path: Path, real: Client, ours: Client) -> tuple[int, int]:
    """Play a file at both servers and print how their answers differ; returns the count of requests and differences."""
    requests = read_requests(path)
    namespace = new_namespace(path)
    found = 0
    answers = zip(requests, play(real, requests, namespace), play(ours, requests, namespace), strict=True)
    for request, left, right in answers:
        for place, one, other in answer_differences(request, left, right):
            print(f"{path.stem}: {request['name']}: {place}: real {shown(one)}, ours {shown(other)}")
            found += 1
    return len(requests), found


def print_answers(path: Path, client: Client) -> None:
    """Play a file at one server and print its answers."""
    requests = read_requests(path)
    for request, answer in zip(requests, play(client, requests, new_namespace(path)), strict=True):
        print(f"# {request['name']}\n{json.dumps(vars(answer), indent=2)}")


def compare_all(paths: list[Path], real: Path, ours: Path) -> int:
    """Compare file by file; returns the number of differences."""
    left, right = Client.from_kubeconfig(real), Client.from_kubeconfig(ours)
    install_definitions(left)
    install_definitions(right)
    total = 0
    for path in paths:
        count, found = compare(path, left, right)
        print(f"test-kubernetes: {path.stem}: {count} requests, {found} differences", flush=True)
        total += found
    return total


def main() -> int:
    """Compare, or say why not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="files of requests; all in requests/ if none is named")
    parser.add_argument("--real", type=Path, help="kubeconfig of a real API server that runs")
    parser.add_argument("--ours", type=Path, help="kubeconfig of our API server that runs")
    parser.add_argument("--only", action="store_true", help="ask one server and print its answers")
    options = parser.parse_args()
    paths = options.files or sorted((HERE / "requests").glob("*.yaml"))
    with ExitStack() as stack:
        given = options.real or options.ours
        if options.only and given:
            for path in paths:
                print_answers(path, Client.from_kubeconfig(given))
            return 0
        if options.real is None:
            if missing() and shutil.which("go") is None:
                print("test-kubernetes: Go is not installed and nothing was built before; skipped")
                return 0
            build()
            options.real = stack.enter_context(real_server((), AS_OURS)).kubeconfig
        if options.only:
            for path in paths:
                print_answers(path, Client.from_kubeconfig(options.real))
            return 0
        ours = options.ours or stack.enter_context(our_server())
        return 1 if compare_all(paths, options.real, ours) else 0


if __name__ == "__main__":
    sys.exit(main())
