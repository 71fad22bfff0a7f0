"""Volumes of pods: their content, kept in step with the objects that it comes from, and where containers see it."""

from kilauea.kubelet.volumes.manager import ImageVolume, Prepared, Volumes
from kilauea.kubelet.volumes.sources import VolumeError

__all__ = ["ImageVolume", "Prepared", "VolumeError", "Volumes"]
