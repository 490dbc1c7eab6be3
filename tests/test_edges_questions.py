"""How is a question read just inside and just outside every number of followup, paraphrase, classify and understand?"""

from __future__ import annotations

import json
import random
import zlib

import numpy as np
import pytest

from edge_samples import TEXTS, embed, freeze
from golden_files import GOLDEN
from refdesk.answer import Turn
from refdesk.ask.classify import (
    SHIPPED,
    Classification,
    Examples,
    asks_for_number,
    classify,
    examples,
    plain_form,
    questions,
    sides,
    without_greeting,
)
from refdesk.ask.followup import Topics, follow_up_sign, is_topic, phrases, stand_alone
from refdesk.ask.understand import WordList, best, candidates, correct, features, is_sound, meanings, word_list
from refdesk.ask.wording import meaning, same_question, threshold


def turns(before: list[str]) -> list[Turn]:
    return [Turn("assistant", one[3:]) if one.startswith("A: ") else Turn("user", one) for one in before]


# --- follow-ups ------------------------------------------------------------------------------------------------------


def test_phrases() -> None:
    found = {
        text: [[one.text, one.start, one.is_name, one.article, one.after, is_topic(one)] for one in phrases(text)]
        for text in TEXTS["phrases"]
    }
    freeze("phrases", found)


def test_signs_of_leaning() -> None:
    asked = [question for _, question in TEXTS["conversations"]] + TEXTS["phrases"] + TEXTS["meanings"]
    freeze("signs", {text: follow_up_sign(text, ["How heavy is the buoy?"]) for text in asked})


def test_conversations() -> None:
    found = []
    for before, question in TEXTS["conversations"]:
        made = stand_alone(question, turns(before))
        found.append([question, made.text, made.why, made.topic, made.beside])
    freeze("conversations", found)


def nearness(text: str) -> float:
    """Some cosine between .3 and .6 for every text, always the same."""
    return 0.3 + zlib.crc32(text.encode()) % 31 / 100


def test_conversations_beside_documents() -> None:
    found = []
    for before, question in TEXTS["conversations"]:
        made = stand_alone(question, turns(before), nearness)
        found.append([question, made.text, made.why, made.beside])
    freeze("conversations beside documents", found)


@pytest.mark.parametrize("cosine", [0.41, 0.42, 0.43, 0.49, 0.5, 0.51])
def test_how_near_the_documents_are(cosine: float) -> None:
    before = turns(["What is the WB-7?", "A: The WB-7 is a wave buoy."])
    found = [stand_alone(question, before, lambda text: cosine) for (question,) in TEXTS["nearness"]]
    freeze(f"near {cosine}", [[one.text, one.why, one.beside] for one in found])


def test_a_topic_that_takes_nearness_away_is_another_matter() -> None:
    before = turns(["Tell me about drift."])
    found = []
    for loss in (0.05, 0.09, 0.11, 0.15, 0.19, 0.21):
        made = stand_alone("Chess champions?", before, lambda text, loss=loss: 0.4 - loss * ("(" in text))  # type: ignore[misc]
        found.append([made.text, made.why, made.beside])
    freeze("another matter", found)


def test_topics_come_and_go() -> None:
    """The salience of everything that was spoken of, after each turn."""
    found = []
    for before, question in TEXTS["conversations"]:
        topics = Topics()
        for turn in turns(before):
            if turn.role == "user":
                topics.hear_question(turn.content, "buoy" if "it" in turn.content.split() else "")
            else:
                topics.hear_answer(turn.content)
        likely = [topics.likely(question, pronoun)[:4] for pronoun in ("", "it", "they", "she")]
        found += [[[round(value, 3), one.text] for value, one in each] for each in likely]
    freeze("topics", found)


def test_turns_looked_back_on() -> None:
    for count in (18, 19, 20, 21):
        before = [Turn("user", "What is Kestrel?"), *[Turn("assistant", "Yes.")] * count]
        assert bool(stand_alone("What does it cost?", before).why) == (count < 20)


# --- the same question? ----------------------------------------------------------------------------------------------


def test_meanings() -> None:
    found = {}
    for text in TEXTS["meanings"]:
        one = meaning(text)
        found[text] = [one.asks, one.content, one.figures, one.small, one.tense]
    freeze("meanings", found)
    texts = TEXTS["meanings"]
    same = [
        [one, other] for place, one in enumerate(texts) for other in texts[place + 1 :] if same_question(one, other)
    ]
    freeze("same questions", same)


def test_thresholds() -> None:
    found = [threshold("adaptive", " ".join(["w"] * count)) for count in range(18)]
    freeze("thresholds", [*found, threshold("precision", ""), threshold("recall", "")])


# --- kinds of questions ----------------------------------------------------------------------------------------------

LABELS = ("factual", "summary", "comparison", "list", "analytical", "conversational", "out_of_scope", "library")


def plane(*angles: float) -> Examples:
    """An example of each label, as near to the question as its cosine says."""
    vectors = np.array([[cosine, np.sqrt(max(0.0, 1 - cosine**2))] for cosine in angles], np.float32)
    places = {label: np.array([place]) for place, label in enumerate(LABELS)}
    return Examples(LABELS, vectors, places)


ASKED = np.array([1.0, 0.0], np.float32)


def outcome(found: Classification) -> list[object]:
    return [
        found.route,
        found.intent,
        found.complexity,
        found.hints.top_k,
        found.sure,
        found.catalogue,
        found.why,
    ]


@pytest.mark.parametrize("unknown", [0, 1])
def test_what_the_nearest_examples_say(unknown: int) -> None:
    rng = random.Random(8)
    found = []
    for number in range(150):
        angles = [rng.choice((0.25, 0.4, 0.5, 0.6, 0.625, 0.65, 0.75, 0.875)) for _ in LABELS]
        text = ("show harbour things", "harbour things " * 6, "harbour things " * 6 + "x", "what of harbours")[
            number % 4
        ]
        found.append(outcome(classify(text, ASKED, plane(*angles), unknown)))
    freeze(f"nearest examples {unknown}", found)


def test_how_examples_vote() -> None:
    labels = tuple("abcdefghijklmnop")
    cosines = np.linspace(0.9, 0.6, 16)
    vectors = np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1).astype(np.float32)
    made = Examples(labels, vectors, {label: np.array([place]) for place, label in enumerate(labels)})
    freeze("votes", {label: round(vote, 3) for label, vote in made.votes(ASKED).items()})
    freeze("closest", {label: round(cosine, 3) for label, cosine in made.closest(ASKED).items()})


def test_votes_that_settle_an_intent() -> None:
    found = []
    for lists in range(9):
        labels = ("list",) * lists + ("factual",) * (8 - lists)
        for cosine in (0.45, 0.5, 0.55):
            vectors = np.tile(np.array([cosine, np.sqrt(1 - cosine**2)], np.float32), (8, 1))
            places = {label: np.flatnonzero([one == label for one in labels]) for label in set(labels)}
            places |= {label: np.array([0]) for label in LABELS if label not in places}
            found.append(outcome(classify("harbour things", ASKED, Examples(labels, vectors, places), 0))[1:5])
    freeze("settled intents", found)


def test_complexity() -> None:
    words = [f"harbour{chr(97 + n)}" for n in range(20)]
    found = []
    for count in range(1, 20):
        text = " ".join(words[:count])
        asked = (text, f"Why {text}", f"{text}? x?", f"{text} and what {text}")
        found += [classify(one, None, None, 0).complexity[:2] for one in asked]
    freeze("complexity", ["".join(one[0] + one[1] for one in found)])
    intents = (
        "List all boats",
        "Summarise it",
        "Compare A and B",
        "Why is it so?",
        "Who is it?",
        "Hello!",
        "Book me a flight",
    )
    freeze("hints", {text: outcome(classify(text, None, None, 1)) for text in intents})


class Embeds:
    def __init__(self, name: str) -> None:
        self.name = name


def test_examples_of_the_shipped_embedder() -> None:
    found = examples(Embeds(SHIPPED))  # type: ignore[arg-type]
    assert found is not None and len(found.labels) == len(questions()) == len(found.vectors)
    assert np.allclose(np.linalg.norm(found.vectors, axis=1), 1.0, atol=1e-3)
    assert sorted(place for places in found.places.values() for place in places) == list(range(len(found.labels)))


def test_chance_that_a_number_is_asked_for() -> None:
    vectors = [np.eye(384, dtype=np.float32)[place] * size for place in (0, 100, 383) for size in (0.0, 1.0, 3.0)]
    freeze("asks for number", [round(asks_for_number(one, Embeds(SHIPPED)), 3) for one in vectors])  # type: ignore[arg-type]
    assert asks_for_number(vectors[0], Embeds("other")) == 0.0  # type: ignore[arg-type]


def test_sides() -> None:
    freeze("sides", {text: sides(text) for text in TEXTS["sides"]})
    comparatives = ("heavier", "more reliable", "better", "cheaper", "er", "later", "big")
    freeze("plain forms", {word: plain_form(word) for word in comparatives})
    greetings = ("Hello, what is it?", "Hello", "Thanks! Hi, well, is it so", "hello hello", "Hi there")
    freeze("greetings", {text: without_greeting(text) for text in greetings})


def test_golden_questions() -> None:
    asked = [one["question"] for one in json.loads((GOLDEN / "questions.json").read_text(encoding="utf-8"))]
    found = {}
    for text in asked:
        one = meaning(text)
        found[text] = [outcome(classify(text, None, None, 0)), sides(text), one.content, one.figures, one.small]
    freeze("golden questions", found)


# --- spelling --------------------------------------------------------------------------------------------------------


def test_features_of_edits() -> None:
    rng = random.Random(6)
    words = ("anchor", "mooring", "calibration", "pier", "drift", "committee", "gauge", "access")
    found = {}
    for word in words:
        typed = {word[:place] + word[place + 1 :] for place in range(len(word))}
        typed |= {word[:place] + rng.choice("aeszn") + word[place:] for place in range(len(word) + 1)}
        typed |= {word[:place] + rng.choice("aeszn") + word[place + 1 :] for place in range(len(word))}
        typed |= {word[:place] + word[place + 1] + word[place] + word[place + 2 :] for place in range(len(word) - 1)}
        typed |= {word[:place] + word[place] + word[place:] for place in range(len(word))}
        for one in sorted(typed - {word}):
            made = features(
                one,
                word,
                rng.choice((0.0, 1.0, 49.0, 50.0, 60.0)),
                rng.choice((0.0, 10.0)),
                len(one) % 2 == 0,
                is_name=rng.random() < 0.3,
            )
            found[f"{one} {word}"] = {name: round(value, 3) for name, value in made.items()}
    freeze("edits", found)


def test_the_word_that_was_meant() -> None:
    found = []
    for documents in (0.0, 0.5, 1.0, 5.0, 50.0):
        for language in (0.0, 1.0, 100.0, 10000.0):
            for near in (("anchor",), ("anchor", "ancher"), ("anchor", "anchors", "ancho")):
                made = dict.fromkeys(near, (documents, language, False))
                named = dict.fromkeys(near, (documents, language, True))
                found.append(
                    [
                        best("ancor", made, is_name=False),
                        best("ancor", made, is_name=True),
                        best("ancor", named, is_name=True),
                        best("ancjr", made, is_name=False),
                    ]
                )
    assert best("ancor", {}, is_name=False) == ""
    freeze("meant", found)


def test_words_near_a_word() -> None:
    english = word_list("en")
    assert english is not None and word_list("xx") is None and word_list("../en") is None
    stock = ("anchor", "ancho", "an", "anchors", "anchorage", "ANCHOR", "an-chor")
    found = {}
    for word in ("ancor", "anchr", "anchor", "anchorrs", "anchorag", "abc"):
        for chunks in (0, 1, 10, 1000):
            made = meanings(word, lambda asked, distance: [(one, 2) for one in stock], None, chunks, {"anchor"})
            found[f"{word} {chunks}"] = {one: list(counts) for one, counts in made.items()}
    own = WordList({"anchor": 5.0, "ancho": 2.0}, {})
    freeze("near words", found)
    assert own.near("ancor", 1) == [] and "anchor" in own
    near = {word: len(english.near(word, distance)) for word in ("ancor", "harbor", "calibraton") for distance in (1,)}
    twice = {word: len(english.near(word, 2)) for word in ("ancor", "calibraton")}
    freeze(
        "near in english",
        [near, twice, round(english.frequencies["the"]), [one for one, _ in english.near("ancor", 1)][:20]],
    )


def test_corrections() -> None:
    stock = ("anchor", "buoy", "gauge", "heavy", "anchorage", "calibration")
    similar = {"ancor": "anchor", "bouy": "buoy", "gague": "gauge", "ancorr": "anchor", "hevy": "heavy"}
    found = {}
    for text in TEXTS["misspelled"]:
        made = correct(
            text,
            lambda asked: {word for word in asked if word in stock},
            lambda word, distance: [(similar[word], 20)] if word in similar else [],
        )
        found[text] = [made.text, made.changes, list(candidates(text))]
    freeze("corrections", found)


def test_a_rewritten_question_is_no_essay() -> None:
    for asked in ("What is it?", "How heavy is the anchor?"):
        longest = 3 * len(asked) + 200
        for size, is_good in ((longest - 1, True), (longest, True), (longest + 1, False)):
            assert is_sound(asked, f"{'anchor ' * size}"[:size]) == is_good
    assert not is_sound("How heavy is the anchor?", "Who is Ann?") and not is_sound("What?", "")


def test_vectors_of_words() -> None:
    assert float(embed("anchor chain") @ embed("anchor chain")) > 0.99
