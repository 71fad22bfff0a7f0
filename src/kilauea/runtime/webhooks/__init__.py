"""`kilauea webhooks`: Volcano's admission for any Kubernetes, as a server that the cluster's API server asks.

`process` joins the parts: `reviews` answers a request, `serving` listens, `authority` makes certificates,
`certificates` keeps them in a Secret or follows files, `configurations` tells the cluster whom to ask.
"""
