"""Fits the weights that say whether a pronoun of a follow-up surely stands for a topic; writes assets/followups.json.

python -m scripts.fit_followups

On the first halves of CANARD's dev conversations and of MTRAG's: right is a topic all of whose words stand in the
rewrite that an annotator has given. The other half measures (`python -m benchmarks.followups`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
from benchmarks.followups import SETS, canard, mtrag, names_a_wrong_thing

from refdesk.ask.understanding import followup

ORIGIN = "first halves of CANARD dev (CC BY-SA 4.0) and of MTRAG cloud and govt (Apache-2.0); weights only, no text"
MTRAG = 10.0  # weight of one of its follow-ups, of which there are few: CANARD's speak of people alone


def main() -> None:
    seen: list[Mapping[str, float]] = []

    def listen(features: Mapping[str, float]) -> bool:
        seen.append(features)
        return True

    followup.is_sure = listen
    rows, right = [], []
    weight = []
    conversations = {"canard": list(canard()), "mtrag": [case for name in SETS for case in mtrag(name)]}
    for name, case in ((name, case) for name, cases in conversations.items() for case in cases):
        if case.half == 0:
            seen.clear()
            text = followup.stand_alone(case.question, case.turns).text
            if seen and text != case.question:
                rows.append(seen[-1])  # the last question's; those before it were asked about earlier ones
                right.append(not names_a_wrong_thing(case, text))
                weight.append(1.0 if name == "canard" else MTRAG)
    names = list(rows[0])
    values, hit = np.array([[row[name] for name in names] for row in rows]), np.array(right, dtype=float)
    many, weights = np.array(weight), np.zeros(len(names))
    for _ in range(30):  # Newton's method
        sure = 1 / (1 + np.exp(-values @ weights))
        curve = (values * (many * sure * (1 - sure))[:, None]).T @ values + np.eye(len(names))
        weights -= np.linalg.solve(curve, values.T @ (many * (sure - hit)) + weights)
    found = {name: round(float(weight), 3) for name, weight in zip(names, weights, strict=True)}
    made = {"made_by": "scripts/fit_followups.py", "trained_on": ORIGIN, "weights": found}
    followup.WEIGHTS_FILE.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    print(f"{len(rows)} rewrites, {np.mean(hit):.1%} right, {np.mean(hit[values @ weights > 0]):.1%} of the sure ones")
    print(found)


if __name__ == "__main__":
    main()
