"""The error of an unusable history."""


class HistoryError(Exception):
    """A history cannot be opened, read or written; the message names the file and the fix."""
