"""x -> phi(x), block by block."""

from exhume.features.activations import ACTIVATIONS, Activation, activation
from exhume.features.hermite import Reading, beyond_quadratic, hermite_coefficients, read_activation
from exhume.features.module import ModuleFeatures
from exhume.features.random import Block, MatrixFeatures, RandomFeatures

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "Block",
    "MatrixFeatures",
    "ModuleFeatures",
    "RandomFeatures",
    "Reading",
    "activation",
    "beyond_quadratic",
    "hermite_coefficients",
    "read_activation",
]
