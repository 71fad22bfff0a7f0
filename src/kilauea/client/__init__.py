"""The Kubernetes client: credentials, transport, requests, and caches of objects that watches update.

    transport = HttpTransport(find_access(kubeconfig, os.environ))      # or, in one process, DirectTransport(server)
    client = Client(transport)
    pod = await client.get(PODS, Key("default", "web-0"))

    cache = Cache()
    cache.declare(PODS, labels=("app",))
    await cache.run(client, clock, rng)                              # for as long as it is to be kept fresh
    await cache.complete()                                              # elsewhere: until every kind has been listed
    cache.labelled(PODS, "app", "web")

Components that need the events instead of a cache (the scheduler) create a `Reflector` with their own handler.
"""
