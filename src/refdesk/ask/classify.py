"""What kind of question is it, and what does that ask of the search? Rules first, then the nearest examples. Pure.

>>> read("List all suppliers", vector=None, examples=None, unknown=0).intent
'list'
"""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import Complexity, Hints, Intent, Query, Route
from refdesk.ports import Embedder
from refdesk.terms import QUERY_STOP_WORDS, words

# Which labelled questions are nearest to this one? Their labels say what kind of question it is.

ASSETS = Path(__file__).parent.parent / "assets"
QUESTIONS_FILE, VECTORS_FILE = "questions.json", "questions.npy"
SHIPPED = "minilm-l6-v2-int8"  # the embedder that the kept vectors belong to
NEAREST = 7  # examples that vote


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Labelled questions and their unit vectors."""

    labels: tuple[str, ...]
    vectors: NDArray[np.float32]
    places: Mapping[str, NDArray[np.intp]]  # of each label

    def votes(self, vector: NDArray[np.float32]) -> dict[str, float]:
        """The share of each label among the nearest examples, weighed by how near they are; best first."""
        cosines = np.vecdot(self.vectors, vector)
        nearest = np.argsort(-cosines)[:NEAREST]
        weights = np.exp(10.0 * (cosines[nearest] - cosines[nearest[0]]))  # a cosine .1 lower counts a third
        votes: dict[str, float] = {}
        for place, weight in zip(nearest, weights / weights.sum(), strict=True):
            votes[self.labels[place]] = votes.get(self.labels[place], 0.0) + float(weight)
        return dict(sorted(votes.items(), key=lambda vote: -vote[1]))

    def closest(self, vector: NDArray[np.float32]) -> dict[str, float]:
        """Per label the cosine of its nearest example."""
        cosines = np.vecdot(self.vectors, vector)
        return {label: float(cosines[places].max()) for label, places in self.places.items()}


@cache
def questions() -> tuple[tuple[str, str], ...]:
    """(label, question) of every example, in the order of the kept vectors."""
    listed: Mapping[str, list[str]] = json.loads((ASSETS / QUESTIONS_FILE).read_text(encoding="utf-8"))
    return tuple((label, text) for label, texts in listed.items() for text in texts)


_made: dict[str, Examples | None] = {}  # by embedder; None while they are being made, or when that failed
_making = threading.Lock()


def examples(embedder: Embedder) -> Examples | None:
    """The examples in the embedder's space; None until they are there, and rules alone decide."""
    with _making:
        if embedder.name not in _made:
            _made[embedder.name] = None
            if embedder.name == SHIPPED:
                kept = np.load(ASSETS / VECTORS_FILE).astype(np.float32)
                _made[embedder.name] = _examples(kept)
            else:
                threading.Thread(target=_make, args=(embedder,), name="examples", daemon=True).start()
    return _made[embedder.name]


def _make(embedder: Embedder) -> None:
    try:
        vectors = np.stack([embedder.embed_query(text) for _, text in questions()])
    except Exception:  # a server that does not answer: rules alone decide
        return
    _made[embedder.name] = _examples(vectors)


def _examples(vectors: NDArray[np.float32]) -> Examples:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    labels = tuple(label for label, _ in questions())
    places = {label: np.flatnonzero([other == label for other in labels]) for label in dict.fromkeys(labels)}
    return Examples(labels, vectors / np.maximum(lengths, 1e-9), places)


# What is said that is no question to the documents, and what is honest to reply?

# One pattern a line; the usual forms only: the nearest labelled questions know the others (ask/route.py).
_SPOKEN = {
    ("greeting", "en"): """
        hello|hi|hey|hiya|howdy|greetings|good (?:morning|afternoon|evening|day)|what'?s up
    """,
    ("greeting", "de"): "hallo|guten (?:morgen|tag|abend)|moin(?: moin)?|servus|grüß (?:gott|dich)|grüezi",
    ("greeting", "fr"): "bonjour|bonsoir|salut|coucou",
    ("greeting", "es"): "hola|buenos d[ií]as|buenas(?: tardes| noches)?",
    ("greeting", "it"): "ciao|buon ?giorno|buona ?sera|salve",
    ("thanks", "en"): r"""
        (?:(?:ok(?:ay)?|great|perfect|cool),? )?(?:many thanks|thanks|thank you|thx|cheers)(?: a lot| (?:so|very) much)?
        thank(?:s| you)(?: so much| very much)? for (?:your|the|all|that|this)[\w ]{0,25}
        (?:i )?(?:really )?appreciate (?:it|that)|much appreciated
    """,
    ("thanks", "de"): "danke(?: schön| sehr)?|vielen dank|besten dank",
    ("thanks", "fr"): "merci(?: beaucoup| bien)?",
    ("thanks", "es"): "(?:muchas )?gracias",
    ("thanks", "it"): "grazie(?: mille)?",
    ("goodbye", "en"): """
        (?:ok(?:ay)?,? )?(?:good ?bye|bye(?: bye)?|see you(?: later| soon| tomorrow)?|farewell|take care|good ?night)
        have a (?:nice|good|great) (?:day|evening|weekend|one)
    """,
    ("goodbye", "de"): "tschüss|auf wiedersehen|bis (?:bald|später)",
    ("goodbye", "fr"): "au revoir|à bientôt|bonne (?:journée|soirée)",
    ("goodbye", "es"): "adi[oó]s|hasta (?:luego|pronto|mañana)",
    ("goodbye", "it"): "arrivederci|a presto",
    ("abilities", "en"): r"""
        what (?:else )?(?:can|do|could) you (?:do|help (?:me )?with|answer|know)(?: for me)?
        what (?:can|could|should|may) i (?:ask|do with) (?:you|here)(?: about)?
        (?:what|which) (?:kinds?|sorts?|types?) of (?:questions|things|topics) can (?:i ask|you answer)[\w ]{0,15}
        (?:(?:can|could) you )?(?:please )?help(?: me)?(?: please)?|i need (?:some )?help
        how (?:can|could|do) you help(?: me)?|how do you work|how does this work
        what are (?:you able to do|your (?:capabilities|skills|abilities|features))
    """,
    ("identity", "en"): r"""
        who are you|what are you|what(?:'s| is) your name|do you have a name|(?:please )?tell me your name
        are you (?:an? )?(?:\w+ )?(?:human|person|bot|robot|machine|computer|program|chat ?bot|ai)(?: or (?:an? )?\w+)?
        who (?:made|built|created|programmed|designed|developed|owns|trained) you|who do you work for
        how old are you|where are you from|where do you (?:come from|live)|when were you (?:born|made|built)
        (?:tell me about|introduce|describe) yourself
    """,
    ("feeling", "en"): """
        how are you(?: doing| feeling)?(?: today)?|how do you do|how(?:'s| is) it going|how is your day(?: going)?
        (?:it'?s )?(?:nice|good|great|pleased) to (?:meet|see|talk to) you(?: too)?
        i (?:love|like|hate) you
        you(?:'re| are) (?:(?:so|very|really) )?(?:great|awesome|wrong|right|funny|stupid|smart|helpful|nice)
        what are your hobbies|do you (?:have|like|love) (?:any )?(?:pets|music|people|feelings|your job)
    """,
    ("acknowledgement", "en"): """
        ok(?:ay)?|alright|all right|fine|cool|great|perfect|nice|wow|good|excellent|right|sure|got it|i see|understood
        interesting|sounds (?:good|great)|makes sense|never ?mind|forget it|sorry|my mistake|oops|hmm+|haha+|lol
        (?:yes(?: please)?|yeah|yep|no(?: thanks| thank you| problem)?|nope|maybe|perhaps|of course|exactly|correct)
        that(?:'s| is| was) (?:all|it|good|great|helpful|right|correct|wrong|interesting|enough)(?: for now)?
        test(?:ing)?|(?:i'?m|i am) just testing|i (?:don'?t|do not) (?:know|understand)(?: you)?|that helps
    """,
}  # fmt: skip
_ADDRESS = r"(?:[ ,]++(?:there|all|everyone|again|friend|desk|refdesk|mate|sir|madam|to you|then|that helps|please))*"


def _either(text: str) -> str:
    return "|".join(f"(?:{line.strip()})" for line in text.strip().splitlines())


_PATTERNS = [
    (group, language, re.compile(rf"(?:(?:oh|well|so|and),? )?(?:{_either(text)}){_ADDRESS}\Z", re.IGNORECASE))
    for (group, language), text in _SPOKEN.items()
]
_FIRST = [text for (group, _), text in _SPOKEN.items() if group in ("greeting", "thanks")]
_GOES_ON = "and|but|what|who|when|where|which|why|how|is|are|can|could|do|does|did|tell|please|list|compare"
_OPENING = re.compile(
    rf"(?:{'|'.join(map(_either, _FIRST))}|ok(?:ay)?|so|well|alright|great|cool|please|sorry){_ADDRESS}"
    rf"(?:\s*+[,.!;:–-]++\s*|\s++(?=(?:{_GOES_ON})\b))",
    re.IGNORECASE,
)

_REPLIES = {
    ("greeting", "en"): "Hello. Ask me about your documents.",
    ("greeting", "de"): "Hallo. Fragen Sie mich etwas zu Ihren Dokumenten.",
    ("greeting", "fr"): "Bonjour. Posez-moi une question sur vos documents.",
    ("greeting", "es"): "Hola. Pregúnteme algo sobre sus documentos.",
    ("greeting", "it"): "Salve. Mi chieda qualcosa sui Suoi documenti.",
    ("thanks", "en"): "You are welcome.",
    ("thanks", "de"): "Gern geschehen.",
    ("thanks", "fr"): "Je vous en prie.",
    ("thanks", "es"): "De nada.",
    ("thanks", "it"): "Prego.",
    ("goodbye", "en"): "Goodbye.",
    ("goodbye", "de"): "Auf Wiedersehen.",
    ("goodbye", "fr"): "Au revoir.",
    ("goodbye", "es"): "Adiós.",
    ("goodbye", "it"): "Arrivederci.",
    ("abilities", "en"): (
        "I answer questions from the documents you have added, and show for each sentence the page and the lines that "
        "prove it. I can also summarise them, list things and compare them. What is not in the documents I do not know."
    ),
    ("identity", "en"): "I am Refdesk, a program that answers from the documents you have added. I am not a person.",
    ("feeling", "en"): "I am a program, so there is little to tell of me. Ask me about your documents.",
    ("acknowledgement", "en"): "Good. Ask me about your documents when you need something.",
    ("", "en"): "I only answer from the documents you have added. Ask me about them.",
}
OUT_OF_SCOPE = "I cannot do that: I only answer from the documents you have added."


def kind(text: str) -> str:
    """Which sort of small talk the whole text is, "" when it is none."""
    return _kind_and_language(text)[0]


def without_greeting(text: str) -> str:
    """The question after a greeting or a thank-you; the text itself when nothing would be left.

    >>> without_greeting("Hello, what is the warranty period?")
    'what is the warranty period?'
    """
    text, start = text.strip(), 0
    while (found := _OPENING.match(text, start)) is not None and found.end() < len(text):
        start = found.end()
    return text[start:]


def reply(query: Query) -> str:
    """What is said to small talk, and to what no document can do."""
    if query.route == "out_of_scope":
        return OUT_OF_SCOPE
    return _REPLIES[_kind_and_language(query.question)]


def _kind_and_language(text: str) -> tuple[str, str]:
    said = " ".join(text.replace("’", "'").split())
    whole = " ".join(re.sub(r"(?:(?<![\s,])[\s,]+)?(?<![!?.…,;:)(])[!?.…,;:)(]+(?=\s|\Z)", " ", said).split())
    rest = without_greeting(said).strip(" !?.…,;:")  # "Hello! How are you?" is a feeling
    for candidate in dict.fromkeys((whole, rest)):
        for group, language, pattern in _PATTERNS:
            if pattern.match(candidate):
                return group, language
    return "", "en"


HINTS: dict[Intent, Hints] = {
    "factual": Hints(),
    "list": Hints(top_k=15, template="list"),  # seed 001 step 4
    "comparison": Hints(top_k=14, use_mmr=True, template="comparison"),
    "summary": Hints(top_k=12, use_mmr=True, template="summary"),
    "analytical": Hints(top_k=12, use_reasoning=True, template="analytical"),
}
INTENTS: tuple[Intent, ...] = ("factual", "summary", "comparison", "list", "analytical")
CLEAR_VOTE = 0.8  # share of the nearest examples' votes that settles an intent no rule has settled …
CLEAR_COSINE = 0.5  # … when the nearest is at least this near
# Cosine to an example that settles a route other than searching. Of TREC's, SQuAD's and MTRAG's 2,009 questions 7 are
# taken away from the documents by these, docs/log.md; the second holds whatever words the documents know.
CHAT, CLEAR_CHAT, ERRAND = 0.5, 0.6, 0.6
LIBRARY = 0.75  # the same for a question about the list of documents
MARGIN = 0.1  # by how much such an example must be nearer than any question to documents
LONGEST_CHAT = 12  # words


@dataclass(frozen=True, slots=True)
class Reading:
    """How a question was read; `sure` is false where a model that writes may settle it."""

    route: Route = "needs_retrieval"
    intent: Intent = "factual"
    complexity: Complexity = "moderate"
    hints: Hints = HINTS["factual"]
    parts: tuple[str, ...] = ()
    why: str = ""
    sure: bool = True
    is_about_library: bool = False


def _any(patterns: str) -> re.Pattern[str]:
    """One pattern a line."""
    lines = [line.strip() for line in patterns.strip().splitlines()]
    return re.compile("|".join(f"(?:{line})" for line in lines), re.IGNORECASE)


# --- intent -------------------------------------------------------------------------------------------------------

_SUMMARY = _any(
    r"""
    \bsummar(?:y|ies|i[sz]e[ds]?|i[sz]ing)\b|\boverview\b|\btl;?\s?dr\b|\bgist\b|\brecap\b|\bsynopsis\b|\babstract of\b
    \bsum (?:it |this |that |them )?up\b|\bin a nutshell\b|\boutline (?:the|of)\b|\bbrief me\b|\bcondense\b
    \b(?:key|main|central) (?:points?|takeaways?|findings?|ideas?|messages?|topics?|conclusions?|themes?|insights?)\b
    \bwhat (?:is|are) (?:this|the|these|my|our) (?:\w+ )?(?:documents?|reports?|papers?|files?|books?|texts?) about\b
    \bwhat (?:is|are) (?:this|the|these|my|our) (?:\w+ )?(?:articles?|chapters?|contracts?|letters?|manuals?) about\b
    \bwhat do(?:es)? (?:this|the|these|my) (?:documents?|reports?|papers?|files?) (?:say|contain)(?: overall)?\s*\??$
    """
)
_COMPARISON = _any(
    r"""
    ^(?:please )?(?:compare|contrast)\b|\bcompar(?:ed (?:to|with)|isons?)\b|\bcompare (?:to|with|against)\b
    \bvs\.?\b|\bversus\b
    \bdifferences? (?:\w+ ){0,3}between\b|\bdiffer (?:from|in)\b|\bdiffer\s*\??$|\bdifferent (?:from|than|to)\b
    \bsimilarit(?:y|ies)\b|\bpros and cons\b|\bsets? .{1,50} apart\b|\bdistinguish\w* .{1,50} from\b
    \b(?:more|less|fewer|better|worse|\w{3,}er)\b(?: \w+){0,6} than (?!\d|one\b|two\b|three\b|half\b|an? |[$€£])
    \bwhich\b.{0,80}\b(?:more|less|better|worse|\w{3,}er)\b.{0,60}\bor\b|\bis it better to\b.{0,80}\bor\b
    \bwhich of the (?:two|three|four)\b|\badvantages?\b.{0,60}\bover\b|\bhow do(?:es)? .{1,80}\bcompare\b
    """
)
_REASONS = _any(
    r"""
    ^(?:so |and |but |then )?why\b
    \bwhat (?:has |have |had )?(?:caused|causes|led to|explains|triggers|drove|drives|contributed)\b
    """
)
_ANALYTICAL = _any(
    r"""
    \bwhy (?:did|do|does|is|are|was|were|has|have|would|should|might|can)\b|,? and why\s*\??$|\bto what extent\b
    \banaly[sz]e\b|\banalysis of\b|\b(?:evaluate|assess|interpret|discuss|critique|justify)\b|\bimplications?\b
    \bexplain (?:how|why|the (?:reasons?|role|effects?|impact|relationship|significance|difference|logic|reasoning))\b
    \bconsequences? of\b|\bwhat (?:would|will|might|could) happen (?:if|when)\b|\bstrengths and weaknesses\b
    \b(?:reasons?|rationale|motivation|explanation)\b.{0,25}\b(?:for|behind|why|of)\b|\btrends?\b
    \b(?:how|in what way)\b.{1,80}\b(?:affect|influence|impact|relate|contribute|shape|depend)(?:d|s|ed)?\b
    \b(?:relationship|connection|correlation|interplay) between\b
    \bwhat (?:can|could|should|may) (?:we|i|one|be) (?:conclude|infer|learn|deduce|learned|concluded|make of)\w*
    \bwhat (?:factors?|lessons?|role|impact|influence)\b.{1,80}\b(?:have|has|had|play\w*|contribut\w*|learn\w*|on)\b
    \bhow (?:important|significant|effective|successful|sustainable) (?:is|are|was|were)\b
    """
)
_THINGS = (
    "steps|requirements|ingredients|symptoms|types|kinds|sorts|options|features|components|benefits|advantages|disadvantages"
    "|duties|rules|exceptions|examples|members|reasons|effects|names|ways|methods|services|categories|stages|phases"
    "|criteria|responsibilities|tools|sources|risks|roles|uses|characteristics|factors|elements|objectives|goals"
    "|conditions|products|documents|limitations|restrictions|deadlines|fees|penalties|principles|functions|properties"
    "|signs|plans|countries|companies|cities|items|languages|subsidiaries|accessories|permissions|chapters|materials"
)
_LIST = _any(
    rf"""
    ^(?:please )?(?:list|enumerate|itemi[sz]e)\b|\blist (?:all|the|of|every|out)\b|^(?:all|every)\b
    ^(?:please )?(?:name|mention) (?:all|every|some|two|three|four|five|six|\d|the (?:two|three|four|five|six|\w+s\b))
    \b(?:give|show|tell|send) (?:me )?(?:a (?:full |complete )?list|all|every|(?:some )?examples|the names)\b
    \bwhat (?:are|were) (?:all |some (?:of )?)?(?:the |your |our |its |their )?(?:\w+[ -]){{0,3}}?(?:{_THINGS})\b
    \b(?:what|which) (?:\w+ )?(?:{_THINGS})\b|\bwho are (?:all )?(?:the|its|their|our) \w+s\b
    """
)

# --- errands: what no document can do ----------------------------------------------------------------------------

# Said to somebody who acts: these stay errands whatever the documents hold.
_ERRAND = _any(
    r"""
    ^(?:book|reserve|get|find|order|buy) (?:me|us) (?:an? |some |two )?(?:\w+ )?(?:flight|tickets?|hotel|room|table)\b
    ^(?:order|get|call|hail) (?:me |us )?(?:an? )?(?:pizza|taxi|cab|uber|ride|coffee)\b|^reserve a table\b
    ^(?:remind|wake|text|phone|sing|email) (?:me|my|us|mum|dad)\b|^call my\b
    ^(?:tell|say|give) (?:me |us )?(?:a |another |some )?(?:funny )?jokes?\b
    ^(?:write|compose|make up|sing|invent)(?: me| us)? (?:a |an |some )?(?:\w+ )?(?:poem|song|story|haiku|rap)\b
    ^(?:draw|paint|sketch)(?: me| us)? (?:a|an)\b|^(?:roll|throw) (?:a |the |some |two )?(?:dice|die)\b
    ^(?:flip|toss) a coin\b
    ^(?:set|start|stop|snooze) (?:an? |the |my )?(?:\w+ )?(?:alarm|timer|reminder) (?:for|at|to|in)\b
    ^(?:play|skip|pause|shuffle|resume) (?:some |the |my |to the )?(?:\w+ )?(?:music|songs?|track|album|playlist)\b
    ^(?:turn|switch) (?:on|off|up|down) (?:the |my |all )?(?:\w+ )?(?:lights?|lamps?|music|volume|tv|heating|radio)\b
    ^add .{1,40} to (?:my|the) (?:shopping|grocery|to-?do) list\b
    ^(?:can|could|would|will) you (?:please )?(?:book|order|play|call|remind|wake|text|sing|draw) (?:me|my)\b
    """
)
# Asked of the world as it is this minute: errands unless the documents hold all of these words.
_LIVE = _any(
    r"""
    \bweather\b.{0,40}\b(?:now|today|tomorrow|tonight|outside|this (?:week|weekend|morning|evening|afternoon))\b
    ^(?:what|how)(?:'s| is) the weather(?: like)?\s*\??$|^will it rain\b|^is it (?:raining|snowing|sunny)\b
    ^what(?:'s| is) the (?:current )?time\b|^what time is it\b|^what(?:'s| is) (?:the date|today'?s date)\s*\??$
    \b(?:current|today'?s) (?:exchange rate|stock price|share price|news|headlines|traffic)\b|^how do you say\b
    \bmy (?:account balance|shopping list|calendar|to-?do list|alarms?|reminders?|playlist|phone|location)\b|\bnear me\b
    """
)


def is_errand(text: str) -> bool:
    """Whether it sounds like one; the documents have still to be asked."""
    asked = without_greeting(text)
    return _ERRAND.search(asked) is not None or _LIVE.search(asked) is not None


def read(text: str, vector: Any, examples: Examples | None, unknown: int) -> Reading:
    """The route, intent, complexity and parts of a question.

    `unknown` counts the content words that no document holds: an errand is only assumed where there are some, unless
    it is said to somebody who acts ("book me a flight").
    """
    if group := kind(text):
        return Reading("conversational", complexity="simple", why=f"small talk: {group}")
    asked = without_greeting(text)
    if _ERRAND.search(asked):
        return Reading("out_of_scope", complexity="simple", why="an errand")
    if unknown and _LIVE.search(asked):
        return Reading(
            "out_of_scope", complexity="simple", why="asks for what is so this minute, not for what is written"
        )
    if away := _away_from_documents(asked, vector, examples, unknown):
        return Reading(away, complexity="simple", why="nearest examples", sure=False)
    if _is_about_library(asked, vector, examples):
        return Reading(complexity="simple", why="nearest examples: asks for the documents", is_about_library=True)
    parts = sides(asked)
    intent, why, sure = _intent(asked, parts, vector, examples)
    reading = Reading(intent=intent, parts=parts if intent == "comparison" else (), why=why, sure=sure)
    return replace(reading, complexity=_complexity(asked, intent), hints=HINTS[intent])


def _away_from_documents(text: str, vector: Any, examples: Examples | None, unknown: int) -> Route | None:
    """Small talk or an errand that no rule knows, near an example of one and far from all questions to documents."""
    if examples is None or vector is None or len(text.split()) > LONGEST_CHAT:
        return None
    closest = examples.closest(vector)
    needed = max(closest[intent] for intent in INTENTS) + MARGIN
    if closest["conversational"] >= max(needed, CHAT if unknown else CLEAR_CHAT):
        return "conversational"
    is_order = _QUESTION.match(text) is None  # a question may be one to the documents, "weather" or not
    return "out_of_scope" if unknown and is_order and closest["out_of_scope"] >= max(needed, ERRAND) else None


def _is_about_library(text: str, vector: Any, examples: Examples | None) -> bool:
    """Does it ask which documents there are? A question about what they say is nearer to other examples."""
    if examples is None or vector is None or len(text.split()) > LONGEST_CHAT:
        return False
    closest = examples.closest(vector)
    others = max(cosine for label, cosine in closest.items() if label != "library")
    return closest["library"] >= max(LIBRARY, others + MARGIN)


_QUESTION = re.compile(
    r"(?:what|who|whom|whose|when|where|which|why|how|is|are|was|were|do|does|did|has|have)\b", re.IGNORECASE
)
_ONE_FACT = re.compile(r"^(?:who|when|where|how (?:many|much|long|old|far|often|tall))\b", re.IGNORECASE)


def _intent(text: str, parts: tuple[str, ...], vector: Any, examples: Examples | None) -> tuple[Intent, str, bool]:
    """(intent, why, whether it is sure)."""
    if _SUMMARY.search(text):
        return "summary", "rule", True
    if _REASONS.search(text):
        return "analytical", "rule", True
    if parts or _COMPARISON.search(text):
        return "comparison", "rule", True
    if _ANALYTICAL.search(text):
        return "analytical", "rule", True
    if _LIST.search(text):
        return "list", "rule", True
    if examples is None or vector is None or _ONE_FACT.search(text):
        return "factual", "no rule applies", True
    votes, closest = examples.votes(vector), examples.closest(vector)
    best = max(INTENTS, key=lambda intent: votes.get(intent, 0.0))
    if best != "factual" and votes.get(best, 0.0) >= CLEAR_VOTE and closest[best] >= CLEAR_COSINE:
        return best, "nearest examples", False
    return "factual", "no rule applies", best == "factual"


_CLAUSE = re.compile(
    r"\b(?:and|also|then)\s+(?:what|who|when|where|which|why|how|is|are|do|does|did|can)\b", re.IGNORECASE
)


def _complexity(text: str, intent: Intent) -> Complexity:
    """Simple: a short question for one fact. Complex: several questions in one, or long, or to be reasoned about."""
    content = [word for word in words(text) if word not in QUERY_STOP_WORDS]
    several = text.count("?") > 1 or _CLAUSE.search(text) is not None
    if several or len(content) > 16 or (intent in ("analytical", "comparison") and len(content) >= 8):
        return "complex"
    return "simple" if intent == "factual" and len(content) <= 4 else "moderate"


# Does a question ask for a number? Learned from questions whose answers are known (benchmarks/number_questions.py).

FILE = ASSETS / "number_questions.npy"  # a weight for each dimension of the question's vector, then the constant


def asks_for_number(vector: Any, embedder: Embedder) -> float:
    """The chance; 0 for embedders that it was not learned for."""
    if embedder.name != SHIPPED:
        return 0.0
    weights = _weights()
    return 1.0 / (1.0 + math.exp(-float(vector @ weights[:-1] + weights[-1])))


@cache
def _weights() -> NDArray[np.float32]:
    found: NDArray[np.float32] = np.load(FILE)
    return found


# --- the sides of a comparison: each becomes a search of its own ----------------------------------------------------

MOST_SIDES = 4
LONGEST_QUESTION = 400  # characters; a longer one says in its own way what it compares
LONGEST_SIDE = 12  # words; a longer one is a clause, and the sentence was no comparison of two things


def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_ARTICLE = re.compile(r"^(?:the|a|an|our|their|its|both)\s+", re.IGNORECASE)
_PERIOD = re.compile(
    r"^(?:the\s+)?(?:(?:fiscal|fy|q[1-4]|h[12]|year|quarter)\s*)*(?:19|20)\d\d(?:\s*q[1-4])?$|^q[1-4]$", re.I
)
# A question is read from left to right: what opens it, then the first divider behind that, then what follows the sides.
# One expression for all of it would try every way to divide a question.
# What may follow the sides: "in terms of price", "on price", "in 2023".
_ASPECT = _expression(
    r"(?<![ ,])[ ,]++(?P<link>in terms of|with regard to|with respect to|regarding|concerning|when it comes to"
    r"|as regards|on|for|by|in|during|at|under) (?P<aspect>.+)"
)
_JOIN = r" (?:and|with|to|against|versus|vs\.?|or|from) "
_COMPARE = r"\b(?:compare|contrast|comparing|comparison of) (?:and contrast )?"
_HOW = r"^(?:how|in what way) (?:do|does|did|is|are|was|were) "
_FORMS = [
    (_expression(opening), _expression(divider), opening == _HOW and divider == " and ")
    for opening, divider in (
        # "difference in price between A and B", "differences between A and B in price"
        (
            r"\b(?:differences?|distinctions?|similarit(?:y|ies)|comparisons?) (?:(?:in|of) (?P<of>(?:\S++ ){1,12}?))?"
            r"between ",
            " and ",
        ),
        # "how does A differ from B", "how is A different from B", "how do A and B differ"
        (_HOW, r" (?:differ|different|distinct|distinguished) (?:from|to|than) "),
        (_HOW, " and "),
        (r"^what (?:distinguishes|separates|sets) ", r" (?:apart )?from "),
        # "how does A compare with B"
        (_HOW, r" compare[sd]? (?:with|to|against) "),
        # "compare the price of A and B", "compare A with B on price", "contrast A and B"
        (_COMPARE + r"(?:the )?(?P<of>(?:[\w-]++ ){1,12}?)(?:of|for|between) ", _JOIN),
        (_COMPARE, _JOIN),
        (r"^", r" (?:vs\.?|versus) "),
    )
]
_DIFFER = _expression(r" (?:differ|different|compare)\b")  # behind both sides, after "how do"
# "Which is heavier, A or B?", "Which city is larger: A or B?", "Who was older, A or B?"
_WHICH = _expression(
    r"(?:which|what|who)(?: [\w-]+){0,2}? (?:is|are|was|were|has|have|had|weighs|costs) (?:the )?"
    r"(?P<quality>[^,:?]+)[,:] ?"
)
_OR = _expression(" or ")
# "Is A cheaper than B?", "Does A have more storage than B?", "Did sales rise faster in Europe than in Asia?"
_IS, _DOES = _expression("(?:is|are|was|were) "), _expression("(?:does|do|did) ")
_QUALITY_THAN = _expression(r" (?P<quality>(?:more|less|fewer) [\w-]+|\w+er|better|worse) than ")
_VERB_MORE, _THAN = _expression(r" \w+ (?:more|less|fewer) "), _expression(" than ")
_THING = re.compile(r"[\w\s-]+")
# "How did revenue change from 2021 to 2022?", "… between Q1 and Q2"
_HOW_DID = _expression("how (?:much |far )?(?:do|does|did|has|have|had) ")
_CHANGED_FROM = _expression(
    r" (?:changed?|grown?|fall(?:en)?|risen?|differ(?:ed)?|developed?|evolved?|increased?|decreased?|declined?"
    r"|dropp?(?:ed)?) (?:from|between) "
)
_TO = _expression(" (?:to|and) ")
_POLITE = re.compile(
    r"^(?:please|can you|could you|would you|i want to know|tell me|explain|describe)\s+", re.IGNORECASE
)
_WHAT_IS = re.compile(
    r"^what(?:'s| is| are| was| were) (?=.*\b(?:vs\.?|versus)\b)(?:the )?(?!difference)", re.IGNORECASE
)

# Comparatives whose plain form their ending does not tell.
_PLAIN = {
    "better": "good", "worse": "bad", "bigger": "big", "hotter": "hot", "thinner": "thin", "larger": "large",
    "wider": "wide", "safer": "safe", "later": "late", "nicer": "nice", "closer": "close", "simpler": "simple",
    "denser": "dense", "rarer": "rare", "finer": "fine", "further": "far", "farther": "far", "elder": "old",
    "wetter": "wet", "purer": "pure", "looser": "loose", "stabler": "stable", "riper": "ripe",
}  # fmt: skip


def sides(question: str) -> tuple[str, ...]:
    """Stand-alone search texts for the things a question compares; empty when it compares nothing."""
    if len(question) > LONGEST_QUESTION:
        return ()
    text = _WHAT_IS.sub("", _POLITE.sub("", " ".join(question.split()).rstrip("?.! ")))
    found = _by_quality(text) or _by_change(text) or _by_form(text)
    return tuple(dict.fromkeys(found)) if 2 <= len(set(found)) <= MOST_SIDES else ()


def plain_form(comparative: str) -> str:
    """`heavier` -> `heavy`, `more reliable` -> `reliable`."""
    word = comparative.strip().lower()
    if word in _PLAIN:
        return _PLAIN[word]
    if (found := re.match(r"(?:more|less|fewer)\s+(.+)", word)) is not None:
        return found[1]
    if word.endswith("ier"):
        return word[:-3] + "y"
    return word[:-2] if word.endswith("er") else word


def _cut(text: str, *dividers: re.Pattern[str]) -> list[str]:
    """What stands between the dividers, each the first behind the one before it; empty when one is not there."""
    parts, start = [], 0
    for divider in dividers:
        found = divider.search(text, start + 1)
        if found is None:
            return []
        parts.append(text[start : found.start()])
        start = found.end()
    return [*parts, text[start:]] if start < len(text) else []


def _by_quality(text: str) -> list[str]:
    if (asked := _WHICH.match(text)) is not None:
        named = _cut(text[asked.end() :], _OR)
    elif (opening := _IS.match(text)) is not None and (asked := _QUALITY_THAN.search(text, opening.end() + 1)):
        named = [text[opening.end() : asked.start()], text[asked.end() :]]
    else:
        named = []
    if asked is not None and named and named[1] and not named[1][0].isdigit():
        return [f"How {plain_form(asked['quality'])} is {side}?" for side in _split(*named)]
    if (opening := _DOES.match(text)) is not None:
        more = _cut(text[opening.end() :], _VERB_MORE, _THAN)
        if more and _THING.fullmatch(more[1]):
            return [f"{more[1]} of {side}" for side in _split(more[0], more[2])]
    return []


def _by_change(text: str) -> list[str]:
    opening = _HOW_DID.match(text)
    found = _cut(text[opening.end() :], _CHANGED_FROM, _TO) if opening else []
    if not found or not all(_PERIOD.match(side.strip()) for side in found[1:]):
        return []
    return [f"{found[0]} in {side.strip()}" for side in found[1:]]


def _by_form(text: str) -> list[str]:
    for opening, divider, to_verb in _FORMS:
        opened = opening.search(text)
        named = _cut(text[opened.end() :], divider) if opened else []
        if not opened or not named:
            continue
        last, link, aspect = _without_aspect(named[1], to_verb=to_verb)
        split = _split(named[0], last) if last else []
        if split:
            of = _ARTICLE.sub("", opened.groupdict().get("of") or "").strip()
            return [_searched(side, of, aspect, link) for side in split]
    return []


def _without_aspect(side: str, *, to_verb: bool) -> tuple[str, str, str]:
    """The last side (up to "differ", when `to_verb`), and in which respect the sides are compared."""
    if not to_verb:
        found = _ASPECT.search(side, 1)
        return (side[: found.start()], found["link"].lower(), found["aspect"]) if found else (side, "", "")
    for verb in _DIFFER.finditer(side, 1):
        if (found := _ASPECT.match(side, verb.end())) is not None:
            return side[: verb.start()], found["link"].lower(), found["aspect"]
        if verb.end() == len(side):
            return side[: verb.start()], "", ""
    return "", "", ""


def _searched(side: str, of: str, aspect: str, link: str) -> str:
    """One side with what is asked of it: `warranty of the TG-4`, `TG-4 in 2023`, `price of the TG-4`."""
    if of:
        side = f"{of} in {side}" if _PERIOD.match(side) else f"{of} of {side}"
    if not aspect:
        return side
    is_place = link in ("during", "at", "under", "for") or (link == "in" and not aspect.islower())
    return f"{side} {link} {aspect}" if is_place else f"{aspect} of {side}"


def _split(first: str, last: str) -> list[str]:
    """The sides, `A, B` and `C`, with what they share given to each: "the basic and the premium plan"."""
    named = [side.strip(" ,") for side in (*re.split(r"(?:(?<!\s)\s+)?,\s*(?:and\s+)?", first), last)]
    named = [side for side in named if side]
    if any(len(side.split()) > LONGEST_SIDE for side in named):
        return []
    *before, tail = named
    return [*(_with_noun_of(side, tail) for side in before), _completed(tail, before[0])] if before else []


def _with_noun_of(side: str, tail: str) -> str:
    """`the basic` beside `the premium plan` -> `the basic plan`."""
    words, others = _ARTICLE.sub("", side).split(), _ARTICLE.sub("", tail).split()
    is_bare = len(words) == 1 and words[0].islower() and words[0].isalpha()
    same_article = bool(_ARTICLE.match(side)) == bool(_ARTICLE.match(tail))
    return f"{side} {others[-1]}" if is_bare and len(others) == 2 and same_article and others[-1] != "one" else side


def _completed(tail: str, first: str) -> str:
    """The last side with what it takes from the first: `2022` after `revenue in 2021` -> `revenue in 2022`."""
    words = first.split()
    if found := re.match(r"(?:that|those) (of|in|for) (.+)", tail, re.IGNORECASE):
        return f"{_ARTICLE.sub('', first).split(' of ')[0].split(' in ')[0]} {found[1]} {found[2]}"
    if tail.endswith((" one", " ones")):
        return f"{tail.rsplit(' ', 1)[0]} {words[-1]}"
    link = next((place for place, word in enumerate(words) if word.lower() in ("in", "of", "for")), 0)
    period = tail.removeprefix("in ")
    if link and _PERIOD.match(" ".join(words[link + 1 :])) and _PERIOD.match(period):
        return " ".join([*words[: link + 1], period])
    return tail
