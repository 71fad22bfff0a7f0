"""Run the conformance specs of Kubernetes' own e2e suite on `kilauea up`, and say how many pass.

    python tests/kubernetes/conformance.py                      # all sigs below
    python tests/kubernetes/conformance.py --others             # specs that are not for conformance, of more sigs
    python tests/kubernetes/conformance.py --others --list      # prints what becomes of each, without running any
    python tests/kubernetes/conformance.py --api                # specs of more sigs that need no container
    python tests/kubernetes/conformance.py --processes          # specs that need containers: pods are processes
    python tests/kubernetes/conformance.py --others --processes # those of them that need containers
    python tests/kubernetes/conformance.py --sig sig-auth
    python tests/kubernetes/conformance.py --focus 'ResourceQuota .* secret'

`conformance_left_out.yaml` names specs that are not run, each with its reason; `others_left_out.yaml` does for those
that are not for conformance. Of both, those in `conformance_in_processes.yaml` and `others_in_processes.yaml` pass
where pods are processes of this machine, with the program `agnhost` in place of the suite's image. They run one after
another, because pods share the ports of the machine.

Most specs of the sigs for nodes, networks and storage look into containers. `api_specs.yaml` names those that pass
without: about the API, and about what simulated pods do and print, whether they are for conformance or not.

`make test-conformance` builds the suite first (`real_binaries.py`). Each process of the suite has a cluster of its own,
so serial specs need no special care.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from real_binaries import HERE, folder, missing

SIGS = ("sig-api-machinery", "sig-auth", "sig-apps", "sig-scheduling", "sig-cli", "sig-instrumentation")
MORE_SIGS = ("sig-architecture", "sig-autoscaling", "sig-network", "sig-node", "sig-storage")
"""Of these, the conformance specs are run that `api_specs.yaml` names; with `--others`, all that are not left out."""
ALL_SIGS = (*SIGS, *MORE_SIGS)
API_SPECS = HERE / "api_specs.yaml"
LEFT_OUT, OTHERS_LEFT_OUT = HERE / "conformance_left_out.yaml", HERE / "others_left_out.yaml"
UP = "--nodes=3 --node-cpu=4 --node-memory=16Gi --run-time=60s --listen=127.0.0.1:0 --durability=memory".split()
PROCESSES, OTHERS_IN_PROCESSES = HERE / "conformance_in_processes.yaml", HERE / "others_in_processes.yaml"
UP_WITH_PROCESSES = "--runtime=process --nodes=3 --image=*=host --listen=127.0.0.1:0 --durability=memory".split()
BUSYBOX = "registry.k8s.io/e2e-test-images/busybox"
AGNHOST, PAUSE = "registry.k8s.io/e2e-test-images/agnhost", "registry.k8s.io/pause"
SAMPLE_SERVER, ETCD = "registry.k8s.io/e2e-test-images/sample-apiserver", "registry.k8s.io/etcd"
MISSING_IMAGES = (
    "foo:non-existent,webserver:404,gcr.io/google_samples/gb-redisslave:nonexistent,"
    "localhost/some-image-that-doesnt-exist"
)
"""Images of specs that are about images that do not exist; simulated nodes ask no registry."""
SUITE = (
    "--provider=skeleton --allowed-not-ready-nodes=-1 --minStartupPods=0 --disable-log-dump=true --num-nodes=3 "
    "--ginkgo.no-color --ginkgo.silence-skips --ginkgo.v --ginkgo.timeout=3h --ginkgo.poll-progress-after=0"
).split()
START_SECONDS = 180.0
MESSAGE = 400
"""Characters of a failure that are printed."""


class Spec(NamedTuple):
    """A spec of the suite, by the name that it has in the suite's reports."""

    sig: str
    name: str

    @property
    def full(self) -> str:
        """The whole name."""
        return f"[{self.sig}] {self.name}"


class Outcome(NamedTuple):
    """What became of a spec: `passed`, `failed` or another state of the suite."""

    spec: Spec
    state: str
    seconds: float
    message: str


def conformance_specs(suite: Path) -> list[Spec]:
    """Conformance specs of the sigs that are looked at."""
    listed = subprocess.run([suite, "--list-conformance-tests"], capture_output=True, check=True, text=True).stdout
    names = [" ".join(each["codename"].split()) for each in yaml.safe_load(listed)]
    found = [re.match(r"\[(sig-[\w-]+)\] (.*)", name) for name in names]
    return sorted(Spec(each[1], each[2]) for each in found if each is not None and each[1] in ALL_SIGS)


def other_specs(suite: Path) -> list[Spec]:
    """Specs of all sigs above that are not for conformance."""
    with tempfile.TemporaryDirectory() as work:
        report = Path(work) / "report.json"
        command = [str(suite), *SUITE, "--kubeconfig=/dev/null", "--ginkgo.dry-run", "--ginkgo.focus=."]
        subprocess.run([*command, f"--ginkgo.json-report={report}"], capture_output=True, check=True, cwd=work)
        found = [each.spec for each in outcomes(report)]
    return sorted(each for each in found if each.sig in ALL_SIGS and "[Conformance]" not in each.name)


def api_specs() -> list[Spec]:
    """Specs that need no container, of sigs whose other specs look into them."""
    return sorted(Spec(sig, name) for sig, names in yaml.safe_load(API_SPECS.read_text()).items() for name in names)


def left_out(spec: Spec, reasons: Path = LEFT_OUT) -> str:
    """The reason why a spec is not run; empty if it is run."""
    for entry in _read(reasons).get(spec.sig) or ():
        if any(spec.name.startswith(start) for start in entry["specs"]):
            return str(entry["reason"])
    return ""


def passes_in_processes(spec: Spec, names: Path = PROCESSES) -> bool:
    """Return True if a spec passes where pods are processes of this machine."""
    return spec.name.startswith(tuple(_read(names).get(spec.sig) or ()))


@cache
def _read(file: Path) -> Any:
    return yaml.safe_load(file.read_text())


def agnhost_image() -> Path:
    """A program that does what the image does: without arguments it waits.

    It is where containers of all users see it: neither in a home folder nor in /tmp.
    """
    place = Path("/var/tmp") / f"kilauea-agnhost-{os.getuid()}"
    place.mkdir(mode=0o755, exist_ok=True)
    copy, program = place / "agnhost", place / "agnhost-image"
    if not copy.exists() or copy.stat().st_mtime < (folder() / "agnhost").stat().st_mtime:
        shutil.copy(folder() / "agnhost", copy)
        copy.chmod(0o755)
    program.write_text(f'#!/bin/sh\n[ $# = 0 ] && set -- pause\nexec "{copy}" "$@"\n')
    program.chmod(0o755)
    return program


def sample_server_images() -> dict[str, Path]:
    """Images of the sample API server and its etcd, by their names; none if the server has not been built.

    It listens on the address of its pod alone: all addresses would include those of services, where port 443 is taken.
    """
    if missing(("sample-apiserver", "etcd")):
        return {}
    place = Path("/var/tmp") / f"kilauea-sample-apiserver-{os.getuid()}"
    binaries = place / "etcd" / "usr" / "local" / "bin"
    binaries.mkdir(mode=0o755, parents=True, exist_ok=True)
    for name, copy in (("etcd", binaries / "etcd"), ("sample-apiserver", place / "sample-apiserver")):
        if not copy.exists() or copy.stat().st_mtime < (folder() / name).stat().st_mtime:
            shutil.copy(folder() / name, copy)
            copy.chmod(0o755)
    program = place / "sample-apiserver-image"
    program.write_text(f'#!/bin/sh\nexec "{place / "sample-apiserver"}" "$@" --bind-address="$(hostname -i)"\n')
    program.chmod(0o755)
    return {SAMPLE_SERVER: program, ETCD: place / "etcd"}


def busybox_image(program: str) -> Path:
    """A folder that is an image of busybox."""
    image = Path("/var/tmp") / f"kilauea-busybox-{os.getuid()}"
    (image / "bin").mkdir(mode=0o755, parents=True, exist_ok=True)
    (image / "etc").mkdir(exist_ok=True)
    if not (image / "bin" / "busybox").exists():
        shutil.copy(program, image / "bin" / "busybox")
        applets = subprocess.run([program, "--list"], capture_output=True, check=True, text=True).stdout.split()
        for name in applets:
            if name != "busybox":
                (image / "bin" / name).symlink_to("busybox")
    return image


@contextmanager
def cluster(work: Path, options: Sequence[str] = UP) -> Iterator[Path]:
    """A cluster for the length of a block; yields its kubeconfig."""
    kubeconfig = work / "kubeconfig"
    kubeconfig.unlink(missing_ok=True)  # that of an earlier run in the same folder
    command = [
        sys.executable,
        "-m",
        "kilauea",
        "up",
        *options,
        f"--data-dir={work / 'data'}",
        f"--kubeconfig={kubeconfig}",
    ]
    with (work / "up.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        end = time.monotonic() + START_SECONDS
        while not kubeconfig.exists():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the cluster did not start: see {work / 'up.log'}")
            time.sleep(0.2)
        note = f"kilauea.dev/missing-images={MISSING_IMAGES}"
        subprocess.run(["kubectl", f"--kubeconfig={kubeconfig}", "annotate", "nodes", "--all", note], check=True)
        yield kubeconfig
    finally:
        process.terminate()
        process.wait(20)


def start_suite(suite: Path, kubeconfig: Path, specs: Sequence[Spec], work: Path) -> subprocess.Popen[bytes]:
    """Begin to run specs against a cluster."""
    focus = "|".join(re.escape(each.full) for each in specs)
    command = [str(suite), *SUITE, f"--kubeconfig={kubeconfig}", f"--ginkgo.focus={focus}"]
    command += [f"--ginkgo.json-report={work / 'report.json'}"]
    with (work / "suite.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=work)


def outcomes(report: Path) -> Iterator[Outcome]:
    """Specs of a report that were run."""
    for suite in json.loads(report.read_text()):
        for each in suite["SpecReports"] or ():
            if (each["State"] == "skipped" and not each.get("RunTime")) or each["LeafNodeType"] != "It":
                continue
            yield _outcome(each)


def _outcome(report: Any) -> Outcome:
    name = " ".join([*(report["ContainerHierarchyTexts"] or ()), report["LeafNodeText"]])
    sig, _, rest = name.partition("] ")
    message = (report.get("Failure") or {}).get("Message", "")
    return Outcome(Spec(sig.removeprefix("["), rest), report["State"], report["RunTime"] / 1e9, message)


def run(suite: Path, specs: Sequence[Spec], jobs: int, work: Path, options: Sequence[str] = UP) -> list[Outcome]:
    """Run specs in several processes."""
    with ExitStack() as stack:
        processes = []
        for number in range(min(jobs, len(specs))):
            place = work / str(number)
            place.mkdir(parents=True, exist_ok=True)
            kubeconfig = stack.enter_context(cluster(place, options))
            processes.append((place, start_suite(suite, kubeconfig, specs[number::jobs], place)))
        found: list[Outcome] = []
        for place, process in processes:
            process.wait()
            report = place / "report.json"
            if not report.exists():
                raise RuntimeError(f"the suite wrote no report: see {place / 'suite.log'}")
            found += outcomes(report)
    return each_once(found, specs)


def each_once(found: Iterable[Outcome], specs: Sequence[Spec]) -> list[Outcome]:
    """The outcomes of specs, each once; where one was run several times, the one that did not pass.

    The suite also runs specs whose names only begin like one of those asked for, in another process than their own.
    """
    wanted, kept = set(specs), dict[Spec, Outcome]()
    for each in found:
        if each.spec in wanted and (each.spec not in kept or each.state != "passed"):
            kept[each.spec] = each
    return sorted(kept.values())


def show(found: Sequence[Outcome], specs: Sequence[Spec], omitted: Sequence[tuple[Spec, str]]) -> int:
    """Print what was found; return the number of specs that did not pass."""
    for each in found:
        if each.state != "passed":
            print(
                f"{each.state}: {each.spec.full} ({each.seconds:.0f}s)\n    {' '.join(each.message.split())[:MESSAGE]}"
            )
    for spec, reason in omitted:
        print(f"left out: {spec.full}: {reason}")
    passed = Counter(each.spec.sig for each in found if each.state == "passed")
    run_of, out_of = Counter(each.sig for each in specs), Counter(spec.sig for spec, _ in omitted)
    print(f"{'':20}{'passed':>8}{'run':>8}{'left out':>10}")
    for sig in ALL_SIGS:
        if run_of[sig] or out_of[sig]:
            print(f"{sig:20}{passed[sig]:8}{run_of[sig]:8}{out_of[sig]:10}")
    print(f"{'all':20}{passed.total():8}{run_of.total():8}{out_of.total():10}")
    return len(specs) - passed.total()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run specs; 1 if one does not pass."""
    parser = argparse.ArgumentParser(description="Kubernetes' conformance specs on `kilauea up`")
    parser.add_argument("--sig", action="append", choices=ALL_SIGS, help="only specs of this sig; repeatable")
    parser.add_argument("--focus", default="", help="only specs whose name matches this pattern")
    parser.add_argument("--others", action="store_true", help="the specs that are not for conformance")
    parser.add_argument("--api", action="store_true", help="specs of more sigs that need no container")
    parser.add_argument("--processes", action="store_true", help="specs that need containers, with pods as processes")
    parser.add_argument("--list", action="store_true", help="print which are run and which are left out, and run none")
    parser.add_argument("--jobs", type=int, default=4, help="processes of the suite, each with its cluster")
    parser.add_argument("--all", action="store_true", help="also run what is left out")
    parser.add_argument("--work", type=Path, help="folder for logs and reports")
    options = parser.parse_args(arguments)
    suite = folder() / "e2e.test"
    sigs: Sequence[str] = ALL_SIGS if options.api or options.others or options.processes else SIGS
    known = api_specs() if options.api else (other_specs if options.others else conformance_specs)(suite)
    wanted = options.sig or sigs
    chosen = [each for each in known if each.sig in wanted and re.search(options.focus, each.full)]
    reasons = OTHERS_LEFT_OUT if options.others else LEFT_OUT
    omitted = []
    if not (options.all or options.api):
        omitted = [(each, reason) for each in chosen if (reason := left_out(each, reasons))]
    reasoned = {spec for spec, _ in omitted}
    specs = [each for each in chosen if each not in reasoned]
    if options.list:
        for each in specs:
            print(f"run: {each.full}")
        show([], specs, omitted)
        return 0
    up, jobs = UP, options.jobs
    if options.processes:
        names = OTHERS_IN_PROCESSES if options.others else PROCESSES
        specs, omitted = [each for each in chosen if passes_in_processes(each, names)], []
        images = [f"--image={name}={agnhost_image()}" for name in (AGNHOST, PAUSE)]
        if busybox := shutil.which("busybox"):
            images.append(f"--image={BUSYBOX}={busybox_image(busybox)}")
        images += [f"--image={name}={path}" for name, path in sample_server_images().items()]
        up, jobs = [*UP_WITH_PROCESSES, *images], 1
    work = options.work or Path(tempfile.mkdtemp(prefix="kilauea-conformance-"))
    print(f"conformance: {len(specs)} specs; logs are in {work}", flush=True)
    return min(show(run(suite, specs, jobs, work, up), specs, omitted), 1)


if __name__ == "__main__":
    sys.exit(main())
