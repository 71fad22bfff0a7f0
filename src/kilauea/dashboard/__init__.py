"""Web pages that show a cluster: from watched objects to models of pages, and from these to HTML.

    picture = Picture(sources)                  # follows watches through reflectors
    pages = Pages()                             # templates
    html = pages.page(overview(picture, ...))   # a whole page, or its parts for a live stream

Pure: it opens no files except its templates, and does not use a clock or a server. `kilauea.runtime.dashboard` serves
the pages. Pages only show objects that their reader may list.
"""
