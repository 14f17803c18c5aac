"""The victims by name."""

from __future__ import annotations

from exhume.features.networks import NETWORKS

VICTIMS: dict[str, str] = {"rf": "random-features regression, closed form"} | {
    name: network.about for name, network in NETWORKS.items()
}
