"""Programs of CEL: a tree compiled to nested functions, evaluated within a cost limit.

Each step costs 1, and operations on strings and lists cost by their size, similar to Kubernetes. The cost is counted
during the evaluation and before large values are created, so it bounds both time and memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from kilauea.api.cel.authorization import COST_OF_CHECK
from kilauea.api.cel.frames import FAILURES, Frame, Step, as_optional, failure_of, with_variables
from kilauea.api.cel.functions import COSTS, GLOBALS, METHODS, NAMESPACES
from kilauea.api.cel.loops import FILTERED, MACROS, TWO_ONLY, Loop
from kilauea.api.cel.operators import OPERATORS, index_of, select_of
from kilauea.api.cel.steps import LOGIC, operator_step, or_value_step
from kilauea.api.cel.syntax import Node, error_at, parse
from kilauea.api.cel.values import NAMED_TYPES, NONE, CelError, CelType, Optional

COST_OF_CALL = 1_000_000
"""Maximum cost of one expression, as in Kubernetes."""


class Program:
    """A compiled expression."""

    def __init__(self, text: str, step: Step) -> None:
        self.text = text
        self._step = step

    def __call__(self, variables: Mapping[str, Any], limit: int = COST_OF_CALL) -> Any:
        """Return the value with these variables; raises CelError, and CelCostError beyond the limit."""
        return self.costed(variables, limit)[0]

    def costed(self, variables: Mapping[str, Any], limit: int = COST_OF_CALL, for_checks: int = 0) -> tuple[Any, int]:
        """Return the value with these variables, and its cost; raises CelError, and CelCostError beyond the limit.

        Args:
            variables: the variables by name.
            limit: the maximum cost.
            for_checks: the part of it that is reserved for authorizer checks, which take no time here.
        """
        frame = Frame(dict(variables), limit - for_checks, for_checks)
        try:
            return self._step(frame), limit - frame.left - frame.for_checks
        except CelError as error:
            error.cost = limit - frame.left - frame.for_checks
            raise
        except (*FAILURES, RecursionError) as error:
            raise _with_cost(failure_of(error), limit - frame.left - frame.for_checks) from error


def _with_cost(failure: CelError, cost: int) -> CelError:
    failure.cost = cost
    return failure


def compile_expression(text: str, variables: Collection[str] | None = None) -> Program:
    """Compile an expression; `variables` are the existing ones, None if any name is allowed.

    Raises:
        CelError: it is invalid.
    """
    try:
        return Program(text, _Compiler(text, variables).step(parse(text), frozenset()))
    except RecursionError as error:
        raise CelError("compilation failed: ERROR: <input>: expression recursion limit exceeded") from error


Names = frozenset[str]


class _Compiler:
    """Compiles nodes to steps; `bound` are the variables of enclosing macros."""

    def __init__(self, text: str, variables: Collection[str] | None) -> None:
        self._text = text
        self._variables = variables

    def step(self, node: Node, bound: Names) -> Step:
        """Return the step of a node."""
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
        variable = self._dotted_variable(node, bound)
        if variable:
            return partial(_variable, variable)
        qualified = self._type_name(node, bound)
        if qualified is not None:
            return lambda frame: qualified
        target, field, optional = self.step(node.parts[0], bound), node.value, node.optional

        def select(frame: Frame) -> Any:
            frame.charge(1)
            return select_of(target(frame), field, optional=optional)

        return select

    def _dotted_variable(self, node: Node, bound: Names) -> str:
        """Return the variable of a dotted name; empty if it is not one."""
        root = node.parts[0]
        if root.kind != "name" or root.value in bound or node.optional:
            return ""
        name = f"{root.value}.{node.value}"
        return name if name in DOTTED_VARIABLES and (self._variables is None or name in self._variables) else ""

    def _type_name(self, node: Node, bound: Names) -> CelType | None:
        """Return the type of a dotted name."""
        names = [node.value]
        root = node.parts[0]
        while root.kind == "select":
            names.append(root.value)
            root = root.parts[0]
        if root.kind != "name" or root.value in bound or root.value in (self._variables or ()):
            return None
        text = ".".join([root.value, *reversed(names)])
        return CelType(text) if text in NAMED_DOTTED_TYPES else None

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
        if node.value in LOGIC and not node.member:
            return LOGIC[node.value](*(self.step(part, bound) for part in node.parts))
        if node.value in OPERATORS and not node.member:
            return operator_step(node.value, *(self.step(part, bound) for part in node.parts))
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
        if node.value in MACROS:
            return self._macro(node, args, bound)
        if node.value in ("optMap", "optFlatMap") and len(args) == 2:
            return self._opt_map(node, args, bound)
        if node.value in ("orValue", "or") and len(args) == 1:
            return or_value_step(node.value, self.step(target, bound), self.step(args[0], bound))
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
        if name == "check" and known is METHODS:
            return partial(_checked, function, steps)

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
            if value.__class__ is list:
                raise CelError("no such overload")
            return value.__class__ is dict and name in value

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
            return with_variables(frame, {name: value(frame)}, body)

        return bind

    def _opt_map(self, node: Node, args: list[Node], bound: Names) -> Step:
        name = self._variable_name(args[0])
        target, body = self.step(node.parts[0], bound), self.step(args[1], bound | {name})
        flat = node.value == "optFlatMap"

        def opt_map(frame: Frame) -> Any:
            frame.charge(1)
            found = as_optional(target(frame))
            if not found.present:
                return NONE
            made = with_variables(frame, {name: found.value}, body)
            return as_optional(made) if flat else Optional(made, True)

        return opt_map

    def _macro(self, node: Node, args: list[Node], bound: Names) -> Step:
        """Return a loop over a list or a map, with variables, an optional condition, and a body."""
        macro = node.value
        two = (len(args) == 3 and macro != "map") or macro.startswith("transform")
        if len(args) != 2 + two and not (macro in FILTERED and len(args) == 3 + two):
            raise self._fail(node, f"found no matching overload for '{macro}' applied to {len(args)} arguments")
        if (two and macro in ("map", "filter", "sortBy")) or (not two and macro in TWO_ONLY):
            raise self._fail(node, f"found no matching overload for '{macro}' applied to {len(args)} arguments")
        names = tuple(self._variable_name(arg) for arg in args[: 1 + two])
        if len(set(names)) < len(names):
            raise self._fail(args[1], f"iteration variables must have different names: {names[0]}")
        inner = bound | set(names)
        bodies = [self.step(arg, inner) for arg in args[1 + two :]]
        where = bodies[0] if len(bodies) == 2 else None
        loop, target, body = MACROS[macro], self.step(node.parts[0], bound), bodies[-1]

        def run(frame: Frame) -> Any:
            frame.charge(1)
            over = target(frame)
            if over.__class__ is not list and over.__class__ is not dict:
                raise CelError("no such overload")
            return with_variables(
                frame, dict.fromkeys(names), lambda inner: loop(Loop(inner, names, over, where, body))
            )

        return run


DOTTED_VARIABLES = frozenset({"authorizer.requestResource"})
"""Variables with a dot in their names, which look like fields."""
NAMED_DOTTED_TYPES = frozenset(
    "google.protobuf.Timestamp google.protobuf.Duration net.IP net.CIDR kubernetes.Quantity kubernetes.URL "
    "kubernetes.Semver".split()
)


def _plain_cost(_: int, *values: Any) -> int:
    """Return a tenth of the length of each string, plus the length of each list."""
    cost = 0
    for value in values:
        kind = value.__class__
        if kind is str or kind is bytes:
            cost += len(value) // 10
        elif kind is list or kind is dict:
            cost += len(value)
    return cost


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Return True if a function takes this many arguments."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & 0x04:
        return True
    return bool(code.co_argcount - len(function.__defaults__ or ()) <= count <= code.co_argcount)


def _checked(function: Callable[..., Any], steps: list[Step], frame: Frame) -> Any:
    """Return the decision of the authorizer."""
    values = [step(frame) for step in steps]
    frame.charge_check(1 + COST_OF_CHECK)
    return function(*values)


def _variable(name: str, frame: Frame) -> Any:
    frame.left -= 1
    try:
        return frame.values[name]
    except KeyError:
        raise CelError(f"no such attribute(s): {name}") from None
