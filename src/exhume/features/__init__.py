"""x -> phi(x), block by block."""

from exhume.features.activations import ACTIVATIONS, Activation, activation
from exhume.features.hermite import (
    Kernel,
    Reading,
    beyond_linear,
    hermite_coefficients,
    kernel_beyond_linear,
    linear_part,
    read_activation,
)
from exhume.features.module import ModuleFeatures
from exhume.features.random import Block, MatrixFeatures, RandomFeatures

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "Block",
    "Kernel",
    "MatrixFeatures",
    "ModuleFeatures",
    "RandomFeatures",
    "Reading",
    "activation",
    "beyond_linear",
    "hermite_coefficients",
    "kernel_beyond_linear",
    "linear_part",
    "read_activation",
]
