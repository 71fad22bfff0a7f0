"""Conversion of kinds that are served in another form than stored, such as older versions."""
