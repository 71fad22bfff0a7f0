"""The verbs, one module each, and the subresources that are more than a part of their object."""
