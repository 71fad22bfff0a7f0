"""From a session to words: the plan with its reasons, and explanations of why a group waits."""
