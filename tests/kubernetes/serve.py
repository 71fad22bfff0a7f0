"""Start the real Kubernetes API server, print its kubeconfig, and keep it until Ctrl-C or SIGTERM.

    python tests/kubernetes/serve.py [--controllers '*' | namespace-controller,...] [kube-apiserver arguments]

The first line on the output is `KUBECONFIG=<file>`; then ask it with kubectl, or with compare.py.
"""

from __future__ import annotations

import argparse
import signal
import sys
from types import FrameType

from real_server import ServerFailure, real_server


def _stop(signum: int, _: FrameType | None) -> None:
    raise SystemExit(128 + signum)


def main() -> int:
    """Serve until a signal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--controllers", default="", help="controllers of kube-controller-manager to run, with commas")
    options, arguments = parser.parse_known_args()
    controllers = [name for name in options.controllers.split(",") if name]
    signal.signal(signal.SIGTERM, _stop)
    try:
        with real_server(controllers, arguments) as server:
            print(f"KUBECONFIG={server.kubeconfig}\nurl: {server.url}", flush=True)
            for user, token in server.tokens.items():
                print(f"token of {user}: {token}", flush=True)
            signal.pause()
    except ServerFailure as failure:
        print(failure, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
