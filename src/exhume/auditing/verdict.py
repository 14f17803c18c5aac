"""What an audit says, in plain words, from what was found, how sure that is, and how often it would be false."""

from __future__ import annotations

from dataclasses import dataclass

from exhume.auditing.calibration import LIKENESS, Calibration
from exhume.auditing.preflight import Preflight
from exhume.counting import MARGIN
from exhume.result import Reconstruction

LIMITS = (
    "A clean audit speaks about the attacks that were run, with the knowledge named here, and about no others.",
    "Samples count as rebuilt within the distance named; looser likenesses (style, class means) are not counted.",
    "Membership inference, prompts, outputs and logs are other channels: this audit reads the weights only.",
)


@dataclass(frozen=True)
class Verdict:
    """The answer to "can I release these weights?"."""

    level: str  # "rebuilt", "rebuilt without proof", "other data", "not told from chance", "resisted", "not recoverable"
    headline: str
    detail: str
    rebuilt: int
    n: int
    certified: bool

    @property
    def leakage(self) -> float:
        """Share of the training samples that were rebuilt."""
        return self.rebuilt / self.n

    def leaks(self, bearable: float) -> bool:
        """Whether more was rebuilt than is bearable; certified rows leak even if the data given are not those of the model."""
        return self.leakage > bearable or (self.level == "other data" and bearable < 1)


def judge(
    found: int, guess: Reconstruction, law: Preflight, calibration: Calibration, *, within: float, directions: bool
) -> Verdict:
    """The verdict; a claim that held-out samples or shuffled weights would meet as well is not made."""
    n, told = law.n, calibration.beyond_chance
    lengths = "unknown" if guess.scale == "unknown" else f"inferred ({guess.scale}) and off"
    share = f"within {within:.0%}" + (f" in direction, their length being {lengths}" if directions else " of their length")
    rate = (
        f"By the same rule {calibration.false_positives} of {calibration.references} {calibration.reference} would count as "
        f"rebuilt (at most {calibration.upper:.1%} at 95% confidence), and an attack on shuffled weights claimed "
        f"{calibration.null_matches or 0} of {n}."
    )
    alike = (
        f" But {calibration.likenesses} of {n} samples have a row within {LIKENESS * within:.0%}, far more than samples not "
        "trained on: likenesses leak."
        if calibration.likenesses
        else ""
    )
    certified = guess.certified and found > 0 and told
    if found and not told and not guess.certified:
        return Verdict(
            "not told from chance",
            "Nothing was rebuilt that chance would not give.",
            f"{found} of {n} samples have a rebuilt row {share}, too few to be told from chance. {rate}{alike}",
            0,
            n,
            certified=False,
        )
    if certified:
        return Verdict(
            "rebuilt",
            f"Do not release: {found} of {n} training samples were rebuilt from the weights, and the attacker can prove it.",
            f"Rebuilt means {share}. {rate}",
            found,
            n,
            certified=True,
        )
    if found and told:
        return Verdict(
            "rebuilt without proof",
            f"Do not release: {found} of {n} training samples were rebuilt from the weights.",
            f"Rebuilt means {share}. The attacker cannot prove it from the weights alone: {guess.reason}. {rate}",
            found,
            n,
            certified=False,
        )
    if guess.certified:
        return Verdict(
            "other data",
            "The weights give up samples, but none of the data given.",
            f"{len(guess.rows)} rows were rebuilt and certified, and the samples given are no nearer to them than others "
            f"({found} of {n} {share}): these data are not what the model was trained on, or they were fed to it in another form "
            f"(check --mean and --std). {rate}",
            0,
            n,
            certified=False,
        )
    if not law.determined and law.outnumbered:
        return Verdict(
            "not recoverable",
            "Not recoverable by these attacks: the weights hold too few numbers to pin the samples down.",
            f"{law.equations_per_unknown:.3g} equations per unknown (p / (d n) = {law.ratio:.3g}), where at least {MARGIN:g} "
            f"are needed: a margin of {MARGIN / law.equations_per_unknown:.3g}. None of {n} samples was rebuilt {share}. Attacks "
            "that know more about the data (a prior, some of its samples) need fewer equations.",
            0,
            n,
            certified=False,
        )
    counted = (
        f"p / (d n) = {law.ratio:.3g}"
        if law.determined
        else f"the last layer's {law.equations_per_unknown:.3g} equations per unknown are too few, but all layers together hold "
        f"{law.weights_per_coordinate:.3g} trained weights per coordinate"
    )
    return Verdict(
        "resisted",
        "Nothing was rebuilt by these attacks, although the weights hold enough numbers for it.",
        f"{counted}: counting does not protect these samples; this is a failure of the attack, not a proof of "
        f"safety. It ended so: {guess.reason}.{alike}",
        0,
        n,
        certified=False,
    )
