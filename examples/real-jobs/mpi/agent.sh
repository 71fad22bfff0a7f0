#!/bin/sh
# How mpirun starts its daemons, in the place of ssh: HOST COMMAND..., where HOST is the name of a pod and its service.
pod=${1%%.*}
shift
exec kubectl exec -i "$pod" -- sh -c "$*"
