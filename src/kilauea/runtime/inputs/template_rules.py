"""Checks of pod templates, by the API server's own rules for pods, without a running server."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from kilauea.apiserver.schema.builtin import definition
from kilauea.apiserver.schema.defaults import apply_defaults
from kilauea.apiserver.schema.reading import DecodeError, read_builtin
from kilauea.apiserver.strategies.pods.spec import RESTART_POLICIES
from kilauea.apiserver.strategies.pods.strategy import check_template

_TEMPLATE = "io.k8s.api.core.v1.PodTemplateSpec"


def template_errors(template: Mapping[str, Any]) -> list[str]:
    """Return the errors of a pod template with defaults filled in, each as `template.spec.<field>: <reason>`."""
    schema = definition(_TEMPLATE)
    complete = copy.deepcopy(dict(template))
    try:
        read_builtin(schema, complete)
    except DecodeError as error:
        return [f"template: {error}"]
    apply_defaults(schema, complete)
    return [str(cause) for cause in check_template("template", complete, restart=RESTART_POLICIES)]
