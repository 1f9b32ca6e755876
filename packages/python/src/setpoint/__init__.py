"""A Kubernetes cluster for tests: `with setpoint.Cluster() as cluster: ...`."""

from ._cluster import Cluster, ClusterError, binary

__all__ = ["Cluster", "ClusterError", "binary"]
__version__ = "@VERSION@"
