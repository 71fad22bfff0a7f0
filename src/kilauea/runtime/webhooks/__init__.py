"""`kilauea webhooks`: Volcano's admission for any Kubernetes, as a webhook server.

`process` joins the parts: `reviews` answers a request, `serving` listens, `credentials` issues certificates,
`certificates` keeps them in a Secret or follows files, `configurations` registers the webhooks.
"""
