"""The registered networks, one file each, and how a release describes them."""

from exhume.architectures.registry import NETWORKS, Architecture, architecture
from exhume.architectures.spec import ModuleSpec, NetworkSpec, describe_network, initial_parameters

__all__ = ["NETWORKS", "Architecture", "ModuleSpec", "NetworkSpec", "architecture", "describe_network", "initial_parameters"]
