"""Programs of CEL: a tree made into nested functions, run within a bound on their cost.

Each step costs 1, and what goes over a text or a list costs by its size, much as Kubernetes counts. The cost is counted
as the program runs, and before anything large is made, so time and memory have the same bound.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from kilauea.api.cel.functions import COSTS, GLOBALS, METHODS, NAMESPACES, weight
from kilauea.api.cel.operators import OPERATORS, add, index_of, select_of
from kilauea.api.cel.syntax import Node, error_at, parse
from kilauea.api.cel.values import NAMED_TYPES, NONE, CelCostError, CelError, CelType, Optional, equal, size_of

COST_OF_CALL = 1_000_000
"""Cost that one expression may have, as in Kubernetes."""


class Frame:
    """Variables of a run, and the cost that is left."""

    __slots__ = ("left", "values")

    def __init__(self, values: dict[str, Any], left: int) -> None:
        self.values = values
        self.left = left

    def charge(self, cost: int) -> None:
        """Take a cost off what is left.

        Raises:
            CelCostError: so much is not left.
        """
        self.left -= cost
        if self.left < 0:
            raise CelCostError("operation cancelled: actual cost limit exceeded")


Step = Callable[[Frame], Any]


class Program:
    """A compiled expression."""

    def __init__(self, text: str, step: Step) -> None:
        self.text = text
        self._step = step

    def __call__(self, variables: Mapping[str, Any], limit: int = COST_OF_CALL) -> Any:
        """The value with these variables; raises CelError, and CelCostError beyond the limit."""
        return self.costed(variables, limit)[0]

    def costed(self, variables: Mapping[str, Any], limit: int = COST_OF_CALL) -> tuple[Any, int]:
        """The value with these variables, and what it cost; raises CelError, and CelCostError beyond the limit."""
        frame = Frame(dict(variables), limit)
        try:
            return self._step(frame), limit - frame.left
        except (*_FAILURES, RecursionError) as error:
            failure = _failure(error)
            failure.cost = limit - frame.left
            raise failure from error


_FAILURES = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError)
"""All that functions of expressions raise; CelError is a ValueError."""


def _failure(error: Exception) -> CelError:
    """An error in the words of the language."""
    if isinstance(error, CelError):
        return error
    if isinstance(error, OverflowError):
        return CelError("integer overflow")
    if isinstance(error, RecursionError):
        return CelError("expression nests too deep")
    return CelError(str(error) if error.__class__ is ValueError else "no such overload")


def compile_expression(text: str, variables: Collection[str] | None = None) -> Program:
    """The program of an expression; `variables` are those that there are, None if any name may be one.

    Raises:
        CelError: it is invalid.
    """
    try:
        return Program(text, _Compiler(text, variables).step(parse(text), frozenset()))
    except RecursionError as error:
        raise CelError("compilation failed: ERROR: <input>: expression recursion limit exceeded") from error


Names = frozenset[str]


class _Compiler:
    """Makes steps of nodes; `bound` are the variables of the macros around."""

    def __init__(self, text: str, variables: Collection[str] | None) -> None:
        self._text = text
        self._variables = variables

    def step(self, node: Node, bound: Names) -> Step:
        """The step of a node."""
        return getattr(self, f"_{node.kind}")(node, bound)  # type: ignore[no-any-return]  # all return a Step

    def _fail(self, node: Node, words: str) -> CelError:
        return error_at(self._text, node.at, words)

    def _literal(self, node: Node, _: Names) -> Step:
        value = node.value
        return lambda frame: value

    def _name(self, node: Node, bound: Names) -> Step:
        name = node.value
        if name in bound or (self._variables is None and name not in NAMED_TYPES) or name in (self._variables or ()):
            return partial(_variable, name)
        if name in NAMED_TYPES:
            value = NAMED_TYPES[name]
            return lambda frame: value
        raise self._fail(node, f"undeclared reference to '{name}' (in container '')")

    def _select(self, node: Node, bound: Names) -> Step:
        qualified = self._type_name(node, bound)
        if qualified is not None:
            return lambda frame: qualified
        target, field, optional = self.step(node.parts[0], bound), node.value, node.optional

        def select(frame: Frame) -> Any:
            frame.charge(1)
            return select_of(target(frame), field, optional=optional)

        return select

    def _type_name(self, node: Node, bound: Names) -> CelType | None:
        """The type that a dotted name stands for."""
        names = [node.value]
        root = node.parts[0]
        while root.kind == "select":
            names.append(root.value)
            root = root.parts[0]
        if root.kind != "name" or root.value in bound or root.value in (self._variables or ()):
            return None
        text = ".".join([root.value, *reversed(names)])
        return CelType(text) if text in _DOTTED_TYPES else None

    def _index(self, node: Node, bound: Names) -> Step:
        target, key = (self.step(part, bound) for part in node.parts)
        optional = node.optional

        def index(frame: Frame) -> Any:
            frame.charge(1)
            return index_of(target(frame), key(frame), optional=optional)

        return index

    def _list(self, node: Node, bound: Names) -> Step:
        steps = [(self.step(part, bound), number in node.optionals) for number, part in enumerate(node.parts)]

        def make(frame: Frame) -> list[Any]:
            frame.charge(10 + len(steps))
            made = []
            for step, optional in steps:
                value = step(frame)
                if not optional:
                    made.append(value)
                elif value.present:
                    made.append(value.value)
            return made

        return make

    def _map(self, node: Node, bound: Names) -> Step:
        pairs = [
            (self.step(node.parts[number], bound), self.step(node.parts[number + 1], bound), number in node.optionals)
            for number in range(0, len(node.parts), 2)
        ]

        def make(frame: Frame) -> dict[Any, Any]:
            frame.charge(30 + len(pairs))
            made: dict[Any, Any] = {}
            for key_step, step, optional in pairs:
                key, value = key_step(frame), step(frame)
                if key.__class__ not in (str, bool) and not isinstance(key, int):
                    raise CelError("unsupported key type")
                if optional and not value.present:
                    continue
                if key in made:
                    raise CelError(f"Failed with repeated key: {key}")
                made[key] = value.value if optional else value
            return made

        return make

    # --- calls

    def _call(self, node: Node, bound: Names) -> Step:
        if node.value in _LOGIC and not node.member:
            return _LOGIC[node.value](*(self.step(part, bound) for part in node.parts))
        if node.value in OPERATORS and not node.member:
            return _operator(node.value, *(self.step(part, bound) for part in node.parts))
        if node.value == "has" and not node.member:
            return self._has(node, bound)
        if node.member:
            return self._member(node, bound)
        return self._function(node, node.value, GLOBALS, node.parts, bound)

    def _member(self, node: Node, bound: Names) -> Step:
        target, *args = node.parts
        if target.kind == "name" and target.value not in bound:
            name = f"{target.value}.{node.value}"
            if name == "cel.bind":
                return self._bind(node, args, bound)
            if name in NAMESPACES and target.value not in (self._variables or ()):
                return self._function(node, name, NAMESPACES, tuple(args), bound)
        if node.value in _MACROS:
            return self._macro(node, args, bound)
        if node.value in ("optMap", "optFlatMap") and len(args) == 2:
            return self._opt_map(node, args, bound)
        if node.value in ("orValue", "or") and len(args) == 1:
            return _or_value(node.value, self.step(target, bound), self.step(args[0], bound))
        return self._function(node, node.value, METHODS, node.parts, bound)

    def _function(
        self, node: Node, name: str, known: Mapping[str, Callable[..., Any]], parts: tuple[Node, ...], bound: Names
    ) -> Step:
        function = known.get(name)
        if function is None:
            raise self._fail(node, f"undeclared reference to '{name}' (in container '')")
        steps = [self.step(part, bound) for part in parts]
        if not _takes(function, len(steps)):
            raise self._fail(node, f"found no matching overload for '{name}' applied to {len(steps)} arguments")
        cost: Callable[..., int] = COSTS.get(name, _plain_cost)

        def call(frame: Frame) -> Any:
            values = [step(frame) for step in steps]
            frame.charge(1 + cost(frame.left, *values))
            return function(*values)

        return call

    def _has(self, node: Node, bound: Names) -> Step:
        if len(node.parts) != 1 or node.parts[0].kind != "select":
            raise self._fail(node, "invalid argument to has() macro")
        field = node.parts[0]
        target, name = self.step(field.parts[0], bound), field.value

        def has(frame: Frame) -> bool:
            frame.charge(1)
            value = target(frame)
            if value.__class__ is Optional:
                value = value.value if value.present else {}
            if value.__class__ is not dict:
                raise CelError("no such overload")
            return name in value

        return has

    # --- macros

    def _variable_name(self, node: Node) -> str:
        if node.kind != "name":
            raise self._fail(node, "argument must be a simple name")
        return str(node.value)

    def _bind(self, node: Node, args: list[Node], bound: Names) -> Step:
        if len(args) != 3:
            raise self._fail(node, "cel.bind takes a name, a value and an expression")
        name = self._variable_name(args[0])
        value, body = self.step(args[1], bound), self.step(args[2], bound | {name})

        def bind(frame: Frame) -> Any:
            frame.charge(10)
            return _with(frame, {name: value(frame)}, body)

        return bind

    def _opt_map(self, node: Node, args: list[Node], bound: Names) -> Step:
        name = self._variable_name(args[0])
        target, body = self.step(node.parts[0], bound), self.step(args[1], bound | {name})
        flat = node.value == "optFlatMap"

        def opt_map(frame: Frame) -> Any:
            frame.charge(1)
            found = _optional(target(frame))
            if not found.present:
                return NONE
            made = _with(frame, {name: found.value}, body)
            return _optional(made) if flat else Optional(made, True)

        return opt_map

    def _macro(self, node: Node, args: list[Node], bound: Names) -> Step:
        """A loop over a list or a map: its variables, a condition if there is one, and what it makes of each."""
        macro = node.value
        two = (len(args) == 3 and macro != "map") or macro.startswith("transform")
        if len(args) != 2 + two and not (macro in _FILTERED and len(args) == 3 + two):
            raise self._fail(node, f"found no matching overload for '{macro}' applied to {len(args)} arguments")
        if (two and macro in ("map", "filter", "sortBy")) or (not two and macro in _TWO_ONLY):
            raise self._fail(node, f"found no matching overload for '{macro}' applied to {len(args)} arguments")
        names = tuple(self._variable_name(arg) for arg in args[: 1 + two])
        if len(set(names)) < len(names):
            raise self._fail(args[1], f"iteration variables must have different names: {names[0]}")
        inner = bound | set(names)
        bodies = [self.step(arg, inner) for arg in args[1 + two :]]
        where = bodies[0] if len(bodies) == 2 else None
        loop, target, body = _MACROS[macro], self.step(node.parts[0], bound), bodies[-1]

        def run(frame: Frame) -> Any:
            frame.charge(1)
            over = target(frame)
            if over.__class__ is not list and over.__class__ is not dict:
                raise CelError("no such overload")
            values = frame.values
            before = {name: values.get(name, _UNSET) for name in names}
            try:
                return loop(_Loop(frame, names, over, where, body))
            finally:
                _restore(values, before)

        return run


class _Loop:
    """A loop at work: goes over elements with the variables set, those that the condition lets pass."""

    def __init__(self, frame: Frame, names: tuple[str, ...], over: Any, where: Step | None, body: Step) -> None:
        self.frame, self._names, self.over, self._where, self._body = frame, names, over, where, body

    def _elements(self) -> Iterator[tuple[Any, Any]]:
        """Each key or index with its element, while the variables are set."""
        charge, values, over = self.frame.charge, self.frame.values, self.over
        first, *second = self._names
        is_map = over.__class__ is dict
        for key, value in over.items() if is_map else enumerate(over):
            charge(1)
            values[first] = key if is_map or second else value
            if second:
                values[second[0]] = value
            yield key, value

    def __iter__(self) -> Iterator[tuple[Any, Any, Any]]:
        """Each key or index, the element, and the value of the body for it."""
        for key, value in self._elements():
            if self._where is None or self._where(self.frame) is True:
                yield key, value, self._body(self.frame)

    def answers(self) -> Iterator[Any]:
        """The answer of the body for each element, and the error in place of one."""
        for _ in self._elements():
            yield _caught(self._body, self.frame)


_UNSET = object()
_DOTTED_TYPES = frozenset(
    "google.protobuf.Timestamp google.protobuf.Duration net.IP net.CIDR kubernetes.Quantity kubernetes.URL "
    "kubernetes.Semver".split()
)


def _restore(values: dict[str, Any], before: Mapping[str, Any]) -> None:
    for name, value in before.items():
        if value is _UNSET:
            values.pop(name, None)
        else:
            values[name] = value


def _with(frame: Frame, more: Mapping[str, Any], body: Step) -> Any:
    """The value of the body with more variables."""
    before = {name: frame.values.get(name, _UNSET) for name in more}
    frame.values.update(more)
    try:
        return body(frame)
    finally:
        _restore(frame.values, before)


def _variable(name: str, frame: Frame) -> Any:
    frame.left -= 1
    try:
        return frame.values[name]
    except KeyError:
        raise CelError(f"no such attribute(s): {name}") from None


def _plain_cost(_: int, *values: Any) -> int:
    """A tenth of each text, and each element of each list."""
    cost = 0
    for value in values:
        kind = value.__class__
        if kind is str or kind is bytes:
            cost += len(value) // 10
        elif kind is list or kind is dict:
            cost += len(value)
    return cost


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Return True if a function takes so many arguments."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & 0x04:
        return True
    return bool(code.co_argcount - len(function.__defaults__ or ()) <= count <= code.co_argcount)


def _optional(value: Any) -> Optional:
    if value.__class__ is not Optional:
        raise CelError("no such overload")
    return value


def _or_value(name: str, target: Step, other: Step) -> Step:
    """`a.orValue(b)` and `a.or(b)`: the other is evaluated only if it is needed."""

    def run(frame: Frame) -> Any:
        frame.charge(1)
        found = _optional(target(frame))
        if found.present:
            return found.value if name == "orValue" else found
        return other(frame)

    return run


# --- operators


def _operator(name: str, *steps: Step) -> Step:
    """The step of an operator."""
    if len(steps) == 1:
        (only,), unary = steps, OPERATORS[name]

        def one(frame: Frame) -> Any:
            frame.charge(1)
            return unary(only(frame))

        return one
    left_step, right_step = steps
    if name in ("==", "!="):
        wanted = name == "=="

        def compared(frame: Frame) -> bool:
            left, right = left_step(frame), right_step(frame)
            frame.charge(1 + (weight(frame.left, left) if _is_sized(left) else 0))
            return equal(left, right) is wanted

        return compared
    if name == "in":

        def contained(frame: Frame) -> bool:
            left, right = left_step(frame), right_step(frame)
            if right.__class__ is dict:
                frame.charge(1)
                return bool(left in right)
            if right.__class__ is not list:
                raise CelError("no such overload")
            frame.charge(1 + (weight(frame.left, right) if _is_sized(left) else len(right)))
            return any(equal(left, each) for each in right)

        return contained
    function = OPERATORS[name]
    if name == "+":

        def added(frame: Frame) -> Any:
            left, right = left_step(frame), right_step(frame)
            frame.charge(1 + ((size_of(left) + size_of(right)) // 10 if _is_sized(left) else 0))
            return add(left, right)

        return added

    def two(frame: Frame) -> Any:
        frame.charge(1)
        return function(left_step(frame), right_step(frame))

    return two


_SIZED = frozenset({str, bytes, list, dict})


def _is_sized(value: Any) -> bool:
    return value.__class__ in _SIZED


def _caught(step: Step, frame: Frame) -> Any:
    """A bool, or the error in its place; a cost that is exceeded ends all."""
    try:
        value = step(frame)
    except CelCostError:
        raise
    except _FAILURES as error:
        return _failure(error)
    return value if value is True or value is False else CelError("no such overload")


def _decided(answers: Iterable[Any], decisive: bool) -> bool:
    """`decisive` if any answer is, whatever errors there are; the first error if there is one."""
    failed: Any = None
    for answer in answers:
        if answer is decisive:
            return bool(decisive)
        if failed is None and answer.__class__ is not bool:
            failed = answer
    if failed is not None:
        raise failed
    return decisive is False


def _any_of(decisive: bool, *steps: Step) -> Step:
    def run(frame: Frame) -> bool:
        frame.left -= 1
        return _decided((_caught(step, frame) for step in steps), decisive)

    return run


def _choice(condition: Step, then: Step, otherwise: Step) -> Step:
    def choose(frame: Frame) -> Any:
        frame.charge(1)
        holds = condition(frame)
        if holds is True:
            return then(frame)
        if holds is False:
            return otherwise(frame)
        raise CelError("no such overload")

    return choose


_LOGIC: Mapping[str, Callable[..., Step]] = {
    "&&": partial(_any_of, False),
    "||": partial(_any_of, True),
    "?:": _choice,
}


# --- loops


def _one(loop: _Loop) -> bool:
    return sum(_true(answer) for _, _, answer in loop) == 1


def _true(answer: Any) -> bool:
    if answer.__class__ is not bool:
        raise CelError("no such overload")
    return bool(answer)


def _filter(loop: _Loop) -> list[Any]:
    is_map = loop.over.__class__ is dict
    return [key if is_map else value for key, value, answer in loop if _true(answer)]


def _entries(loop: _Loop) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    for _, _, entry in loop:
        for key, value in entry.items():
            if key in made:
                raise CelError(f"insert failed: key {key} already exists")
            made[key] = value
    return made


def _sorted_by(loop: _Loop) -> list[Any]:
    keyed = [(answer, value) for _, value, answer in loop]
    if len({each[0].__class__ for each in keyed}) > 1:
        raise CelError("no such overload")
    return [value for _, value in sorted(keyed, key=lambda each: each[0])]


_MACROS: Mapping[str, Callable[[_Loop], Any]] = {
    "all": lambda loop: _decided(loop.answers(), False),
    "exists": lambda loop: _decided(loop.answers(), True),
    "exists_one": _one,
    "existsOne": _one,
    "filter": _filter,
    "map": lambda loop: [made for _, _, made in loop],
    "sortBy": _sorted_by,
    "transformList": lambda loop: [made for _, _, made in loop],
    "transformMap": lambda loop: {key: made for key, _, made in loop},
    "transformMapEntry": _entries,
}
_FILTERED = frozenset({"map", "transformList", "transformMap", "transformMapEntry"})
_TWO_ONLY = frozenset({"transformList", "transformMap", "transformMapEntry"})
