"""Tensors in, tensors out; knows no domain."""
