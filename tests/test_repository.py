"""Tests on the repository itself: sizes, docstrings, pinned requirements, and words that do not belong in it.

They look at the working tree: files that git tracks, and new ones that it does not ignore.
"""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PLUGINS = "src/kilauea/engine/plugins/"
MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 80
PLUGIN_HEADINGS = ["What", "Why", "Arguments", "Example", "Difference from the original"]

# Written in pieces, so that this file does not hold the words that it looks for.
PACKAGE_HOSTS = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("anaconda", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("crates", "io"),
        ("rubygems", "org"),
        ("proxy.golang", "org"),
        ("sum.golang", "org"),
        ("maven", "org"),
    )
]
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(work/|tmp/v/|opt/" + "wheels" + r"|root/\.pyenv)")
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b")
REQUIREMENT_OPTIONS = ("--index-url", "--extra-index-url", "--trusted-host", "--find-links", "-i ", "-f ")

LOWEST = "requirements/lowest.txt"
"""Versions without hashes: `make test-matrix` tests with them, and nothing is shipped with them."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def repository_files() -> tuple[str, ...]:
    """Paths, relative to the root, of all files that are or would be tracked and exist."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return tuple(sorted(path for path in set(listing.split("\0")) if path and (ROOT / path).is_file()))


def text_of(path: str) -> str | None:
    """The text of a file, or None for a binary one."""
    content = (ROOT / path).read_bytes()
    try:
        return None if b"\0" in content else content.decode()
    except UnicodeDecodeError:
        return None


def lines_with(is_in: Callable[[str], object], folder: str = "") -> list[str]:
    """`path:line number` of the lines of text files in which something is that never spans lines."""
    texts = ((path, text_of(path) or "") for path in repository_files() if path.startswith(folder))
    lines = ((path, enumerate(text.splitlines(), start=1)) for path, text in texts if is_in(text))
    return [f"{path}:{number}" for path, numbered in lines for number, line in numbered if is_in(line)]


def source_files() -> list[str]:
    """All Python files under src."""
    return [path for path in repository_files() if path.startswith("src/") and path.endswith(".py")]


class Outline(NamedTuple):
    """The docstring of a module, and the lines of each of its functions, by line number and name."""

    docstring: str
    functions: dict[str, int]


@cache
def outline(path: str) -> Outline:
    """What a source file consists of."""
    tree = ast.parse((ROOT / path).read_bytes(), filename=path)
    functions = [node for node in ast.walk(tree) if isinstance(node, FunctionNode)]
    lengths = {f"{each.lineno} {each.name}": (each.end_lineno or each.lineno) - each.lineno + 1 for each in functions}
    return Outline(ast.get_docstring(tree) or "", lengths)


def is_plugin(path: str) -> bool:
    """Whether a file is a plugin: `NAME.py` or `NAME/__init__.py` in the plugins folder."""
    if not path.startswith(PLUGINS):
        return False
    parts = path.removeprefix(PLUGINS).removesuffix(".py").split("/")
    return parts[0] != "__init__" and parts[1:] in ([], ["__init__"])


def plugin_sections(docstring: str) -> list[tuple[str, str]]:
    """The headings `Heading:` at the margin that are among the five, each with the text below it."""
    sections: list[tuple[str, list[str]]] = []
    for line in docstring.splitlines():
        if line.endswith(":") and line[:-1] in PLUGIN_HEADINGS:
            sections.append((line[:-1], []))
        elif sections:
            sections[-1][1].append(line)
    return [(heading, "\n".join(lines).strip()) for heading, lines in sections]


def plugin_fault(docstring: str) -> str | None:
    """What is wrong with the sections of a plugin's docstring."""
    sections = plugin_sections(docstring)
    headings = [heading for heading, _ in sections]
    if headings != PLUGIN_HEADINGS:
        return f"headings are {headings}, expected {PLUGIN_HEADINGS}, each on its own line with a colon"
    empty = [heading for heading, text in sections if not text]
    return f"nothing stands under {empty}" if empty else None


def requirement_files() -> list[str]:
    """The files in requirements/."""
    return [path for path in repository_files() if path.startswith("requirements/")]


def requirements_in(path: str) -> list[str]:
    """The requirements of a file, each joined to one line, without comments and options."""
    text = (text_of(path) or "").replace("\\\n", " ")
    lines = [re.sub(r"(^|\s)#.*", "", line).strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("-")]


def test_no_file_names_a_package_host() -> None:
    """Where packages come from is the business of the machine that installs them."""

    def is_host_in(text: str) -> bool:
        lower = text.lower()
        return any(host in lower for host in PACKAGE_HOSTS)

    assert lines_with(is_host_in) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    assert lines_with(MACHINE_PATH.search) == []


def test_source_has_no_unfinished_marks() -> None:
    assert lines_with(UNFINISHED.search, "src/") == []


@pytest.mark.slow
def test_every_module_has_a_docstring() -> None:
    assert [path for path in source_files() if not outline(path).docstring] == []


def test_no_source_file_is_too_long() -> None:
    lengths = {path: len((text_of(path) or "").splitlines()) for path in source_files()}
    assert {path: length for path, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_no_function_is_too_long() -> None:
    lengths = {f"{path}:{at}": length for path in source_files() for at, length in outline(path).functions.items()}
    assert {at: length for at, length in lengths.items() if length > MAX_FUNCTION_LINES} == {}


def test_every_plugin_docstring_has_the_five_sections() -> None:
    """The documentation page of a plugin is built from them."""
    docstrings = {path: outline(path).docstring for path in source_files() if is_plugin(path)}
    faults = {path: plugin_fault(docstring) for path, docstring in docstrings.items()}
    assert {path: fault for path, fault in faults.items() if fault} == {}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/kilauea/engine/plugins/gang.py", True),
        ("src/kilauea/engine/plugins/predicates/__init__.py", True),
        ("src/kilauea/engine/plugins/predicates/taints.py", False),
        ("src/kilauea/engine/plugins/__init__.py", False),
        ("src/kilauea/engine/plugin.py", False),
    ],
)
def test_which_files_are_plugins(path: str, expected: bool) -> None:
    assert is_plugin(path) is expected


def test_plugin_sections_are_checked_for_presence_order_and_content() -> None:
    complete = "Summary.\n\n" + "\n\n".join(f"{heading}:\n    text" for heading in PLUGIN_HEADINGS)
    assert plugin_fault(complete) is None
    assert plugin_fault(complete.replace("Why:", "Because:")) is not None
    swapped = complete.replace("What:", "Swap:").replace("Why:", "What:").replace("Swap:", "Why:")
    assert plugin_fault(swapped) is not None
    assert plugin_fault(complete.removesuffix("text")) == "nothing stands under ['Difference from the original']"


def test_pinned_requirements_have_versions_and_hashes() -> None:
    pinned = [path for path in requirement_files() if path.endswith(".txt") and path != LOWEST]
    clients = [f"requirements/clients-{each}.txt" for each in ("29", "33", "newest")]
    between = [f"requirements/between-{each}.txt" for each in (30, 31, 32, 34, 35)]
    assert pinned == [
        *between,
        *clients,
        "requirements/dev.txt",
        "requirements/runtime.txt",
        "requirements/tracing.txt",
    ]
    one_pin = re.compile(r"[a-z0-9][a-z0-9.-]*(\[[a-z0-9,-]+\])?==[^\s;]+( ;[^-]+)?(\s+--hash=sha256:[0-9a-f]{64})+")
    for path in pinned:
        assert requirements_in(path)
        assert [line for line in requirements_in(path) if not one_pin.fullmatch(line)] == []


def test_pins_name_the_extras_that_others_need() -> None:
    """Without them, pip before 23.3 takes the newest version with the extra, for which there is no hash."""
    lines = (line for dist in importlib.metadata.distributions() for line in dist.requires or ())
    needed = [re.match(r"([\w.-]+)(\[[^]]+\])", line) for line in lines if "extra ==" not in line]
    wanted = {found[1].lower() + found[2] for found in needed if found}
    assert wanted
    assert wanted <= {line.partition("==")[0] for line in requirements_in("requirements/dev.txt")}


def test_pins_are_for_every_python_3_11() -> None:
    """Debian 12 has Python 3.11.2, so a pin for 3.11.5 and newer cannot be installed there."""
    pins = {re.split(r"==|\[", line)[0] for line in requirements_in("requirements/dev.txt")}
    installed = [each for each in importlib.metadata.distributions() if canonicalize_name(each.name) in pins]
    assert len(installed) > len(pins) / 2
    needs = {each.name: each.metadata["Requires-Python"] or "" for each in installed}
    assert {name: need for name, need in needs.items() if "3.11.0" not in SpecifierSet(need)} == {}


def test_requirement_files_hold_no_addresses() -> None:
    for path in requirement_files():
        text = text_of(path) or ""
        assert "://" not in text
        assert [line for line in text.splitlines() if line.startswith(REQUIREMENT_OPTIONS)] == []


def test_requirements_agree_with_the_package_metadata() -> None:
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert requirements_in("requirements/runtime.in") == metadata["project"]["dependencies"]
    assert requirements_in("requirements/tracing.in") == metadata["project"]["optional-dependencies"]["tracing"]
    assert set(requirements_in("requirements/runtime.txt")) <= set(requirements_in("requirements/dev.txt"))


def test_the_lowest_requirements_are_the_bounds_of_the_package_metadata() -> None:
    """`>=1.26` is tested with 1.26.0: the version that begins with the bound, and else has zeros only."""
    bounds = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    pins = dict(line.split("==") for line in requirements_in(LOWEST))
    assert list(pins) == [bound.split(">=")[0] for bound in bounds]
    wrong = {line for line in bounds for name, _, bound in [line.partition(">=")] if not is_first(pins[name], bound)}
    assert wrong == set()


def is_first(version: str, bound: str) -> bool:
    """True if a version is the bound itself, with zeros added."""
    return re.fullmatch(rf"{re.escape(bound)}(\.0)*", version) is not None


@pytest.mark.parametrize(("version", "expected"), [("1.26.0", True), ("1.26", True), ("1.26.1", False), ("1.2", False)])
def test_the_first_version_of_a_bound(version: str, expected: bool) -> None:
    assert is_first(version, "1.26") is expected


def test_hooks_run_the_tools_of_the_environment_and_fetch_nothing() -> None:
    """Each is the command of a program that `make install` brings."""
    text = text_of(".pre-commit-config.yaml") or ""
    repositories = yaml.safe_load(text)["repos"]
    assert [each["repo"] for each in repositories] == ["local"]
    hooks = repositories[0]["hooks"]
    assert {hook["language"] for hook in hooks} == {"system"}
    programs = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in hooks}
    assert {name for name in programs if not (Path(sys.executable).parent / name).exists()} == set()
