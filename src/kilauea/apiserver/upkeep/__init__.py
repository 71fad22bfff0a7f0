"""What a cluster's controllers do so that deletions come to an end: namespaces are emptied, dependents collected.

These run beside the server in the same loop and use it as any client does, without a transport.
"""
