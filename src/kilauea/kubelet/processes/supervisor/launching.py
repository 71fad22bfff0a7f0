"""The start of a new process: its steps between `fork` and `exec`.

A pipe reports the result to the supervisor: it closes without data when the command runs, otherwise it contains the
failure.

The child shares its memory with the supervisor until one of them writes to it, and nearly every Python operation does.
So the child does as little as possible: each page that it touches costs more than the work itself.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # `signal` without enumerations, which touch many pages
import contextlib
import fcntl
import gc
import json
import os
import resource
import signal
import stat
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from kilauea.kubelet.processes.supervisor import linux
from kilauea.kubelet.processes.supervisor.process_tree import MARK, mark
from kilauea.kubelet.processes.supervisor.specs import Failure, Spec

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
COMMAND_FAILED = "RunContainerError"
SETUP_FAILED = "CreateContainerError"

_HANDLED = tuple(
    int(number)
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
)
_FILES_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)


@dataclass(frozen=True, slots=True)
class Descriptors:
    """Standard input, output and error of a new process: descriptors of the supervisor."""

    stdin: int
    stdout: int
    stderr: int
    tty: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a new process.

    Attributes:
        fork: creates the process.
        command: its last step, which ends in `exec` or raises.
        enter: its first step; it may continue in another process, which it reports to the pipe.
    """

    fork: Callable[[], int]
    command: Callable[[], None]
    enter: Callable[[int], None] | None = None


def launch(plan: Plan, descriptors: Descriptors, cgroups: Sequence[int] = ()) -> tuple[int, int]:
    """Start a process; return its id and the read end of its status pipe.

    Args:
        plan: its steps.
        descriptors: its standard input, output and error.
        cgroups: open `cgroup.procs` files of the control groups that it enters.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    # Only our end must not block the loop; the child writes its whole message.
    os.set_blocking(writer, True)
    try:
        pid = plan.fork()
    except OSError as error:
        os.close(reader)
        os.close(writer)
        raise Failure(SETUP_FAILED, f"cannot start a process: {error.strerror}") from error
    if pid:
        os.close(writer)
        return pid, reader
    _be_the_child(plan, descriptors, writer, cgroups)


def _be_the_child(plan: Plan, descriptors: Descriptors, writer: int, cgroups: Sequence[int]) -> NoReturn:
    try:
        # The garbage collector writes to every object that it visits, which would copy the pages shared with the
        # supervisor.
        gc.disable()
        _forget_handlers()
        for descriptor in cgroups:
            os.write(descriptor, b"0")
        if plan.enter is not None:
            plan.enter(writer)
        os.setsid()
        _connect(descriptors)
        plan.command()
    except Failure as failure:
        _tell(writer, failure)
    except OSError as error:
        _tell(writer, Failure(SETUP_FAILED, f"cannot set up the container: {error.strerror or error}"))
    except BaseException as error:
        _tell(writer, Failure(SETUP_FAILED, f"cannot set up the container: {type(error).__name__}: {error}"))
    finally:
        os._exit(128)


def _tell(writer: int, failure: Failure) -> None:
    os.write(writer, json.dumps({"reason": failure.reason, "message": failure.message[:2000]}).encode())


def _forget_handlers() -> None:
    """Restore default signal handling; Python ignores some signals, which commands would inherit."""
    _signal.set_wakeup_fd(-1)
    for number in _HANDLED:
        _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


def _connect(descriptors: Descriptors) -> None:
    # The standard descriptors of the supervisor are open, so none of these has their numbers.
    for number, descriptor in enumerate(_standard(descriptors)):
        os.dup2(descriptor, number)
    if descriptors.tty:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def become(spec: Spec) -> None:
    """Set the user, group and supplementary groups of a container; only root can change them."""
    user, group = spec.user, spec.group
    if os.geteuid() != 0:
        if (user is not None and user != os.getuid()) or (group is not None and group != os.getgid()):
            wanted = ":".join(str(number) for number in (user, group) if number is not None)
            message = (
                f"cannot run as user {wanted}: this kubelet runs as user {os.getuid()}, who cannot change users; "
                "drop runAsUser and runAsGroup, or run kilauea as root"
            )
            raise Failure(SETUP_FAILED, message)
        return
    if spec.changes_ids:
        os.setgroups(spec.groups)
        os.setgid(group if group is not None else 0)
    if user is not None:
        os.setuid(user)


def limit_resources(memory: int | None) -> None:
    """Set resource limits of processes that apply without control groups.

    The memory limit applies to private writable memory, not to address space: GPU drivers reserve far more address
    space than they use.
    """
    resource.setrlimit(resource.RLIMIT_NOFILE, _FILES_LIMIT)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if memory is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


def enter_folder(path: str, *, make: bool) -> None:
    """Change to the working directory of a container.

    Args:
        path: absolute; the root folder if empty.
        make: True to create it if missing, as in containers with a separate root.
    """
    try:
        if make and path:
            os.makedirs(path, 0o755, exist_ok=True)
        os.chdir(path or "/")
    except OSError as error:
        message = f'chdir to cwd ("{path}") set in config.json failed: {_words(error)}'
        raise Failure(COMMAND_FAILED, runtime_message(message)) from error


def spawn(argv: Sequence[str], environment: Mapping[str, str], descriptors: Descriptors) -> int:
    """Start a command in a separate session, with this process' root and folder; return its id.

    It shares the memory of this process until the command runs, so nothing is copied. Failures are worded like those of
    `execute`.

    Args:
        argv: the command and its arguments.
        environment: all its variables.
        descriptors: its standard input, output and error.
    """
    moves = [(os.POSIX_SPAWN_DUP2, each, number) for number, each in enumerate(_standard(descriptors))]
    with _starting(argv, environment) as path:
        return os.posix_spawn(
            path, list(argv), environment, file_actions=moves, setsid=True, setsigmask=(), setsigdef=_HANDLED
        )


def spawn_first(
    argv: Sequence[str],
    environment: Mapping[str, str],
    descriptors: Descriptors,
    cgroups: Sequence[int],
    ids: tuple[int, int, Sequence[int]] | None,
    *,
    no_new_privileges: bool = False,
) -> int:
    """Start a command like `spawn`, as the first process of namespaces that this process has just entered.

    Args:
        argv: the command and its arguments.
        environment: all its variables.
        descriptors: its standard input, output and error.
        cgroups: open `cgroup.procs` files of the control groups that it enters.
        ids: the user, group and supplementary groups to set.
        no_new_privileges: True if it must not gain privileges by running other programs.
    """
    with _starting(argv, environment) as path:
        return linux.start_first(
            path,
            argv,
            environment,
            _standard(descriptors),
            cgroups=cgroups,
            ids=ids,
            no_new_privileges=no_new_privileges,
        )


@contextlib.contextmanager
def _starting(argv: Sequence[str], environment: Mapping[str, str]) -> Iterator[str]:
    """Apply the limits of containers while one is started; yields the path of its command, and words failures."""
    name = argv[0] if argv else ""
    path = find(name, environment.get("PATH", DEFAULT_PATH))
    resource.setrlimit(resource.RLIMIT_NOFILE, _FILES_LIMIT)
    try:
        yield path
    except OSError as error:
        if error.filename not in (path, "exec"):
            raise
        raise Failure(COMMAND_FAILED, runtime_message(f"exec {path}: {_words(error)}")) from error
    except ValueError as error:
        message = f'exec: "{name}": invalid argument ({error})'
        raise Failure(COMMAND_FAILED, runtime_message(message)) from error
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES_LIMIT[1], _FILES_LIMIT[1]))


def _standard(descriptors: Descriptors) -> tuple[int, int, int]:
    return descriptors.stdin, descriptors.stdout, descriptors.stderr


def execute(argv: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this process by a command; failures are worded like runc's."""
    name = argv[0] if argv else ""
    path = find(name, environment.get("PATH", DEFAULT_PATH))
    try:
        os.execve(path, list(argv), dict(environment))
    except OSError as error:
        raise Failure(COMMAND_FAILED, runtime_message(f"exec {path}: {_words(error)}")) from error
    except ValueError as error:
        message = f'exec: "{name}": invalid argument ({error})'
        raise Failure(COMMAND_FAILED, runtime_message(message)) from error


def find(name: str, path: str) -> str:
    """Return the file of a command, searched like in containers."""
    if not name:
        raise Failure(COMMAND_FAILED, runtime_message("exec: no command; set command in the container's spec"))
    if "/" in name:
        _check(name, name)
        return name
    files = [f"{folder or '.'}/{name}" for folder in path.split(":")]
    for file in files:
        if os.access(file, os.X_OK) and stat.S_ISREG(os.stat(file).st_mode):
            return file
    reason = "permission denied" if any(map(os.path.isfile, files)) else "executable file not found in $PATH"
    raise Failure(COMMAND_FAILED, runtime_message(f'exec: "{name}": {reason}'))


def _check(name: str, file: str) -> None:
    try:
        mode = os.stat(file).st_mode
    except OSError as error:
        text = f'exec: "{name}": stat {file}: {_words(error)}'
        raise Failure(COMMAND_FAILED, runtime_message(text)) from error
    if stat.S_ISDIR(mode):
        raise Failure(COMMAND_FAILED, runtime_message(f'exec: "{name}": is a directory'))
    if not os.access(file, os.X_OK):
        raise Failure(COMMAND_FAILED, runtime_message(f'exec: "{name}": permission denied'))


def runtime_message(text: str) -> str:
    """Return a failure to start a command, in the words of Kubernetes' runtimes."""
    return f"unable to start container process: {text}"


def _words(error: OSError) -> str:
    """Return the text of a system error in the words of Go."""
    return (error.strerror or str(error)).lower()


def die_with(supervisor: int) -> None:
    """End when the supervisor does.

    Args:
        supervisor: process id of the supervisor, as seen by this process; 0 in a separate namespace.
    """
    linux.die_with_parent(signal.SIGKILL)
    if os.getppid() != supervisor:
        os._exit(128)


def run_plain(spec: Spec, supervisor: int, memory: int | None) -> NoReturn:
    """Run the command of a container without namespaces."""
    limit_resources(memory)
    execute_plain(spec, supervisor, spec.argv, tty=spec.tty)


def execute_plain(spec: Spec, supervisor: int, argv: Sequence[str], *, tty: bool) -> NoReturn:
    """Run a command like the processes of a container, without namespaces."""
    if spec.root is not None:
        _enter_root(spec.root)
    become(spec)
    die_with(supervisor)
    os.umask(0o022)
    enter_folder(spec.working_dir, make=False)
    if spec.no_new_privileges:
        linux.gain_no_privileges()
    execute(argv, {**environment_of(spec, tty=tty), MARK: mark(supervisor, spec.id)})


def spawn_plain(spec: Spec, supervisor: int, descriptors: Descriptors) -> int:
    """Start the command of a container without namespaces; return its process id."""
    folder, mask = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), os.umask(0o022)
    try:
        enter_folder(spec.working_dir, make=False)
        return spawn(spec.argv, {**environment_of(spec, tty=False), MARK: mark(supervisor, spec.id)}, descriptors)
    finally:
        os.fchdir(folder)
        os.close(folder)
        os.umask(mask)


def environment_of(spec: Spec, *, tty: bool) -> dict[str, str]:
    """Return the environment variables of a command in a container."""
    return {"TERM": "xterm", **spec.environment} if tty else spec.environment


def _enter_root(root: str) -> None:
    try:
        os.chroot(root)
    except OSError as error:
        raise Failure(SETUP_FAILED, f"cannot make {root} the root of the container: {error.strerror}") from error
