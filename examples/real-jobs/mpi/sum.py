"""Sums the ranks of all processes by MPI_Allreduce of Open MPI, which needs no compiler and no package of Python."""

import ctypes
import socket

mpi = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)


def handle(name: str) -> ctypes.c_void_p:
    """Return one of Open MPI's constants."""
    return ctypes.c_void_p(ctypes.addressof(ctypes.c_byte.in_dll(mpi, name)))


world, integer, add = handle("ompi_mpi_comm_world"), handle("ompi_mpi_int"), handle("ompi_mpi_op_sum")
rank, size, total = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
mpi.MPI_Init(None, None)
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Comm_size(world, ctypes.byref(size))
mpi.MPI_Allreduce(ctypes.byref(rank), ctypes.byref(total), 1, integer, add, world)
print(f"rank {rank.value} of {size.value} on {socket.gethostname()}: sum {total.value}", flush=True)
mpi.MPI_Finalize()
