"""The dictionary for the compression of headers, which the SPDY/3 protocol defines."""

from __future__ import annotations

_WORDS = (
    "options|head|post|put|delete|trace|accept|accept-charset|accept-encoding|accept-language|"
    "accept-ranges|age|allow|authorization|cache-control|connection|content-base|content-encoding|"
    "content-language|content-length|content-location|content-md5|content-range|content-type|date|etag|"
    "expect|expires|from|host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|"
    "last-modified|location|max-forwards|pragma|proxy-authenticate|proxy-authorization|range|referer|"
    "retry-after|server|te|trailer|transfer-encoding|upgrade|user-agent|vary|via|warning|"
    "www-authenticate|method|get|status|200 OK|version|HTTP/1.1|url|public|set-cookie|keep-alive|origin"
).split("|")
_REST = (
    b"100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 "
    b"Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 "
    b"Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb "
    b"Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,"
    b"text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    b"text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = b"".join(len(word).to_bytes(4, "big") + word.encode() for word in _WORDS) + _REST
"""Words of HTTP, each preceded by its length, and the rest without."""
