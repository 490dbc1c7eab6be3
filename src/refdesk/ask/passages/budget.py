"""How much room has each part of a prompt? The window of a model, shared out by its size. Pure.

window 8,000 (small)  ->  system 960 · history 1,200 · passages 4,640 · generation 1,200
"""

from __future__ import annotations

from dataclasses import dataclass

from refdesk.models import ModelInfo, Tier
from refdesk.settings import Settings

# Shares of the window: system, history, passages, generation; seed 001 step 8 (10–15, 10–15, 55–60 and 15–20 %).
SHARES: dict[Tier, tuple[float, float, float, float]] = {
    "tiny": (0.15, 0.10, 0.55, 0.20),
    "small": (0.12, 0.15, 0.58, 0.15),
    "medium": (0.10, 0.15, 0.60, 0.15),
    "large": (0.10, 0.15, 0.60, 0.15),
}
# More passages than this cost money and attention and add nothing: ten hits with neighbours are about 6,000 tokens.
MOST_PASSAGES: dict[Tier, int] = {"tiny": 2_500, "small": 5_000, "medium": 8_000, "large": 12_000}
MOST_HISTORY = 8_000
MOST_GENERATION = 4_000
MOST_HIDDEN = 8_000  # for models that think before they write: their thoughts count as written
FEWEST_PASSAGES = 500  # tokens, however little an answer may cost: the best passage
FEWEST_WRITTEN = 300
EXTRACTIVE_WINDOW = 8_000  # without a model nothing is read by one; this bounds the work


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens for each part; `generation` is also the most that is written. Parts may take less than the window."""

    window: int
    system: int
    history: int
    passages: int
    generation: int
    tier: Tier = "medium"

    @classmethod
    def for_model(cls, info: ModelInfo | None, settings: Settings) -> Budget:
        """The shares of this model's window, bounded by the settings; without a model a generous default."""
        if info is None:
            passages = settings.max_context_tokens or 6_000
            return cls(max(EXTRACTIVE_WINDOW, passages), 0, 0, passages, settings.max_answer_tokens or 1_000)
        window = info.context_window
        system, history, passages, generation = (int(share * window) for share in SHARES[info.tier])
        most_written = MOST_HIDDEN if info.thinks else MOST_GENERATION
        return cls(
            window=window,
            system=system,
            history=min(history, MOST_HISTORY),
            passages=min(passages, settings.max_context_tokens or MOST_PASSAGES[info.tier]),
            generation=min(generation, settings.max_answer_tokens or most_written),
            tier=info.tier,
        )

    @property
    def prompt(self) -> int:
        return self.system + self.history + self.passages
