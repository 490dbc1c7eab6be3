"""Is the confidence what it says? Its calibration error, and the script that learns the numbers of answering.

python -m benchmarks.calibration           measures
python -m benchmarks.calibration --fit     learns anew and writes src/refdesk/assets/calibration.json

Learned from: the first 24 articles of squad_dev11, hotpot500, hotpot_train100 and musique_train100. Each question is
asked as it is, without its relevant passages, and without its whole article or topic. Tables from TAT-QA, the contexts
with an even index.

- SENTENCE, the weights of the sentence that answers: listwise, over squad_dev11 and TAT-QA.
- FOUND, whether the right passage was found: logistic, the three ways of asking weighing the same.
- RIGHT, whether what is quoted is right: logistic, two of three questions as they are, the third without its passages.
All three without a reader. With one, from squadshift_reddit and squad2_disfl, which it has not learned from, the
questions that squad2_disfl has no answer to left out:

- READ, the weights of the sentence that answers, what was read among them.
- READ_FOUND and READ_RIGHT as above; the constant is such that `answer.floor` refuses 7 % of squad2_disfl's answerable.
- READ_TOLD, whether the right passage was found, of what READ_RIGHT is made of: a sentence that stands out tells more
  than its passage does. Learned as READ_FOUND is, without the whole topic too.
- READ_ROW, the same where the row of a table is nearest: from FOUND and what the reader says. Questions of TAT-QA's
  contexts with an even index to their own document, and to all others. By words alone the AUC is .816, by the reader
  .810, by both .862 (260 questions).
- SHORT, whether the span of the best sentence shares half its words with the answer.
- CONFIDENCE, for answers that a model writes: what is known of them is the probability of READ_FOUND alone.

Measured on: the other 24 articles of squad_dev11, squadshift_reddit and squad2_disfl.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import reports
from benchmarks.answering import Answered, Articles, answer, contains, progress, questions, short_f1
from benchmarks.common import ROOT, Figure
from benchmarks.retrieval import library
from refdesk import Refdesk
from refdesk.ask.judge import probability, right_features
from refdesk.ask.sentences import LABEL, ScoredSentence, sentence_text, tabulate
from refdesk.ask.told import can_stand
from refdesk.ports import NoReader, Reader
from refdesk.settings import Settings
from refdesk.types import Scope

LEARNED_FROM = ("squad_dev11", "hotpot500", "hotpot_train100", "musique_train100")
WAYS = ("whole", "passage", "topic")
SENTENCE = ("cosine", "coverage", "proximity", "passage", "passage_cosine", "passage_coverage")
FOUND = ("best", "gap", "cosine", "unnamed")
RIGHT = ("there", "share")
READ_FROM = ("squadshift_reddit", "squad2_disfl")
READ = ("words", "span", "answered", "passage", "unread")
READ_FOUND = ("answered", "relevant", "cosine")
READ_ROW = ("words", "answered")
SHORT = ("share", "span")
REFUSED = 0.07  # of squad2_disfl's answerable questions; 8 % is the most that is bearable
TOPIC = 12  # hits taken out with the relevant passages to leave the topic, where there are no articles
BINS, KNOTS, BAR, HIGH = 10, 9, 0.08, 0.9
ROUNDS = ("sentences", "found", "right", "read_sentences", "read", "read_row", "read_told")
FILE = ROOT / "src" / "refdesk" / "assets" / "calibration.json"

Floats = NDArray[np.float64]
Group = tuple[Floats, Floats, NDArray[np.bool_]]  # of each sentence: its features, what its row counts, is it right?


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One way of asking a question."""

    set: str
    way: str
    number: int
    features: dict[str, float]  # of relevance.py
    given: Answered
    is_right: bool  # one of the quotes answers
    sentences: Group | None
    span_f1: float  # of the span of the best quote


def rows(
    name: str, most: int, ways: Sequence[str] = WAYS, *, learning: bool = True, reader: Reader | None = None
) -> Iterator[Row]:
    """Each question in each way. Right is a quote that holds the answer; where no answer is known, or where it takes
    several steps, one from a relevant passage.
    """
    articles = Articles() if name == "squad_dev11" else None
    keep = (lambda row: articles.is_for_learning(row) == learning) if articles else (lambda row: True)
    with library(name) as desk:
        for number, row in enumerate(progress(questions(name, most, keep), name)):
            for way in ways:
                given = answer(desk, row["text"], _gone(desk, row, way, articles), reader=reader)
                if given is None or not given.relevance.features:
                    continue
                pairs = zip(given.quotes, given.documents, strict=True)
                by_answer = name.startswith("squad") and bool(row.get("answers"))
                is_right = any(
                    contains(quote.text, row["answers"]) if by_answer else document in row["relevant"]
                    for quote, document in pairs
                )
                sentences = _sentences(given, row) if way == "whole" and row.get("answers") else None
                shown = "impossible" if row.get("is_impossible") else way
                value = short_f1(_span(given), row.get("answers", ()))
                yield Row(name, shown, number, dict(given.relevance.features), given, is_right, sentences, value)


def _gone(desk: Refdesk, row: dict[str, Any], way: str, articles: Articles | None) -> frozenset[str]:
    if way == "whole":
        return frozenset()
    if way == "passage":
        return frozenset(row["relevant"])
    if articles:
        return articles.around(row["relevant"])
    vector = desk.parts.embedder.embed_query(row["text"])
    near = desk.parts.reader.search(row["text"], vector, TOPIC, "hybrid", Scope(), desk.settings)
    return frozenset(row["relevant"]) | {hit.document.name for hit in near}


def _span(given: Answered) -> str:
    evidence = max((quote.evidence for quote in given.quotes), key=lambda one: one.score, default=None)
    span = evidence and evidence.span
    return evidence.chunk.text[span.start : span.end] if evidence and span else ""


def _sentences(given: Answered, row: dict[str, Any]) -> Group:
    passages = given.context.passages
    placed = [(one.number, chunk, one.hit.score) for one in passages for chunk in one.chunks]
    documents = {one.document.id: one.document for one in passages}
    found = given.retrieved
    table = tabulate(given.query, placed, found.sentence_vectors, found.idf, documents, found.readings)
    names = READ if table.has_readings else SENTENCE
    columns = np.stack([getattr(table, name) for name in names], axis=1).astype(float)
    kept, answers = [], []
    for number, (chunk_at, place) in enumerate(zip(table.chunk, table.place, strict=True)):
        passage, chunk, _ = placed[chunk_at]
        one = ScoredSentence(passage, chunk, int(place), sentence_text(chunk, int(place)), 0.0)
        if can_stand(one):
            kept.append(number)
            is_known = documents[chunk.document_id].name in row["relevant"]
            answers.append(is_known and contains(one.text, row["answers"]))
    rows = (0.0 if table.has_readings else LABEL) * table.label.astype(float)
    return columns[kept], rows[kept], np.array(answers, dtype=bool)


def report_sentences() -> list[Group]:
    """The same of TAT-QA, where a question is asked of its own document."""
    found = []
    with reports.library() as desk:
        ids = {document.name: document.id for document in desk.documents()}
        for row in progress(reports.questions(learning=True), "reports"):
            given = answer(desk, row["text"], scope=Scope(documents=(ids[row["document"]],)), reader=NoReader())
            if given is not None and given.quotes:
                found.append(_sentences(given, row | {"relevant": frozenset({row["document"]})}))
    return found


# --- learning --------------------------------------------------------------------------------------------------------


def fit_sentences(groups: Sequence[Group], names: Sequence[str] = SENTENCE) -> dict[str, float]:
    """Softmax over the sentences of a question, the mass on those that answer made large; plain gradient steps."""
    groups = [group for group in groups if group[2].any() and not group[2].all()]
    every = np.concatenate([features for features, _, _ in groups])
    spread = every.std(axis=0) + 1e-9
    weights = np.zeros(every.shape[1])
    for step in range(300):
        slope = 0.01 * weights
        for features, rows, answers in groups:
            scaled = features / spread
            score = scaled @ weights + rows
            chance = np.exp(score - score.max())
            chance /= chance.sum()
            wanted = chance * answers
            slope += (chance - wanted / wanted.sum()) @ scaled / len(groups)
        weights -= (2.0 if step < 200 else 0.5) * slope
    return {name: round(float(value), 2) for name, value in zip(names, weights / spread, strict=True)}


def fit_logistic(
    features: Floats, target: Floats, names: Sequence[str], balance: Floats
) -> tuple[dict[str, float], float]:
    mean, spread = features.mean(axis=0), features.std(axis=0) + 1e-9
    weights = logistic((features - mean) / spread, target, balance)
    raw = weights[:-1] / spread
    named = {name: round(float(value), 2) for name, value in zip(names, raw, strict=True)}
    return named, round(float(weights[-1] - raw @ mean), 2)


def logistic(features: Floats, target: Floats, balance: Floats, ridge: float = 1.0) -> Floats:
    """Newton's method; the last weight is the constant."""
    design = np.hstack([features, np.ones((len(features), 1))])
    weights = np.zeros(design.shape[1])
    penalty = np.diag([ridge] * features.shape[1] + [1e-6])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
        slope = design.T @ (balance * (chance - target)) + penalty @ weights
        bend = (design * (balance * chance * (1 - chance))[:, None]).T @ design + penalty
        step = np.linalg.solve(bend, slope)
        weights -= step
        if np.abs(step).max() < 1e-8:
            break
    return weights


def fit_confidence(given: Floats, right: Floats) -> tuple[tuple[float, float], ...]:
    """Isotonic: the share of right answers in groups of rising probability, made to rise."""
    order = np.argsort(given)
    groups = [(float(given[part].mean()), float(right[part].mean())) for part in np.array_split(order, KNOTS)]
    pooled: list[tuple[float, float, int]] = []
    for place, share in groups:
        pooled.append((place, share, 1))
        while len(pooled) > 1 and pooled[-2][1] > pooled[-1][1]:
            (a, x, m), (b, y, n) = pooled[-2:]
            pooled[-2:] = [((a * m + b * n) / (m + n), (x * m + y * n) / (m + n), m + n)]
    knots = [(round(place, 3), round(share, 3)) for place, share, _ in pooled]
    return ((0.0, 0.0), *knots, (1.0, knots[-1][1]))


def as_asked(found: Sequence[Row]) -> list[Row]:
    """Two of three questions as they are, the third without its passages."""
    return [row for row in found if row.way == ("passage" if row.number % 3 == 0 else "whole")]


def fit(part: str, most: int = 1500) -> None:
    """In rounds, for each rests on the one before: `sentences`, `found`, `right`; then `read_sentences`, `read`."""
    if part.startswith("read"):
        fit_read(part, most)
        return
    if part == "sentences":
        asked = rows("squad_dev11", most, ("whole",), reader=NoReader())
        groups = [row.sentences for row in asked if row.sentences is not None]
        _write(sentence=fit_sentences(groups + report_sentences()))
        return
    ways = {"found": WAYS, "right": ("whole", "passage")}[part]
    found = [row for name in LEARNED_FROM for row in rows(name, most, ways, reader=NoReader())]
    if part == "found":
        weights, constant = _fit_found(found, FOUND)
        _write(found=weights, found_intercept=constant)
    else:
        weights, constant = _fit_right(as_asked(found))
        _write(right=weights, right_intercept=constant)


def fit_read(part: str, most: int) -> None:
    """What is known where a reader has read; its own sets are not asked, of which it knows the answers."""
    if part == "read_sentences":
        asked = [row.sentences for name in READ_FROM for row in rows(name, most, ("whole",))]
        was_read = [group for group in asked if group is not None and group[0].shape[1] == len(READ)]
        _write(read=fit_sentences(was_read, READ))
        return
    if part == "read_row":
        _fit_row(most)
        return
    ways = WAYS if part == "read_told" else ("whole", "passage")
    found = [row for name in READ_FROM for row in rows(name, most, ways)]
    found = [row for row in found if "answered" in row.features and row.way != "impossible"]
    if part == "read_told":
        _fit_told([row for row in found if row.given.quotes and row.given.quotes[0].chance is None])
        return
    weights, constant = _fit_found(found, READ_FOUND)
    known = [row.features for row in found if row.set == "squad2_disfl" and row.way == "whole"]
    constant += _at_floor([constant + sum(weight * one[name] for name, weight in weights.items()) for one in known])
    right, right_constant = _fit_right(as_asked(found))
    spans = [row for row in found if row.way == "whole" and not row.given.is_refused and _span(row.given)]
    best = [max((quote.evidence for quote in row.given.quotes), key=lambda one: one.score) for row in spans]
    features = np.array([[one.share, one.span.score if one.span else 0.0] for one in best])
    is_near = np.array([row.span_f1 >= 0.5 for row in spans], dtype=float)
    short, short_constant = fit_logistic(features, is_near, SHORT, np.ones(len(spans)))
    asked = as_asked(found)
    given = np.array([probability(row.features) for row in asked])
    _write(
        read_found=weights,
        read_found_intercept=round(constant, 2),
        read_right=right,
        read_right_intercept=right_constant,
        short=short,
        short_intercept=short_constant,
        confidence=fit_confidence(given, np.array([row.is_right for row in asked], dtype=float)),
    )


def _fit_found(found: Sequence[Row], names: Sequence[str]) -> tuple[dict[str, float], float]:
    features = np.array([[row.features[name] for name in names] for row in found])
    there = np.array([row.way == "whole" for row in found], dtype=float)
    balance = np.where(there == 1, 0.5 / there.mean(), 0.5 / (1 - there.mean()))
    return fit_logistic(features, there, names, balance)


def _fit_right(asked: Sequence[Row]) -> tuple[dict[str, float], float]:
    right = np.array([row.is_right for row in asked], dtype=float)
    kinds = [right_features(row.given.relevance, row.given.quotes) for row in asked]
    features = np.array([[one[name] for name in RIGHT] for one in kinds])
    return fit_logistic(features, right, RIGHT, np.ones(len(right)))


def _fit_told(found: Sequence[Row]) -> None:
    kinds = [right_features(row.given.relevance, row.given.quotes) for row in found]
    features = np.array([[one[name] for name in RIGHT] for one in kinds])
    there = np.array([row.way == "whole" for row in found], dtype=float)
    balance = np.where(there == 1, 0.5 / there.mean(), 0.5 / (1 - there.mean()))
    weights, constant = fit_logistic(features, there, RIGHT, balance)
    known = np.array([row.set == "squad2_disfl" and row.way == "whole" for row in found])
    constant += _at_floor(features[known] @ np.array([weights[name] for name in RIGHT]) + constant)
    _write(read_told=weights, read_told_intercept=round(constant, 2))


def _fit_row(most: int) -> None:
    rows: list[tuple[float, float, bool]] = []
    with reports.library() as desk:
        ids = {document.name: document.id for document in desk.documents()}
        asked = reports.questions(learning=True)
        for row in progress(asked[:: max(1, len(asked) // most)], "rows"):
            own = answer(desk, row["text"], scope=Scope(documents=(ids[row["document"]],)))
            for given in (own, answer(desk, row["text"], frozenset([row["document"]]))):
                found = given.relevance.features if given is not None else {}
                if found.get("row") and "answered" in found:
                    rows.append((found["words"], found["answered"], given is own))
    features, there = np.array([row[:2] for row in rows]), np.array([row[2] for row in rows], dtype=float)
    balance = np.where(there == 1, 0.5 / there.mean(), 0.5 / (1 - there.mean()))
    weights, constant = fit_logistic(features, there, READ_ROW, balance)
    constant += _at_floor(features[there == 1] @ np.array([weights[name] for name in READ_ROW]) + constant)
    _write(read_row=weights, read_row_intercept=round(constant, 2))


def _at_floor(values: Sequence[float] | Floats) -> float:
    """What the log-odds of answerable questions lack, so that `answer.floor` refuses `REFUSED` of them."""
    floor = Settings().answer_floor
    return float(np.log(floor / (1 - floor)) - np.quantile(values, REFUSED))


def _write(**changed: Any) -> None:
    """The file with these numbers in place of its own."""
    known: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    FILE.write_text(json.dumps(known | changed, indent=1) + "\n", encoding="utf-8")
    print(FILE.read_text(encoding="utf-8"))


# --- measuring -------------------------------------------------------------------------------------------------------


def ece(score: Floats, right: Floats) -> float:
    """Expected calibration error over ten bins of equal width."""
    bins = np.minimum((score * BINS).astype(int), BINS - 1)
    return float(sum(abs(score[bins == b].mean() - right[bins == b].mean()) * (bins == b).mean() for b in set(bins)))


def figures(most: int = 400) -> list[Figure]:
    """The sets that `read` is learned from are asked too: theirs is no proof, squad_dev11's is."""
    made = []
    for name in ("squad_dev11", *READ_FROM):
        found = as_asked(list(rows(name, most, ("whole", "passage"), learning=False)))
        given = np.array([row.given.confidence for row in found])
        error = ece(given, np.array([row.is_right for row in found], dtype=float))
        what = f"calibration error of the confidence, {name}, a third without passage ({len(found)})"
        made.append(Figure(what, f"{error:.3f}", "≤ .08", error <= BAR))
        high = [row.is_right for row in found if row.given.level == "high" and not row.given.is_refused]
        share = sum(high) / max(1, len(high))
        shown = f"{share:.3f} of {len(high)}"
        made.append(Figure(f"`high` is right, {name}, a third without passage", shown, "≥ .9", share >= HIGH))
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", choices=(*ROUNDS, "all"), help="learn anew and write the file")
    parser.add_argument("--questions", type=int, default=1500)
    options = parser.parse_args(arguments)
    if not options.fit:
        for one in figures(options.questions):
            print(one, flush=True)
    elif options.fit == "all":
        raise SystemExit(f"one after the other, each in a process of its own: {', '.join(ROUNDS)}")
    else:
        fit(options.fit, options.questions)


if __name__ == "__main__":
    main()
