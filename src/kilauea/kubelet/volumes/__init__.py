"""Volumes of pods: their content, kept in sync with its source objects, and their paths in containers."""

from kilauea.kubelet.volumes.manager import ImageVolume, Prepared, Volumes
from kilauea.kubelet.volumes.sources import VolumeError

__all__ = ["ImageVolume", "Prepared", "VolumeError", "Volumes"]
