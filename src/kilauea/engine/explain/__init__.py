"""The plan of a session with its reasons, and explanations of waiting groups."""
