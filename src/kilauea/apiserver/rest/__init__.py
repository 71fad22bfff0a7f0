"""The verbs: one module each, and one for each subresource that is more than a part of its object."""
