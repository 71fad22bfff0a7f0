"""Web pages that show a cluster: from watched objects to models of pages, and from these to HTML.

    picture = Picture(sources)                  # follows watches through reflectors
    pages = Pages()                             # templates
    html = pages.page(overview(picture, ...))   # a whole page, or its parts for a live stream

Pure: it opens no files but its own templates, has no clock, and talks to no server. `kilauea.runtime.dashboard` serves
the pages. What a page shows follows from the objects that its reader may list.
"""
