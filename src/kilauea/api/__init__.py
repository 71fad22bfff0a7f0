"""Wire types and conventions: objects as they are sent and stored, before any decision about them.

Rooms above import from here and never the other way round. Nothing here opens a file or a socket, and nothing uses
numpy.
"""
