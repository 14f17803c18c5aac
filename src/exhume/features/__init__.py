"""x -> phi(x), block by block."""

from exhume.features.activations import ACTIVATIONS, Activation, activation
from exhume.features.hermite import Reading, beyond, hermite_coefficients, polynomial_part, read_activation
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
    "beyond",
    "hermite_coefficients",
    "polynomial_part",
    "read_activation",
]
