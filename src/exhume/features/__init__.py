"""x -> phi(x), block by block."""

from exhume.features.activations import ACTIVATIONS, Activation, activation
from exhume.features.blocks import Block, BlockwiseFeatures
from exhume.features.hermite import (
    Kernel,
    Reading,
    beyond_linear,
    hermite_coefficients,
    kernel_beyond_linear,
    linear_part,
    read_activation,
)
from exhume.features.matrix_features import MatrixFeatures
from exhume.features.module_features import ModuleFeatures
from exhume.features.random_features import RandomFeatures, RandomFeaturesSpec
from exhume.features.spec import FeatureMemory, ModelSpec

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "Block",
    "BlockwiseFeatures",
    "FeatureMemory",
    "Kernel",
    "MatrixFeatures",
    "ModelSpec",
    "ModuleFeatures",
    "RandomFeatures",
    "RandomFeaturesSpec",
    "Reading",
    "activation",
    "beyond_linear",
    "hermite_coefficients",
    "kernel_beyond_linear",
    "linear_part",
    "read_activation",
]
