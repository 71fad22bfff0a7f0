"""The currently served kinds: built-in ones, and those that definitions add and remove at run time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kilauea.apiserver.resources.types import ResourceType


class Registry:
    """All resource types by group, version and plural; `generation` increases with every change, for caches."""

    def __init__(self, types: Iterable[ResourceType] = ()) -> None:
        self._by_path: dict[tuple[str, str, str], ResourceType] = {}
        self.generation = 0
        for each in types:
            self.add(each)

    def __iter__(self) -> Iterator[ResourceType]:
        return iter(list(self._by_path.values()))

    def add(self, resource: ResourceType) -> None:
        """Serve a type, replacing one with the same name."""
        self._by_path[resource.group, resource.version, resource.plural] = resource
        self.generation += 1

    def remove(self, group: str, version: str, plural: str) -> None:
        """Stop serving a type, if it is served."""
        if self._by_path.pop((group, version, plural), None) is not None:
            self.generation += 1

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        """Return the type with these names."""
        return self._by_path.get((group, version, plural))

    def has_built_in(self, group: str) -> bool:
        """Return True if a group has a built-in type."""
        return any(each.group == group and not each.is_custom for each in self)

    def of_kind(self, api_version: str, kind: str) -> ResourceType | None:
        """Return the type of an object."""
        return next((each for each in self if each.kind == kind and each.api_version == api_version), None)

    def groups(self) -> list[str]:
        """Return all groups in the order of registration, the core group first."""
        return list(dict.fromkeys(["", *(each.group for each in self)]))

    def versions(self, group: str) -> list[str]:
        """Return the versions of a group, the preferred one first."""
        return list(dict.fromkeys(each.version for each in self if each.group == group))

    def of_version(self, group: str, version: str) -> list[ResourceType]:
        """Return the types of one group version, by name."""
        found = [each for each in self if each.group == group and each.version == version]
        return sorted(found, key=lambda each: each.plural)
