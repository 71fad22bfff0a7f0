"""CEL expressions of webhooks and policies: their variables, and match conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kilauea.apiserver.admission.attributes import Attributes, subject_of
from kilauea.apiserver.dynamic.authorizing import authorizer_variables
from kilauea.apiserver.dynamic.evaluation import COST_OF_CONDITIONS, ConditionError, Evaluation, OutOfBudget
from kilauea.apiserver.dynamic.matching import namespace_of
from kilauea.apiserver.dynamic.reviews import request_of
from kilauea.apiserver.resources.types import ResourceType

Raw = Mapping[str, Any]


class Inputs(Evaluation):
    """The variables of expressions for one write.

    Args:
        attributes: the write.
        resource: the kind that matched.
        obj: the new object in the version of that kind.
        old: the old object.
        params: the object with parameters.
        variables: expressions by name, each evaluated when it is first used.
    """

    def __init__(
        self,
        attributes: Attributes,
        resource: ResourceType,
        obj: Any,
        old: Any,
        params: Any = None,
        variables: Sequence[Raw] = (),
    ) -> None:
        own = attributes.resource
        is_namespace = (own.group, own.plural) == ("", "namespaces")
        values: dict[str, Any] = {
            "object": obj,
            "oldObject": old,
            "request": request_of(attributes, resource),
            "namespaceObject": None if is_namespace else namespace_of(attributes),
            "params": params,
            **authorizer_variables(attributes),
        }
        super().__init__(values, variables, attributes.backend.heavy, subject_of(attributes))


async def conditions_hold(conditions: Sequence[Raw], inputs: Inputs) -> bool:
    """Return True if all match conditions are true; a false one decides, even if others fail.

    Raises:
        ConditionError: none is false, and some cannot be evaluated.
        OutOfBudget: their total cost is too high.
    """
    failed: list[str] = []
    inputs.left = COST_OF_CONDITIONS
    for each in conditions:
        try:
            if await inputs.evaluate(each["expression"]) is False:
                return False
        except OutOfBudget:
            raise
        except ConditionError as error:
            failed.append(str(error))
    if failed:
        raise ConditionError(failed[0] if len(failed) == 1 else f"[{', '.join(failed)}]")
    return True
