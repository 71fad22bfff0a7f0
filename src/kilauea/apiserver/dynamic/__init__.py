"""Dynamic admission: webhooks and admission policies that users configure in the API server.

Configurations are read again after each change of one; without any, a write only checks that. Other requests continue
during calls of webhooks, so the built-in steps check the write again afterwards (`AdmissionStep.recheck`).
"""
