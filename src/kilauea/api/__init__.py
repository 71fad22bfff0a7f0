"""Wire types and conventions: what objects look like, before anybody decides anything about them.

Rooms above import from here and never the other way round. Nothing here opens a file or a socket, and nothing uses
numpy.
"""
