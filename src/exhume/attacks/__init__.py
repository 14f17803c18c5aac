"""Release -> Reconstruction. One file per method; never sees truth."""

from dataclasses import replace

from exhume.attacks.base import Attack, Progress, Resources, Watch
from exhume.attacks.gauss_newton import GaussNewton
from exhume.attacks.published import KKT, KKT_MULTICLASS, NTK, PROJECTION_GD
from exhume.attacks.subspace import Subspace
from exhume.attacks.unified import Unified
from exhume.errors import unknown_name

ATTACKS: dict[str, GaussNewton | Subspace | Unified] = {
    attack.name: attack for attack in (GaussNewton(), Subspace(), PROJECTION_GD, KKT, KKT_MULTICLASS, NTK)
}

__all__ = ["ATTACKS", "Attack", "GaussNewton", "Progress", "Resources", "Subspace", "Unified", "Watch", "attack_named"]


def attack_named(name: str, **settings: object) -> Attack:
    """The registered attack with these settings; None leaves a default."""
    if name not in ATTACKS:
        raise unknown_name("attack", name, ATTACKS)
    return replace(ATTACKS[name], **{k: v for k, v in settings.items() if v is not None})  # type: ignore[arg-type]
