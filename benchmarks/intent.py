"""Route and intent without a model: what is kept from the documents that belongs there, and what is sent there in vain?

python -m benchmarks.intent

TREC's questions all need the documents, and nearly all want one fact ("reason" is analytical). CLINC150 was made for a
voice assistant: its small talk is conversational; errands such as "play_music" no document can do; its out-of-scope
questions are open questions, which a desk must look up. Everything is read as if one word of it were in no document,
which is the worst case for questions, because a question whose words the documents hold is never an errand.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache

from benchmarks.common import DATA, Figure, write
from refdesk.ask.classify import Classification, classify, examples
from refdesk.providers.shipped import OnnxEmbedder

SMALL_TALK = """
    greeting goodbye thank_you yes no maybe are_you_a_bot what_is_your_name how_old_are_you where_are_you_from
    who_made_you who_do_you_work_for what_are_your_hobbies do_you_have_pets what_can_i_ask_you
"""
ERRANDS = """
    play_music next_song alarm timer reminder tell_joke flip_coin roll_dice book_flight book_hotel uber make_call text
    smart_home weather time date restaurant_reservation update_playlist change_volume whisper_mode change_accent
    change_speed todo_list_update shopping_list_update find_phone share_location cancel_reservation schedule_meeting
"""
# Questions of a bank, of travellers, of car owners and cooks: their answers stand in documents.
QUESTIONS = """
    apr credit_score improve_credit_score interest_rate international_fees insurance rollover_401k routing taxes w2
    min_payment carry_on international_visa plug_type travel_alert vaccines gas_type jump_start mpg oil_change_how
    oil_change_when tire_change tire_pressure calories cook_time food_last ingredient_substitution ingredients_list
    nutrition_info recipe definition exchange_rate timezone meaning_of_life payday
"""


@cache
def clinc() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    rows = json.loads((DATA / "intent" / "clinc150_train_val.json").read_text(encoding="utf-8"))
    for text, label in [*rows["val"], *rows["oos_val"], *rows["oos_train"]]:
        found.setdefault(label, []).append(text)
    return found


def trec(step: int = 3) -> list[tuple[str, str]]:
    lines = (DATA / "intent" / "trec_qc_train_5500.label").read_text(encoding="latin-1").splitlines()
    return [(label, text) for label, _, text in (line.partition(" ") for line in lines[::step])]


@cache
def _embedder() -> OnnxEmbedder:
    return OnnxEmbedder(threads=1)


def reading(text: str) -> Classification:
    return classify(text, _embedder().embed_query(text), examples(_embedder()), unknown=1)


def share(labels: str, route: str) -> tuple[float, int]:
    texts = [text for label in labels.split() for text in clinc()[label]]
    return len([text for text in texts if reading(text).route == route]) / len(texts), len(texts)


def figures() -> list[Figure]:
    asked = [(label, reading(text)) for label, text in trec()]
    searched = len([one for _, one in asked if one.route == "needs_retrieval"]) / len(asked)
    intents = Counter(one.intent for _, one in asked)
    reasons = [one.intent == "analytical" for label, one in asked if label == "DESC:reason"]
    found = [
        Figure(f"route, TREC ({len(asked)} questions): searched for", f"{searched:.2%}", "≥ 99 %", searched >= 0.99),
        Figure("intent, TREC", " · ".join(f"{name} {count / len(asked):.1%}" for name, count in intents.most_common())),
        Figure(f"intent, TREC's reasons ({len(reasons)}): analytical", f"{sum(reasons) / len(reasons):.1%}"),
    ]
    for name, labels, route in (
        ("open questions, called out of scope there", "oos", "needs_retrieval"),
        ("questions of 35 kinds", QUESTIONS, "needs_retrieval"),
        ("small talk", SMALL_TALK, "conversational"),
        ("errands (conservative: the others are searched for, and not found)", ERRANDS, "out_of_scope"),
    ):
        rate, count = share(labels, route)
        is_judged = route == "needs_retrieval"
        bar = ("≥ 97 %", rate >= 0.97) if is_judged else ("", None)
        found.append(Figure(f"route, CLINC150, {name} ({count}): {route}", f"{rate:.1%}", *bar))
    return found


def main() -> None:
    write("intent", "Route and intent", figures())


if __name__ == "__main__":
    main()
