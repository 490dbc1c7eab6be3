"""What kind of question is it, and what does that ask of the search? Rules first, then the nearest examples. Pure.

>>> read("List all suppliers", vector=None, examples=None, unknown=0).intent
'list'
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from refdesk.answer import Complexity, Hints, Intent, Route
from refdesk.ask.compare import sides
from refdesk.ask.examples import Examples
from refdesk.ask.smalltalk import kind, without_greeting
from refdesk.terms import QUERY_STOP_WORDS, words

HINTS: dict[Intent, Hints] = {
    "factual": Hints(),
    "list": Hints(top_k=15, template="list"),  # seed 001 step 4
    "comparison": Hints(top_k=14, use_mmr=True, template="comparison"),
    "summary": Hints(top_k=12, use_mmr=True, template="summary"),
    "analytical": Hints(top_k=12, use_reasoning=True, use_graph=True, template="analytical"),
}
INTENTS: tuple[Intent, ...] = ("factual", "summary", "comparison", "list", "analytical")
CLEAR_VOTE = 0.7  # share of the nearest examples' votes that settles an intent no rule has settled
CLEAR_CHAT = 0.72  # cosine to an example of small talk or of an errand that settles the route
_SMALL = 0.12  # by how much such an example must be nearer than any question to documents


@dataclass(frozen=True, slots=True)
class Reading:
    """How a question was read; `sure` is false where a model that writes may settle it."""

    route: Route = "needs_retrieval"
    intent: Intent = "factual"
    complexity: Complexity = "moderate"
    hints: Hints = Hints()
    parts: tuple[str, ...] = ()
    why: str = ""
    sure: bool = True


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{one})" for one in patterns), re.IGNORECASE)


# --- intent ----------------------------------------------------------------------------------------------------------

_WORKS = r"(?:documents?|reports?|papers?|files?|books?|texts?|articles?|chapters?|contracts?|pdfs?|thes[ie]s|letters?|manuals?|sections?|pages?|studies|study)"
_SUMMARY = _any(
    r"\bsummar(?:y|ies|i[sz]e[ds]?|i[sz]ing)\b", r"\boverview\b", r"\btl;?\s?dr\b", r"\bgist\b", r"\brecap\b", r"\bsum (?:it |this |that |them )?up\b",
    r"\b(?:key|main|central|major|important) (?:points?|takeaways?|findings?|ideas?|messages?|topics?|conclusions?|themes?|insights?)\b",
    rf"\bwhat (?:is|are|was|were) (?:this|the|these|that|my|our) (?:\w+ )?{_WORKS} (?:all )?about\b", r"\b(?:in a nutshell|in short|in brief|synopsis)\b",
    rf"\boutline (?:the|of)\b|\bcondense\b|\babstract of\b|\bbrief me\b", rf"\bwhat do(?:es)? (?:this|the|these|my) {_WORKS} (?:say|contain|cover|describe)s?(?: overall)?\s*\??$",
)  # fmt: skip
_COMPARISON = _any(
    r"\bcompar(?:e|es|ed|ing|ison|isons)\b(?! to me)", r"\bdifferences?\b.{0,60}\b(?:between|among|from|in)\b", r"\b(?:how|what|where|in what way)\b.{0,80}\bdiffer(?:s|ed|ent)?\b",
    r"\bvs\.?\b|\bversus\b", r"\bcontrast\b", r"\bsimilarit(?:y|ies)\b", r"\b(?:distinguish\w*|sets? .{1,50} apart)\b", r"\bpros and cons\b",
    r"\b(?:more|less|fewer|better|worse|rather|\w{3,}er)\b(?: \w+){0,6} than\b", r"\bwhich\b.{0,80}\b(?:more|less|better|worse|\w{3,}er)\b.{0,60}\bor\b",
    r"\bwhich of the (?:two|three|four)\b", r"\badvantages?\b.{0,60}\bover\b", r"\bis it better to\b.{0,80}\bor\b",
)  # fmt: skip
_NOT_COMPARISON = _any(
    r"\b(?:more|less|fewer|older|younger|longer|higher|lower|greater|larger|later|earlier|other|rather) than (?:\d|one|two|three|a |an |half|[$€£])"
)
_LIST = _any(
    r"^(?:please )?(?:list|enumerate|name|mention|itemi[sz]e)\b", r"\b(?:give|show|tell|send|get) (?:me )?(?:a (?:full |complete )?list|all|every|examples?|some examples|the names|the list)\b",
    r"\blist (?:all|the|of|every|out|me)\b", r"^(?:all|every)\b(?! of a sudden)", r"\bwhat (?:are|were) (?:all |some (?:of )?)?(?:the |your |our |its |their |his |her |my )?(?:\w+[ -]){0,3}?"
    r"(?:steps|requirements|ingredients|symptoms|types|kinds|options|features|components|benefits|advantages|disadvantages|duties|rules|exceptions|examples|parts|members|reasons|"
    r"effects|causes|names|ways|methods|services|categories|stages|phases|criteria|responsibilities|tools|sources|risks|roles|forms|uses|characteristics|factors|elements|objectives|goals|"
    r"conditions|products|documents|limitations|restrictions|deadlines|fees|penalties|principles|functions|properties|signs|options|plans|programs|programmes|departments|agencies)\b",
    r"\b(?:what|which) (?:\w+ )?(?:documents|steps|types|kinds|sorts|options|products|countries|features|companies|states|cities|tools|ingredients|services|items|people|members|things|languages|factors|"
    r"subsidiaries|books|films|songs|accessories|permissions|chapters|sections|requirements|materials|methods|symptoms|vaccines|agencies|organisations|organizations)\b(?! of | does)",
    r"\bwho are (?:all )?(?:the|its|their|our) \w+s\b", r"\bmention (?:two|three|four|five|\d|all|some)\b",
)  # fmt: skip
_ANALYTICAL = _any(
    r"^(?:so |and |but |then )?why\b", r"\bwhy (?:did|do|does|is|are|was|were|has|have|would|should|might|can)\b", r"\banaly[sz]e\b|\banalysis of\b", r"\b(?:evaluate|assess|interpret|discuss|critique|justify|argue)\b",
    r"\bexplain (?:how|why|the (?:reason|role|effect|impact|relationship|significance|difference|logic|mechanism|rationale))", r"\bimplications?\b", r"\bconsequences? of\b", r"\bto what extent\b",
    r"\bwhat (?:would|will|might|could) happen (?:if|when)\b", r"\bwhat (?:has |have |had )?(?:caused|causes|led to|explains|triggers|drove|drives|contributed)\b", r"\b(?:reasons?|rationale|motivation|explanation)\b.{0,25}\b(?:for|behind|why|of)\b",
    r"\bhow (?:do|does|did|has|have|might|would|could|will|can|is|are|was|were)\b.{1,80}\b(?:affect|influenc|impact|relate|contribut|shap(?:e|ed|ing)\b|interact|depend)\w*",
    r"\b(?:relationship|connection|correlation|link|interplay) between\b", r"\bwhat (?:can|could|should|may|do) (?:we|i|one|you) (?:conclude|infer|learn|deduce|make of)\b", r"\btrends?\b",
    r"\bwhat (?:factors?|lessons?|role|impact|effects?|influence)\b.{1,80}\b(?:have|has|had|play\w*|contribut\w*|learn\w*|led|on)\b", r"\bhow (?:important|significant|effective|successful|sustainable) (?:is|are|was|were)\b",
    r"\bstrengths and weaknesses\b", r"\bshould (?:we|the company|i)\b.{0,80}\?*$",
)  # fmt: skip

# --- errands: what no document can do ----------------------------------------------------------------------------------

# Said to somebody who acts: these stay errands whatever the documents hold.
_ERRAND = _any(
    r"^(?:book|reserve|get|find|order|buy|call|hail) (?:me|us) (?:an? |some |two |the )?(?:\w+ )?(?:flight|ticket|hotel|room|table|taxi|cab|uber|lyft|pizza|coffee|ride|car|seat|lunch|dinner)\b",
    r"^(?:remind|wake|text|call|phone|ring|email|message|sing|drive|drop) (?:me|my|us|mom|mum|dad)\b", r"^(?:tell|say|give) (?:me |us )?(?:a |another |some )?(?:funny )?jokes?\b",
    r"^(?:write|compose|make up|sing|rap|invent)(?: me| us)? (?:a |an |some )?(?:\w+ )?(?:poem|song|story|haiku|limerick|joke|rap|sonnet|lullaby|tale)\b",
    r"^(?:draw|paint|sketch)(?: me| us)? (?:a|an|the|my)\b", r"^(?:roll|throw) (?:a |the |some |two )?(?:\w+ )?(?:dice|die)\b", r"^(?:flip|toss) (?:a |the )?coin\b",
    r"^(?:set|start|stop|cancel|snooze|create) (?:an? |the |my )?(?:\w+ )?(?:alarm|timer|reminder)\b(?: (?:for|at|to|in) .*)?$", r"^(?:play|skip|pause|shuffle|resume)\b.{0,40}\b(?:music|song|songs|track|album|playlist|radio|jazz|rock|movie|video)\b",
    r"^(?:turn|switch) (?:on|off|up|down) (?:the |my |all )?(?:\w+ )?(?:lights?|lamps?|music|volume|tv|heating|heat|fan|radio|thermostat|speakers?)\b",
    r"^(?:transfer|send|move|wire|pay) (?:\$|€|£)?\d+.{0,40}\b(?:to|from|into)\b", r"^add .{1,40} to (?:my|the) (?:shopping|grocery|to-?do|todo) list\b",
    r"^(?:can|could|would|will) you (?:please )?(?:book|order|play|call|turn (?:on|off)|remind|wake|text|sing|draw|write me a (?:poem|song|story))\b", r"^schedule (?:a |an |my )?(?:\w+ )?(?:meeting|appointment|call) (?:with|for|on|at)\b",
)  # fmt: skip
# Asked of the world as it is this minute: errands unless the documents hold all of these words.
_LIVE = _any(
    r"\bweather\b.{0,40}\b(?:now|today|tomorrow|tonight|outside|this (?:week|weekend|morning|evening|afternoon))\b", r"^(?:what(?:'s| is) the weather|how(?:'s| is) the weather|will it rain|is it (?:raining|snowing|sunny|cold outside))",
    r"^what(?:'s| is) the (?:current )?time\b|^what time is it\b|^what(?:'s| is) (?:the date(?: today)?|today'?s date)\s*\??$|^what day is (?:it|today)\b", r"\b(?:current|today'?s|latest) (?:exchange rate|stock price|share price|news|headlines|traffic|score)\b",
    r"\btraffic\b.{0,40}\b(?:now|today|on my way|to work)\b", r"\bmy (?:account balance|shopping list|calendar|to-?do list|alarms?|reminders?|playlist|phone|location)\b", r"\btranslate\b.{1,60}\b(?:in)?to [A-Z]?\w+\b",
    r"\bnear(?:est)? (?:me|to me|here)\b|\bnearby\b", r"\bwhere am i\b", r"^how do you say\b",
)  # fmt: skip


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
    if unknown and (away := _away_from_documents(asked, vector, examples)):
        return Reading(away, complexity="simple", why="nearest examples", sure=False)
    parts = sides(asked)
    intent, why, sure = _intent(asked, parts, vector, examples)
    reading = Reading(intent=intent, parts=parts if intent == "comparison" else (), why=why, sure=sure)
    return replace(reading, complexity=_complexity(asked, intent), hints=HINTS[intent])


def _away_from_documents(text: str, vector: Any, examples: Examples | None) -> Route | None:
    """Small talk or an errand that no rule knows, near an example of one and far from all questions to documents."""
    if examples is None or vector is None or len(text.split()) > 12:
        return None
    closest = examples.closest(vector)
    question = max(closest[intent] for intent in INTENTS)
    routes: tuple[Route, ...] = ("conversational", "out_of_scope")
    best = max(routes, key=lambda route: closest[route])
    return best if closest[best] >= CLEAR_CHAT and closest[best] >= question + _SMALL else None


def _intent(text: str, parts: tuple[str, ...], vector: Any, examples: Examples | None) -> tuple[Intent, str, bool]:
    if _SUMMARY.search(text):
        return "summary", "rule", True
    if parts or (_COMPARISON.search(text) and not _NOT_COMPARISON.search(text)):
        return "comparison", "rule", True
    if _ANALYTICAL.search(text):
        return "analytical", "rule", True
    if _LIST.search(text):
        return "list", "rule", True
    if examples is None or vector is None:
        return "factual", "no rule applies", False
    votes = examples.votes(vector)
    best = max(INTENTS, key=lambda intent: votes.get(intent, 0.0))
    if best != "factual" and votes.get(best, 0.0) >= CLEAR_VOTE:
        return best, "nearest examples", False
    return "factual", "no rule applies", best == "factual"


_CLAUSE = re.compile(
    r"\b(?:and|also|then)\s+(?:what|who|when|where|which|why|how|is|are|do|does|did|can)\b", re.IGNORECASE
)


def _complexity(text: str, intent: Intent) -> Complexity:
    """Simple: a short question for one fact. Complex: several questions in one, or long, or to be reasoned about."""
    content = [word for word in words(text) if word not in QUERY_STOP_WORDS]
    several = text.count("?") > 1 or _CLAUSE.search(text) is not None
    if several or len(content) > 16 or (intent in ("analytical", "comparison") and len(content) > 8):
        return "complex"
    return "simple" if intent == "factual" and len(content) <= 4 else "moderate"
