"""Names and addresses of pods that are processes on this machine, and the services in front of them.

    pods of this machine  ->  address_pool.py: a loopback address for each
    services, slices      ->  hosts.py: the text of /etc/hosts  ->  hosts_files.py: the files, kept up to date
    services, slices      ->  routes.py: where connections go   ->  proxies.py: listen and forward

Pods share the network of the machine. Each has a separate loopback address, so that programs that listen on their host
name do not conflict. A program that listens on all addresses occupies the port on the whole machine.
"""

from kilauea.kubelet.network.address_pool import NetworkRanges, claimed_ranges, keep_ranges
from kilauea.kubelet.network.pod_network import PodNetwork

__all__ = ["NetworkRanges", "PodNetwork", "claimed_ranges", "keep_ranges"]
