"""One colour per meaning, in pages and figures alike."""

INK = "#1b1f24"  # text, truth, thresholds
RED = "#c0392b"  # what was rebuilt, by our attack
BLUE = "#1f5fa8"  # a second attack of ours, or a bound
GREEN = "#2e8b57"  # a third
GREY = "#8a9099"  # chance, floors, what does not count
PAPER = "#b8860b"  # the papers' own attack
