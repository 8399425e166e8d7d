"""Server optimisers: what the server does with the update that a method proposes.

``feddc.FedDC(server=feddc.server.Yogi(lr=0.01))``. They have a place of their own because ``feddc.Adam`` would be taken
for the optimiser of the clients.
"""

from __future__ import annotations

from .algorithms.server import SGD, Adagrad, Adam, ExP, ServerOptimizer, Yogi

__all__ = ["SGD", "Adagrad", "Adam", "ExP", "ServerOptimizer", "Yogi"]
