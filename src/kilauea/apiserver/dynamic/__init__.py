"""Admission that users configure: webhooks and admission policies, in the API server's store.

What is configured is read again after each change of a configuration, and until there is one, a write only asks whether
there is. Webhooks are asked while others go on, so the built-in steps look at the write again after them
(`AdmissionStep.recheck`).
"""
