"""The API over HTTPS: credentials, the kubeconfig file, and the transport on aiohttp."""
