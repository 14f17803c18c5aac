"""Release -> Reconstruction. One file per method; never sees truth."""

from exhume.attacks.base import Attack, Progress, Resources, Watch
from exhume.attacks.gauss_newton import GaussNewton
from exhume.attacks.projection_gd import ProjectionGD
from exhume.attacks.subspace import Subspace
from exhume.errors import unknown_name

ATTACKS: dict[str, type[GaussNewton] | type[ProjectionGD] | type[Subspace]] = {
    "gauss-newton": GaussNewton,
    "projection-gd": ProjectionGD,
    "subspace": Subspace,
}

__all__ = ["ATTACKS", "Attack", "GaussNewton", "Progress", "ProjectionGD", "Resources", "Subspace", "Watch", "attack_named"]


def attack_named(name: str, **settings: object) -> Attack:
    """The registered attack with these settings; None leaves a default."""
    if name not in ATTACKS:
        raise unknown_name("attack", name, ATTACKS)
    return ATTACKS[name](**{k: v for k, v in settings.items() if v is not None})  # type: ignore[arg-type]
