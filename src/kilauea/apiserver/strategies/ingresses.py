"""The rules of ingresses and their classes."""

from __future__ import annotations

import re

from kilauea.api.names import label_problems, subdomain_problems
from kilauea.apiserver.fields import (
    check_name,
    check_path_segments,
    check_range,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.addresses import parse_address
from kilauea.apiserver.strategies.base import Object, Strategy, spec_of
from kilauea.apiserver.strategies.endpoints import IMMUTABLE
from kilauea.apiserver.strategies.pods.handlers import port_name_problems

CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_OLD_ANNOTATION = f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_PARTS, _BAD_ENDS = ("//", "/./", "/../", "%2f", "%2F"), ("/..", "/.")


class Ingresses(Strategy):
    """Ingresses: a default backend, or rules with backends."""

    def validate(self, obj: Object) -> list[Cause]:
        spec = spec_of(obj)
        rules, backend, name = spec.get("rules") or [], spec.get("defaultBackend"), spec.get("ingressClassName")
        causes: list[Cause] = []
        if not rules and backend is None:
            causes.append(invalid_value("spec", None, "either `defaultBackend` or `rules` must be specified"))
        if backend is not None:
            causes += _check_backend("spec.defaultBackend", backend)
        for number, rule in enumerate(rules):
            causes += _check_rule(f"spec.rules[{number}]", rule)
        for number, each in enumerate(spec.get("tls") or []):
            causes += _check_tls(f"spec.tls[{number}]", each)
        if name is not None:
            causes += check_name("spec.ingressClassName", name, subdomain_problems(name))
            causes += self._check_annotation(obj, name)
        return causes

    def warnings(self, obj: Object) -> list[str]:
        is_old = CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {})
        return [_OLD_ANNOTATION] if is_old else []

    def warnings_of_change(self, obj: Object, old: Object) -> list[str]:
        return []

    def _check_annotation(self, obj: Object, name: str) -> list[Cause]:
        """Check that the older annotation matches the field; for new objects only."""
        given = (obj["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION, name)
        if given == name or obj["metadata"].get("generation", 1) != 1:
            return []
        message = "must match `ingressClassName` when both are specified"
        return [invalid_value(f"annotations.{CLASS_ANNOTATION}", given, message)]


def _check_rule(path: str, rule: Object) -> list[Cause]:
    causes: list[Cause] = []
    host = rule.get("host", "")
    if host and parse_address(host):
        causes.append(invalid_value(f"{path}.host", host, "must be a DNS name, not an IP address"))
    if host:
        causes += _check_host(f"{path}.host", host)
    web = rule.get("http")
    if web is None:
        return causes
    if not web.get("paths"):
        causes.append(required(f"{path}.http.paths"))
    for number, each in enumerate(web.get("paths") or []):
        causes += _check_path(f"{path}.http.paths[{number}]", each)
    return causes


def _check_host(path: str, host: str) -> list[Cause]:
    if "*" not in host:
        return check_name(path, host, subdomain_problems(host))
    if host.startswith("*.") and not subdomain_problems(host[2:]):
        return []
    message = (
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
        "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', "
        r"regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    )
    return [invalid_value(path, host, message)]


def _check_tls(path: str, tls: Object) -> list[Cause]:
    causes: list[Cause] = []
    for number, host in enumerate(tls.get("hosts") or []):
        causes += _check_host(f"{path}.hosts[{number}]", host)
    secret = tls.get("secretName")
    return causes + (check_name(f"{path}.secretName", secret, subdomain_problems(secret)) if secret else [])


def _check_path(path: str, rule: Object) -> list[Cause]:
    kind, text = rule.get("pathType"), rule.get("path", "")
    if kind is None:
        return [required(f"{path}.pathType", "pathType must be specified")]
    causes: list[Cause] = []
    if kind not in _PATH_TYPES:
        causes.append(not_supported(f"{path}.pathType", kind, _PATH_TYPES))
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        causes.append(invalid_value(f"{path}.path", text, "must be an absolute path"))
    if kind in ("Exact", "Prefix"):
        messages = [f"must not contain '{each}'" for each in _BAD_PARTS if each in text]
        messages += [f"cannot end with '{each}'" for each in _BAD_ENDS if text.endswith(each)]
        causes += [invalid_value(f"{path}.path", text, message) for message in messages]
    return causes + _check_backend(f"{path}.backend", rule.get("backend") or {})


def _check_backend(path: str, backend: Object) -> list[Cause]:
    service, resource = backend.get("service"), backend.get("resource")
    if resource is not None and service is not None:
        return [invalid_value(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return check_reference(f"{path}.resource", resource)
    if service is None:
        return [invalid_value(path, "", "resource or service backend is required")]
    name = service.get("name", "")
    if name:
        causes = check_name(f"{path}.service.name", name, label_problems(name))
    else:
        causes = [required(f"{path}.service.name")]
    return causes + _check_backend_port(path, service.get("port") or {})


def _check_backend_port(path: str, port: Object) -> list[Cause]:
    name, number = port.get("name"), port.get("number")
    if name and number:
        return [invalid_value(path, "", "cannot set both port name & port number")]
    if name:
        return check_name(f"{path}.service.port.name", name, port_name_problems(name))
    if number:
        return check_range(f"{path}.service.port.number", number, 1, 65535)
    return [required(path, "port name or number is required")]


def check_reference(path: str, reference: Object) -> list[Cause]:
    """Check a reference with group, kind and name."""
    causes: list[Cause] = []
    if reference.get("apiGroup") is not None:
        causes += check_name(f"{path}.apiGroup", reference["apiGroup"], subdomain_problems(reference["apiGroup"]))
    return causes + check_path_segments(path, reference, "kind", "name")


_URL_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
LONGEST_CONTROLLER = 250
"""Maximum bytes of the name of a controller."""


class IngressClasses(Strategy):
    """Ingress classes, whose controller is immutable."""

    has_status = False

    def validate(self, obj: Object) -> list[Cause]:
        spec = spec_of(obj)
        controller = spec.get("controller", "")
        causes = [too_long("spec.controller", LONGEST_CONTROLLER)] if len(controller) > LONGEST_CONTROLLER else []
        causes += check_controller("spec.controller", controller)
        parameters = spec.get("parameters")
        return causes + (_check_parameters("spec.parameters", parameters) if parameters else [])

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        controller = spec_of(obj).get("controller")
        if controller != spec_of(old).get("controller"):
            return [invalid_value("spec.controller", controller, IMMUTABLE)]
        return []


def check_controller(path: str, controller: str) -> list[Cause]:
    """Check that the name of a controller has a domain prefix."""
    if not controller:
        return [required(path)]
    domain, slash, rest = controller.partition("/")
    if not slash or not domain or not rest:
        return [invalid_value(path, controller, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    causes = check_name(path, domain, subdomain_problems(domain))
    if not re.fullmatch(_URL_PATH, rest):
        causes.append(invalid_value(path, rest, f"Invalid path (regex used for validation is '{_URL_PATH}')"))
    return causes


def _check_parameters(path: str, parameters: Object) -> list[Cause]:
    causes = check_reference(path, parameters)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if scope not in ("Cluster", "Namespace"):
        causes.append(not_supported(f"{path}.scope", scope, ("Cluster", "Namespace")))
    elif scope == "Namespace" and namespace is None:
        causes.append(required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'"))
    elif scope == "Cluster" and namespace is not None:
        causes.append(forbidden_field(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'"))
    return causes
