"""Objects as rows, as `kubectl get` shows them: which columns a kind has, and what stands in them."""
