"""What is said of a claim just inside and just outside every number of support, attest and verify? Frozen."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import replace
from typing import Any

import pytest

from context_samples import chunk, context, passage, query, texts, vectors_of
from edge_samples import TEXTS, Named, Says, embed, freeze
from refdesk.answer import Claim, Context, Plan, Verdict
from refdesk.ask.attest import Proofs, attest, origin_of, remove_unsupported
from refdesk.ask.figures import figures
from refdesk.ask.markers import is_refusal, statements
from refdesk.ask.support import (
    SourceSentence,
    check_figures,
    choose,
    denied,
    judge_claim,
    kept_verdicts,
    names,
    opposites,
    read_claim,
    stricter,
    support,
    weights,
)
from refdesk.ask.writing import (
    MOST_CLAIMS,
    check,
    checkable,
    correct,
    read_verdicts,
    verify,
    verify_request,
    with_fragment,
)
from refdesk.negation import words
from refdesk.text import terms
from refdesk.trace import Trace
from refdesk.types import Box, Span

# --- words, names, denials, opposites --------------------------------------------------------------------------------


def test_names() -> None:
    freeze("names", {text: [names(text), names(text, figures(text))] for text in TEXTS["names"]})


def test_a_negation_reaches_two_words() -> None:
    found = {}
    for gap in range(5):
        for word in ("not", "never", "cannot", "doesn't", "nicht", "kein", "no later than"):
            text = (
                f"Boats are {word} {' '.join(['red', 'green', 'blue', 'white', 'black'][:gap])} painted, but docks are."
            )
            found[text] = sorted(denied(text))
    freeze("denied", found)


def test_opposites_speak_of_the_same_thing() -> None:
    """Up to eight words between what rose and what it is said of."""
    found = []
    for gap in range(8):
        for other in range(8):
            claim = ["revenue", *["x1", "x2", "x3", "x4", "x5", "x6", "x7"][:gap], "increased", "y"]
            source = [
                "income",
                "decreased",
                *["z1", "z2", "z3", "z4", "z5", "z6", "z7"][:other],
                "revenue",
                "decreased",
            ]
            found.append(len(opposites(claim, source[1:-1])) + 2 * len(opposites(claim, source)))
    pairs = [
        ("sales rose and fell", "sales fell"), ("revenue rose .", "revenue fell ."), ("more boats", "fewer boats"),
        ("revenuesabc rose", "revenuesxyz fell"), ("revenueabc rose", "revenusxyz fell"), (", rose", ", fell"),
        ("on monday boats left", "on tuesday boats left"), ("rose sales", "fell sales and dropped sales"),
    ]  # fmt: skip
    freeze("opposites", [found, [opposites(one.split(), other.split()) for one, other in pairs]])


# --- figures ---------------------------------------------------------------------------------------------------------


def test_figures_of_claims() -> None:
    found = [check_figures(claim, figures(claim), near, rest or near) for claim, near, rest in TEXTS["figures"]]
    freeze(
        "claim figures",
        [[claim, near, *result] for (claim, near, _), result in zip(TEXTS["figures"], found, strict=True)],
    )


def test_the_word_beside_a_figure_is_near() -> None:
    """Forty characters are looked at on each side."""
    found = []
    for gap in range(30, 46):
        claim, source = f"It has 12{' ' * gap}boats.", f"It has 13{' ' * gap}boats."
        before, behind = f"The boats{' ' * gap}12 x", f"The boats{' ' * gap}13 y"
        for one, other in ((claim, source), (before, behind), ("It has 12 boats.", source), ("The boats 12 x", behind)):
            found.append(bool(check_figures(one, figures(one), other, other)[0]))
    freeze("beside", ["".join("ny"[one] for one in found)])


# --- which lines support a claim? ------------------------------------------------------------------------------------


LINES = ("It.", "It has 5 boats.", "It has 6 boats.")


def random_lines(rng: random.Random, count: int) -> list[SourceSentence]:
    stock = ["anchor", "boat", "chain", "dock", "engin", "flag", "gull", "hull"]
    return [
        SourceSentence(
            rng.randint(1, 2), rng.randint(0, 1), rng.randint(0, 5), rng.choice(LINES),
            frozenset(rng.sample(stock, rng.randint(0, 4))), rng.choice((0.1, 0.2, 0.25, 0.5)),
        )
        for _ in range(count)
    ]  # fmt: skip


def test_lines_are_chosen_by_what_they_add() -> None:
    rng = random.Random(2)
    claims = [
        read_claim("Anchor, boat, chain, dock, engine, flag, gull and hull."),
        read_claim("A boat has 5 boats and a hull."),
    ]
    found = []
    for number in range(160):
        lines = random_lines(rng, rng.choice((1, 2, 3, 5, 8, 13, 25, 30)))
        claim = claims[number % 2]
        around = frozenset(("anchor",)) if number % 5 == 0 else frozenset()
        chosen = choose(claim, lines, weights(claim, lines), around)
        found.append([lines.index(line) for line in chosen])
    assert choose(claims[0], [], weights(claims[0], [])) == []
    freeze("chosen lines", found)


def test_how_much_a_further_line_must_add() -> None:
    """A neighbour helps with one word in twelve, any other line with more."""
    found = []
    for size in range(4, 16):
        stock = [f"word{chr(97 + n)}" for n in range(size)]
        claim = read_claim(" ".join(stock))
        stems = [terms(word)[0] for word in stock]
        for distance in (1, 2, 3):
            best = SourceSentence(1, 0, 3, "a", frozenset(stems[:-1]), 0.5)
            more = SourceSentence(1, 0, 3 + distance, "b", frozenset(stems[-1:]), 0.1)
            others = (more, more._replace(passage=2), more._replace(chunk=1))
            weight = dict.fromkeys(claim.stems, 1.0)
            found += [len(choose(claim, [best, other], weight)) for other in others]
    freeze("further lines", found)


def test_features_of_random_claims() -> None:
    rng = random.Random(4)
    parts = [
        "I saw",
        "Anchors",
        "boats",
        "Fundy",
        "did not sink",
        "rose",
        "fell",
        "5 kg",
        "6 kg",
        "in 2024",
        "never",
        "NATO",
    ]
    found = []
    for _ in range(120):
        claim = read_claim(" ".join(rng.sample(parts, rng.randint(1, 6))) + ".")
        lines = []
        for place in range(rng.randint(0, 4)):
            text = " ".join(rng.sample(parts, rng.randint(1, 6))) + "."
            lines.append(
                SourceSentence(1, 0, place, text, frozenset(terms(text)), rng.choice((0.0, 0.3, 0.55, 0.6, 0.9)))
            )
        result = support(claim, lines, rng.choice(("", "Fundy boats", "In millions")))
        judged = judge_claim(result)
        found.append([
            claim.text, [*result.features.values()], result.covered, result.clashes, result.gaps,
            judged.verdict, judged.score, judged.note, len(judged.lines),
        ])  # fmt: skip
    assert words("It's 5 o’clock.") == ["it's", "5", "o'clock", "."]
    freeze("features", found)


# --- which sentences claim something? --------------------------------------------------------------------------------


def test_statements() -> None:
    found = {
        text: [[one.text, one.start, one.end, one.markers] for one in statements(text)] for text in TEXTS["contents"]
    }
    freeze("statements", found)


def test_refusals() -> None:
    freeze("refusals", [is_refusal(text) for text in TEXTS["refusals"]])


def test_what_is_left_without_unsupported_sentences() -> None:
    content = "- One is it [1].\n- Two is it.\n\n\nThree is it  [2].  Four is it."
    found = statements(content)
    results = []
    for wrong in range(1 << len(found)):
        claims = [
            Claim(one.text, one.start, one.end, (), (), "unsupported" if wrong >> place & 1 else "partly", 0.5)
            for place, one in enumerate(found)
        ]
        results.append(remove_unsupported(content, claims))
    freeze("without unsupported", results)


# --- attesting -------------------------------------------------------------------------------------------------------

HANDBOOK = (
    "The harbour has nine pilots. Each anchor weighs 350 kg and is replaced every 5 years. Pilots are not required for"
    " vessels under 50 metres. Revenue rose to $4,213,000 in 2024 from $3.9 million in 2023."
)
TIDES = "The tide gauge TG-4 drifted by 3 mm between March 2024 and 31 October 2025. It was replaced by E. Fundy."
ROWS = "Pier | Depth\nNorth pier | 9 m\nSouth pier | 12 m"


def shelf() -> Context:
    return context(
        passage(1, chunk(HANDBOOK, id=1), name="handbook.pdf", title="Harbour handbook"),
        passage(
            2,
            chunk(TIDES, id=2, document_id="d2"),
            chunk("The gauge is red. It hums.", id=3, document_id="d2", sequence=2),
        ),
        passage(
            3, chunk(ROWS, id=4, document_id="d3", kind="table", heading_path=("Depths in metres",)), name="piers.csv"
        ),
        passage(
            4, chunk("Loose words stand here. Nobody knows why.", id=5, document_id="d4", paged=False), name="notes.txt"
        ),
    )


@pytest.mark.parametrize("stored", ["all", "some", "none"])
def test_attested_answers(stored: str) -> None:
    held = shelf()
    vectors = vectors_of(held, embed)
    vectors = {id: rows for id, rows in vectors.items() if stored == "all" or (stored == "some" and id % 2)}
    found = []
    for content in TEXTS["answers"]:
        for order in ((1, 2, 3, 4), (4, 3, 2, 1), (2, 1)):
            made = attest(query("Which gauge hums?"), content, order, Proofs(held, vectors, embed))
            claims = [[one.verdict, one.score, one.note, one.markers, one.citations] for one in made.claims]
            shown = [*(one.score for one in made.claims), *(one.support_score for one in made.citations)]
            assert all(score == round(score, 4) for score in shown)
            cited = [
                [one.marker, one.chunk_id, one.page, one.located, one.quote[:16], one.support_score, one.origin]
                for one in made.citations
            ]
            found.append([made.content, claims, cited, [*made.sizes.values()]])
    freeze(f"attested {stored}", found)


def test_origins() -> None:
    own = chunk("0123456789", paged=False)
    own = replace(own, spans=(Span(0, 4, 100, 1), Span(4, 8, 200, 2), Span(9, 10, 300, 2, Box(1, 1, 1, 1, 1))))
    found = [origin_of(own, start, end) for start in range(11) for end in range(start, 12)]
    freeze("origins", found)


# --- verifying -------------------------------------------------------------------------------------------------------


def test_verdicts_of_a_model() -> None:
    freeze("read verdicts", [read_verdicts(text, 1) for text in TEXTS["verdicts"]])


def claims(*verdicts: Verdict) -> tuple[Claim, ...]:
    return tuple(Claim(f"Claim {n} is it.", n, n + 1, (1,), (), one, 0.87654321) for n, one in enumerate(verdicts, 1))


VERDICTS: tuple[Verdict, ...] = ("supported", "partly", "unsupported", "contradicted")


def test_two_checks_of_one_claim() -> None:
    found = []
    for own in VERDICTS:
        for other in VERDICTS:
            (claim,) = stricter(claims(own), [(other, "why")], "judge")
            (kept,) = kept_verdicts(claims(own), claims(other))
            found.append([own, other, claim.verdict, claim.score, claim.note, kept.verdict])
    freeze("stricter", found)


def said(*verdicts: Verdict) -> str:
    return json.dumps({"verdicts": [{"claim": n, "verdict": one, "reason": "r"} for n, one in enumerate(verdicts, 1)]})


def test_what_a_verifier_is_asked_and_says() -> None:
    held = texts("The anchor weighs 350 kg.")
    request = verify_request(query(), claims("partly", "supported", "supported"), held)
    assert request.max_tokens == 400 and '"claim":1' in request.messages[0].content
    found = []
    for answers in (("supported",) * 12, ("partly",) * 12, ("contradicted", *("supported",) * 11)):
        review = asyncio.run(verify(query(), claims(*("supported",) * 12), held, Says(said(*answers)), Trace()))
        found.append(
            [review.verification.status, len(review.verification.notes), len(review.verdicts), review.usage.calls]
        )
    assert found == [["verified", 1, 12, 1], ["disputed", 10, 12, 1], ["disputed", 1, 12, 1]]


async def settle(
    asked: Any, plan: Plan, made: Any, held: Any, vectors: Any, embed: Any, models: Any, trace: Trace
) -> Any:
    checked = await check(asked, plan, made, held, models, trace)
    return await correct(asked, plan, checked, Proofs(held, vectors, embed), models, trace)


@pytest.mark.parametrize("reconcile", [True, False])
@pytest.mark.parametrize("written", ["", "The harbour has nine pilots [1].", "The harbour has ten pilots [1]."])
def test_what_stands_after_the_checks(reconcile: bool, written: str) -> None:
    """Answers that are right, wrong in one place or all over; verifiers that agree, dispute, fail; a reconciler."""
    held = shelf()
    vectors = vectors_of(held, embed)
    wrong = "The harbour has ten pilots [1]. " * 7
    contents = [
        "The harbour has nine pilots [1].",
        f"The harbour has nine pilots [1]. {wrong}",
        "Gulls sing opera [2].",
    ]
    found = []
    for content in contents:
        made = attest(query(), content, (1, 2), Proofs(held, vectors, embed))
        for verdict in ("supported", "partly", "contradicted", "nonsense"):
            answers = said(*([verdict] * len(made.claims))) if verdict != "nonsense" else "I do not know"  # type: ignore[list-item]
            models = Named(verifier=Says(answers), reconciler=Says(written))
            plan = Plan("hybrid", 5, 10, verify=True, reconcile=reconcile)
            done = asyncio.run(settle(query(), plan, made, held, vectors, embed, models, Trace()))
            asked = [request.max_tokens for request in models.models["reconciler"].asked]
            found.append([
                done.attested.content, [one.verdict for one in done.attested.claims], done.verification.status,
                done.verification.notes, done.usage.calls, asked,
            ])  # fmt: skip
        quiet = asyncio.run(
            settle(query(), Plan("hybrid", 5, 10, verify=True), made, held, vectors, embed, Named(), Trace())
        )
        found.append([quiet.verification.status, len(quiet.verification.notes)])
    freeze(f"settled {reconcile} {written}", found)


def test_answers_that_were_cut_off() -> None:
    held = shelf()
    made = attest(
        query(), "The harbour has nine pilots [1]. It hums [2]. The harbour has", (1, 2), Proofs(held, {}, embed)
    )
    found = [[one.verdict, one.note] for one in with_fragment(made).claims]
    assert [one.verdict for one in made.claims[:-1]] == [one for one, _ in found[:-1]]
    assert found[-1] == ["unsupported", "the model was cut off here"]
    whole = attest(query(), "The harbour has nine pilots [1].", (1,), Proofs(held, {}, embed))
    assert with_fragment(whole) == whole


def test_as_many_sentences_as_are_checked() -> None:
    for count, is_whole in ((MOST_CLAIMS - 1, True), (MOST_CLAIMS, True), (MOST_CLAIMS + 1, False)):
        text = " ".join(f"The buoy number {number} is red." for number in range(count))
        assert (checkable(text) == text) == is_whole
