"""Names of definitions: what others of the group have is found without comparing each with each."""

from __future__ import annotations

from typing import Any

from kilauea.apiserver.crd.names import Names, Taken


def definition(plural: str, accepted: bool = True, **names: Any) -> dict[str, Any]:
    wanted = {"plural": plural, "singular": plural[:-1], "kind": plural.title(), "listKind": "", **names}
    return {"spec": {"names": wanted}, "status": {"acceptedNames": wanted} if accepted else {}}


def test_names_are_taken_by_others_only() -> None:
    first, second = definition("trees", shortNames=["t"]), definition("bushes", shortNames=["b"])
    late = definition("plants", accepted=False, singular="tree", kind="Bushes", shortNames=["t", "p"])
    names = Names([first, second, late])
    for each in (first, second):
        assert names.by_others(each) == Taken(frozenset(), frozenset())
    assert names.by_others(late) == Taken(frozenset({"tree", "t"}), frozenset({"Bushes"}))


def test_a_name_that_two_have_is_taken_for_both() -> None:
    both = [definition("trees"), definition("trees")]
    names = Names(both)
    assert [names.by_others(each).resources for each in both] == [{"trees", "tree"}] * 2
