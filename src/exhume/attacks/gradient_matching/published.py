"""The published attacks: which objective, which optimiser, and the constants that their authors gave."""

from __future__ import annotations

from dataclasses import replace

from exhume.attacks.gradient_matching.descent import GradientMatching, Tuning
from exhume.attacks.gradient_matching.objective import Switches

# Appendix D: 20 for synthetic data, 2e3 for CIFAR-10, 8e3 for Tiny-ImageNet; stop at 1e-7.
PROJECTION_GD = GradientMatching(
    name="projection-gd",
    about="momentum descent on ||P_perp theta||^2 over a sphere (A Law of Data Reconstruction, Appendix D)",
    needs="trained weights, last layer before training, n",
    left_out="the published method: slower, and has to be told n",
    switches=Switches(),
    tuning={0: Tuning(20.0), 3072: Tuning(2e3), 12288: Tuning(8e3)},
    sphere=True,
    tolerance=1e-7,
    max_steps=20_000,
)
# Haim et al. 2022: the trained weights are a combination of gradients at a max-margin solution.
KKT = GradientMatching(
    name="kkt",
    about="gradients of y f at the trained weights add up to the weights (Haim et al. 2022)",
    needs="trained weights, n, balanced labels, range of inputs",
    left_out="needs n and a margin-maximising training; proves nothing about its rows",
    switches=Switches("all", "trained", "weights", "free", "signed", "sigmoid", box=1.0, dual_floor=5.0),
    tuning={
        0: Tuning(0.0305, start=0.035, least_dual=0.447, sharpness=150.0),
        3072: Tuning(0.555, start=8.9e-4, least_dual=0.498, sharpness=19.1),
    },
    per_sample=2,
)
# Buzaglo et al. 2023: the same for several classes.
KKT_MULTICLASS = replace(
    KKT,
    name="kkt-multiclass",
    about="gradients of f_y - max f_j add up to the weights (Buzaglo et al. 2023)",
    switches=replace(KKT.switches, outputs="margin"),
)
# Loo et al. 2024: what was learned is a combination of gradients at the trained weights.
NTK = GradientMatching(
    name="ntk",
    about="gradients of f at the trained weights add up to the weights' change (Loo et al. 2024)",
    needs="weights of all layers before and after training, n, range of inputs",
    left_out="needs n; proves nothing about its rows",
    switches=Switches("all", "trained", "change", "free", "each", "softplus", box=0.1, box_mean=True),
    tuning={0: Tuning(0.02, start=0.2)},
    optimiser="adam",
    annealed=True,
    per_sample=2,
    max_steps=80_000,
)
