"""The history that commands read: from the cluster of a kubeconfig, or from a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kilauea.cli.inputs import Failure, Usage

if TYPE_CHECKING:
    from kilauea.cli.vcctl.cluster import Cluster
    from kilauea.history.answers import JobAnswer, JobsAnswer, UsageAnswer
    from kilauea.history.store import History

Command = TypeVar("Command", bound=Callable[..., Any])
T = TypeVar("T")
ABSENT = (
    "the cluster serves no history: only `kilauea up` does. For any other cluster, start the scheduler with "
    "--history DIR and pass --data DIR to this command"
)


def source_options(command: Command) -> Command:
    """Options that select the history and the namespace."""
    command = click.option("-k", "--kubeconfig", default="", metavar="FILE", help="Access to the cluster.")(command)
    command = click.option(
        "--data",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Read the history in this folder, or in that of a cluster, instead of asking the cluster.",
    )(command)
    command = click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces.")(command)
    return click.option(
        "-n", "--namespace", default="", metavar="NS", help="Namespace. [default: that of the kubeconfig]"
    )(command)


class Source:
    """A history to read.

    Args:
        kubeconfig: file given by the user; empty for the default.
        data: folder with a history, or of a cluster; None for that of the cluster.
        namespace: namespace given by the user; empty for that of the kubeconfig.
        all_namespaces: True to read all namespaces.
    """

    def __init__(self, kubeconfig: str, data: Path | None, namespace: str, all_namespaces: bool) -> None:
        from kilauea.cli.vcctl.cluster import Cluster

        self._data = data
        self._cluster = Cluster(kubeconfig, agent="kilauea-history")
        self._named = namespace
        self._all = all_namespaces

    @property
    def namespace(self) -> str:
        """The namespace to read; empty for all.

        Raises:
            Usage: there is no kubeconfig.
        """
        from kilauea.client.access import AccessError

        if self._all:
            return ""
        if self._named or self._data is not None:
            return self._named or "default"
        try:
            return self._cluster.access().namespace or "default"
        except AccessError as error:
            raise Usage(f"{error}; or give the folder of a history with --data") from error

    def jobs(self, query: Mapping[str, str]) -> JobsAnswer:
        """Jobs.

        Raises:
            Usage: a parameter is invalid.
            Failure: the history cannot be read.
        """
        import msgspec

        from kilauea.history import answers

        if self._data is not None:
            return self._local(lambda history: answers.jobs_answer(history, self.namespace, query))
        return msgspec.json.decode(self._ask(answers.JOBS, "", query), type=answers.JobsAnswer)

    def job(self, name: str, query: Mapping[str, str]) -> JobAnswer | None:
        """A job with its pods and events; None if it does not exist.

        Raises:
            Failure: the history cannot be read.
        """
        import msgspec

        from kilauea.history import answers

        if self._data is not None:
            return self._local(lambda history: answers.job_answer(history, self.namespace, name, query))
        body = self._ask(answers.JOBS, name, query, may_lack=True)
        return msgspec.json.decode(body, type=answers.JobAnswer) if body else None

    def usage(self, query: Mapping[str, str]) -> UsageAnswer:
        """The usage.

        Raises:
            Failure: the history cannot be read.
        """
        import msgspec

        from kilauea.cli.vcctl.cluster import now
        from kilauea.history import answers

        if self._data is not None:
            return self._local(lambda history: answers.usage_answer(history, self.namespace, query, now()))
        return msgspec.json.decode(self._ask(answers.USAGE, "", query), type=answers.UsageAnswer)

    def lines(self) -> Iterator[bytes]:
        """All records in the format of an export, in chunks.

        Raises:
            Failure: the history cannot be read.
        """
        from kilauea.cli.vcctl.cluster import now
        from kilauea.history import answers

        if self._data is None:
            yield self._ask(answers.RECORDS, "", {})
            return
        with_history = _opened(self._data)
        try:
            yield from answers.records_answer(with_history, self.namespace, {}, now())
        finally:
            with_history.close()

    def _local(self, work: Callable[[History], T]) -> T:
        from kilauea.history.answers import BadQuestion
        from kilauea.history.errors import HistoryError

        assert self._data is not None
        history = _opened(self._data)
        try:
            return work(history)
        except BadQuestion as error:
            raise Usage(str(error)) from error
        except HistoryError as error:
            raise Failure(str(error)) from error
        finally:
            history.close()

    def _ask(self, plural: str, name: str, query: Mapping[str, str], *, may_lack: bool = False) -> bytes:
        """The body of the cluster's response; empty if the object is optional and does not exist.

        Raises:
            Usage: the cluster or a parameter is invalid.
            Failure: the cluster rejects the request.
        """
        import asyncio

        from kilauea.api.ports import ApiError
        from kilauea.cli.api_errors import unread_cluster
        from kilauea.client.access import AccessError

        try:
            return asyncio.run(ask(self._cluster, plural, self.namespace, name, query))
        except AccessError as error:
            raise Usage(f"{error}; or give the folder of a history with --data") from error
        except ApiError as error:
            if error.code == 404 and error.reason == "NotFound" and error.details and may_lack:
                return b""
            if error.code == 404:
                raise Failure(ABSENT) from error
            raise (Usage(str(error)) if error.code == 400 else Failure(unread_cluster(error))) from error


async def ask(cluster: Cluster, plural: str, namespace: str, name: str, query: Mapping[str, str]) -> bytes:
    """The body of a cluster's response about its history.

    Raises:
        AccessError: there is no usable description of the cluster.
        ApiError: it rejects the request; code 404 without details means that it does not serve a history.
    """
    from urllib.parse import quote, urlencode

    from kilauea.client.blocking import BlockingTransport
    from kilauea.client.transport import refusal
    from kilauea.history.answers import GROUP, RECORDS, VERSION

    where = f"namespaces/{quote(namespace, safe='')}/" if namespace else ""
    path = f"/apis/{GROUP}/{VERSION}/{where}{plural}{f'/{quote(name, safe=str())}' if name else ''}"
    target = f"{path}?{urlencode(query)}" if query else path
    accept = "application/x-ndjson,application/json" if plural == RECORDS else "application/json"
    headers = {"accept": accept, "user-agent": cluster.agent}
    async with BlockingTransport(cluster.access()) as transport:
        answer = await transport.request("GET", target, headers, b"")
    if answer.status != 200:
        raise refusal(answer)
    return answer.body


def _opened(folder: Path) -> History:
    """The history in a folder, or in that of a cluster.

    Raises:
        Failure: it does not exist, or cannot be read.
    """
    from kilauea.history.datafile import NAME
    from kilauea.history.errors import HistoryError
    from kilauea.history.store import History

    inner = folder / "history"
    try:
        return History.read(inner if (inner / NAME).is_file() else folder)
    except HistoryError as error:
        raise Failure(str(error)) from error
