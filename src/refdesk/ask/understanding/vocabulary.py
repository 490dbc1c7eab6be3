"""The words of asking: which of them end a noun phrase, and which say only what is wanted of a thing."""

from __future__ import annotations

from refdesk.terms import QUERY_STOP_WORDS
from refdesk.text import STOP_WORDS


def word_set(text: str) -> frozenset[str]:
    """`"do does did"` -> {do, does, did}."""
    return frozenset(text.split())


# Common verbs, adverbs and adjectives of questions: they end a noun phrase.
_VERBS = """
    accept accepted add added affect affected afford agree allow allowed allows answer appear applied apply arrive ask
    asked avoid became become began begin behave belong bought bring brought build built buy call called came cancel
    cause caused causes change changed changes check choose chose clarify clean come comes compare compared complete
    consider considered contain contains continue convert create created cure cut deal decide decided define defined
    delete deleted depend depends describe described determine develop developed die died differ discover do does
    doing done draw drive eat elaborate enable encourage end ended ensure enter exist exists expect explain fail fall
    feel fell file fill find finish fit fix follow followed follows found gave get gets getting give given gives go
    goes going gone got grew grow handle happen happened happens hear help helped helps hold improve include included
    includes increase increased install installed invent invented involve involved join joined keep kept knew know
    known last lead leave led left let like list listen live lived look looking lose lost made make makes making
    manage manufacture mean means meant measure meet mention mentioned met move moved named need needed needs occur
    occurred offer offered offers open order organise outline own owned paid pass pay perform performed pick place
    play played plays prepare prevent produce produced produces protect prove provide provided provides publish
    published put raise ran reach read receive received recommend recommended reduce refer register release released
    rely remain remember remove replace replaced report require required requires result return run runs said save saw
    say says see seek seem seen sell send sent serve set show shows sign solve sound speak specify spend spent split
    start started stay stick stop stopped store suffer suggest suggested summarise summarize supply support supported
    supports suppose switch take taken takes talk talked taught teach tell tells think thought throw told took travel
    treat tried try trying turn understand update updated use used uses using vary visit vote want wanted wants was
    watch went win won wonder wondering work worked works worn worth write written wrote yield
"""
_OTHERS = """
    able about accordingly across actually after ago ahead almost alone along already also although always among
    amount another anybody anymore anyone anything anyway approximately around available average away back bad
    basically because before behind below besides best better between beyond big bit certain cheap clear clearly cold
    common commonly currently dangerous deep different directly due early easily easy either else enough especially
    etc even ever every everybody everyone everything exact exactly except expensive famous far fast few fewer finally
    fine first following former fully further generally good great greater hard heavy hello here hi high higher hot
    however important instead interesting its itself just kind kinds large larger largest lastly late later latest
    latter least less likely little long longer longest lot lots low lower lowest main mainly major many maximum maybe
    might minimum modern more most mostly much must near nearly necessary never new newer next nice nobody none
    normally nothing now often ok okay old older once one ones only onto other others otherwise overall particular
    people per perhaps person please popular possible possibly probably properly quick quickly quite rather ready real
    really recently regarding relevant right safe same second several shall short should similar similarly simply
    since single small smaller so some somebody someone something sometimes somewhat soon sort sorts specific
    specifically still straight strong successful such suddenly sure tall than thank thanks therefore thick thin thing
    things third though through thus together tomorrow too top totally towards true twice type types typical typically
    under unless unlike until upon useful usual usually various very via warm way ways weak well whatever whenever
    whereas wherever whether while whole whose wide within without wrong yes yesterday yet
"""
BREAKS = word_set(_VERBS) | word_set(_OTHERS) | STOP_WORDS | QUERY_STOP_WORDS
# Nouns of asking: they say what is wanted of a thing, and are no thing to come back to.
ASKING = word_set(
    """
    advantage advantages afternoon answer area areas article aspect aspects basis benefit benefits book case cases
    cause causes chance cons cost costs country date day days definition degree description detail details difference
    differences disadvantage disadvantages document drawback drawbacks effect effects evening example examples fact
    factor factors facts feature features form function goal history hour hours idea impact importance information
    issue issues kind level limit limits list look main meaning method methods minute minutes month months morning
    name names night number numbers option options order origin overview page part parts people percentage period
    place places point points price prices problem problems process pros purpose question questions reason reasons
    recommendation recommendations region relation requirement requirements result results role rule rules section
    sense show sign signs similarities size sizes solution solutions source sources stage status step steps subject
    summary symptom symptoms term terms text time times tip tips today tool tools topic topics total treatment
    treatments type types use uses value way ways week weekend weeks world year years
    """
)
# Verbs that are nouns after an article: "the file size".
NOUN_OR_VERB = word_set(
    """
    answer call cause change check cut deal drive end fall file fit help hold increase lead list look move need offer
    order pass pay place play raise release report result return run save set show sign sound start store supply
    support switch talk travel turn update use visit vote watch win work yield
    """
)
# What people write without its apostrophe; near other words, and meant.
CONTRACTIONS = word_set(
    """
    arent cant couldnt didnt doesnt dont hadnt hasnt havent hows isnt ive shouldnt thats theres theyre theyve wasnt
    werent whats whens wheres whos whys wont wouldnt youre youve
    """
)
