"""Label classes: numbers for namespaces and labels, from which both can be read again."""

from __future__ import annotations

import pytest

from kilauea.engine.model.placements import LabelClass, LabelClasses


def test_the_same_namespace_and_labels_are_one_class_in_whatever_order() -> None:
    classes = LabelClasses()
    one = classes.id_of("ns", {"app": "web", "tier": "1"})
    assert classes.id_of("ns", {"tier": "1", "app": "web"}) == one
    assert len(classes) == 1


@pytest.mark.parametrize(
    ("namespace", "labels"),
    [
        pytest.param("other", {"app": "web"}, id="another namespace"),
        pytest.param("ns", {"app": "db"}, id="another value"),
        pytest.param("ns", {"web": "app"}, id="key and value exchanged"),
        pytest.param("ns", {}, id="no label"),
        pytest.param("app", {"ns": "web"}, id="a namespace with the text of a key"),
    ],
)
def test_a_class_is_what_it_was_made_of(namespace: str, labels: dict[str, str]) -> None:
    classes = LabelClasses()
    first, other = classes.id_of("ns", {"app": "web"}), classes.id_of(namespace, labels)
    assert first != other
    assert classes.get(first) == LabelClass("ns", {"app": "web"})
    assert classes.get(other) == LabelClass(namespace, labels)


def test_classes_are_found_by_a_label() -> None:
    classes = LabelClasses()
    web, both = classes.id_of("ns", {"app": "web"}), classes.id_of("other", {"app": "web", "zone": "a"})
    db = classes.id_of("ns", {"app": "db"})
    assert list(classes.with_label(("app", "web"))) == [web, both]
    assert list(classes.with_label(("app", "none"))) == []
    assert list(classes.with_label(None)) == [web, both, db]
