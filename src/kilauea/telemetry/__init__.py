"""Metrics of the components, and the pages that serve them."""
