"""Wire types and conventions: objects as they are sent and stored.

Other packages import this one, and never the other way round. Nothing here opens a file or a socket, or uses numpy.
"""
