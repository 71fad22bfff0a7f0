"""The error of a history that cannot be used."""


class HistoryError(Exception):
    """A history cannot be opened, read or written; the message names the file and what to do."""
