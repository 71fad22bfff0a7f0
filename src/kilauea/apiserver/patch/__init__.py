"""Patches of all kinds, and field ownership: pure functions on decoded objects."""

from kilauea.apiserver.patch.apply import check_applied, full_kind, server_side_apply, subject_of
from kilauea.apiserver.patch.configuration import merge_configuration
from kilauea.apiserver.patch.conflicts import ApplyConflict
from kilauea.apiserver.patch.fieldset import FieldSet, fields
from kilauea.apiserver.patch.fresh import fields_of_part
from kilauea.apiserver.patch.json_patch import FailedTest, json_patch
from kilauea.apiserver.patch.managed import track_update
from kilauea.apiserver.patch.merge import merge_patch, merged
from kilauea.apiserver.patch.scale_managers import entries_of_parent, entries_of_scale
from kilauea.apiserver.patch.strategic import strategic_merge

__all__ = [
    "ApplyConflict",
    "FailedTest",
    "FieldSet",
    "check_applied",
    "entries_of_parent",
    "entries_of_scale",
    "fields",
    "fields_of_part",
    "full_kind",
    "json_patch",
    "merge_configuration",
    "merge_patch",
    "merged",
    "server_side_apply",
    "strategic_merge",
    "subject_of",
    "track_update",
]
