"""The default class of ingresses."""

from __future__ import annotations

from kilauea.apiserver.admission import AdmissionStep
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.admission.view import Metadata, Record, default_of, reader

_CLASSES = "/networking.k8s.io/ingressclasses/"
_MARK = "ingressclass.kubernetes.io/is-default-class"
_CLASS_ANNOTATION = "kubernetes.io/ingress.class"


class _Class(Record, frozen=True):
    """An ingress class."""

    metadata: Metadata


_read = reader(_Class)


class DefaultIngressClass(AdmissionStep):
    """Sets the default class in ingresses without one."""

    name = "DefaultIngressClass"
    kinds = frozenset({("networking.k8s.io", "ingresses")})

    def mutate(self, attributes: Attributes) -> None:
        """Set the class."""
        obj = attributes.obj
        if attributes.operation != "CREATE" or attributes.subresource or obj is None:
            return
        spec = obj.setdefault("spec", {})
        named = spec.get("ingressClassName") is not None
        if named or _CLASS_ANNOTATION in (obj["metadata"].get("annotations") or ()):
            return
        classes = [_read(each.value).metadata for each in attributes.backend.store.list(_CLASSES).items]
        if found := default_of(classes, [_MARK]):
            spec["ingressClassName"] = found
