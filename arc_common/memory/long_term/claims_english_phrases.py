"""The phrases by which English statements say that something is over, has changed, is meant, or was."""

import re

__all__ = [
    "ADDITIVE",
    "CAUSED",
    "CHANGES",
    "CONTRACTIONS",
    "DISLIKES",
    "ENDS",
    "HYPOTHETICAL",
    "INTENDED",
    "LEARNS",
    "LONG_AGO",
    "NEGATION",
    "NOW",
    "PAST",
    "PHRASES",
    "RATHER",
    "SWAPS",
    "TAIL",
]

CONTRACTIONS = tuple(
    (re.compile(pattern, re.IGNORECASE), full)
    for pattern, full in (
        (r"\bcan't\b|\bcannot\b", "can not"),
        (r"\bwon't\b", "will not"),
        (r"n't\b", " not"),
        (r"\bi'm\b", "i am"),
        (r"'re\b", " are"),
        (r"'ve\b", " have"),
        (r"'ll\b", " will"),
        (r"\b(he|she|it|that|there|who|what)'s\b", r"\1 is"),
        (r"\b(i|we|you|he|she|they)'d\b", r"\1 would"),
        (r"\bi've\b", "i have"),
    )
)

NEGATION = re.compile(
    r"\b(?:not|no|no longer|never|none|without|nobody|neither|hardly|rarely|cannot|[a-z]+n't)\b(?! (?:problem|only"
    r"|just))"
)

NOW = re.compile(r"\b(?:now|nowadays|these days|instead|from now on|lately|longer|for good|at present)\b")

ADDITIVE = re.compile(
    r"\b(?:also|too|as well|another|an? second|additional|extra|besides|either|both|sometimes|occasionally|either)\b"
)

PAST = re.compile(
    r"\b(?:once(?! (?:an?|per|every|in)\b)|formerly|previous|previously|former|ex|as an? (?:child|kid"
    r"|teenager)"
    r"|growing up|when (?:he|she|they|i|we) (?:was|were)|back then|originally|for years|was born)\b"
)

HYPOTHETICAL = re.compile(
    r"\?\s*$|\b(?:if|would|might|(?-i:may)(?! \d)|could|maybe|perhaps|considering|thinking (?:of|about)|wish|wishes"
    r"|dreams? of|unless"
    r"|wonder|wondering|should i|appl(?:ied|ying) (?:for|to)|looking (?:for|at|into)|interview\w*)\b",
    re.IGNORECASE,
)

LONG_AGO = re.compile(r"\b(?:ago|in (?:19|20)\d\d)\b")
"""What says when something happened: a state that began then may have ended since."""

INTENDED = re.compile(
    r"\b(?:plans? (?:to|on)|planning|want|wants|hope|hopes|hoping|intend|intends|going to|need to|needs to|like to"
    r"|aim"
    r"|aims|aiming|saving)\b"
)

CAUSED = re.compile(
    r"^.{0,60}?\b(?:let|made|makes|had|got|allowed|told|asked|advised|has|have|(?P<verb>moved|switched|put|took"
    r"|transferred|promoted))"
    r" (?:me|us|user|the user)\b(?(verb)| to)?"
)
"""What somebody has the user do: the user does it."""

TAIL = re.compile(
    r"\b(?:last|this|next|past|earlier this|in the past) (?:night|day|week|weekend|month|year|spring|summer|autumn"
    r"|fall|winter|time"
    r"|january|february|march|april|may|june|july|august|september|october|november|december"
    r"|monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b"
    r"|\bfor good\b|\bafter all\b|^(?:it )?turns out (?:that )?|^(?:apparently|actually|in fact)\b|\byesterday\b"
    r"|\bsince .*$|\bat all\b|\bcold turkey\b|\bas of .*$",
    re.IGNORECASE,
)

ENDS = re.compile(
    r"\b(?:quit|quits|quitting|stopp(?:ed|ing)|stops|g(?:a|i)v(?:e|es|en|ing) up(?: on)?|gave away|giving away"
    r"|gave(?= (?:my|our|the|his|her|their)\b)|ran out|run out|died|passed away"
    r"|dropp(?:ed|ing)"
    r"(?: out of)?|ditch(?:ed|ing)?|scrapp(?:ed|ing)|abandon(?:ed|ing)|cancel(?:s|l?ed|l?ing)?|sold"
    r"|sell(?:ing)?"
    r"|got rid of|get rid of|resigned(?: from)?|left|leaving|delet(?:ed|ing)|uninstalled|cut out|cutting out"
    r"|unsubscribed(?: from)?"
    r"|with(?:drew|drawn) from|retired from|parted with|broke up with|broke off|split up with|threw (?:away|out)"
    r"|thrown (?:away|out)"
    r"|returned|done with|finished with|fed up with|sworn off|swore off|came off|off(?: of)?(?= (?:the|my)\b)"
    r"|donated|gave back|outgr(?:ew|own)|called off|calling off|backed out of|pulled out of|turned down|moved out of"
    r"|dumped|terminated|lost|paid off|skip|rehomed?|expire|lapse|discontinued|removed|closed down|shut down"
    r"|skipp(?:ed|ing)"
    r"|let go of"
    r"|kicked|stepped down (?:as|from)|fired|fallen out with|cured of|over(?= my| the)|ended|ending|expired|lapsed?"
    r"|phased out"
    r"|taken off|took off|rid of|ceased|put away|put down|recovered from|tired of|stop|cancel|sell|delete"
    r"|give up(?: on)?|pull out of|back out of|drop out of|get rid of|move out of|break up with|br(?:oke|eak) up"
    r"|split up|separated|(?:gone|went|came) off|(?<=\b(?:is|re) )(?:finished|over|done)$|(?<=\bare )(?:finished"
    r"|over|done)$"
    r"|clos(?:ed|ing)(?= (?:my|our|the|his|her|their|that)\b)|uninstall|unsubscribe(?: from)?"
    r"|resign(?: from)?)(?![\w-])"
)
"""How something is over: what stands behind it, or the subject if nothing does."""

DISLIKES = re.compile(
    r"\b(?:hates?|hated|dislikes?|disliked|detests?|loathes?|despises?|avoids?|avoiding|(?:can|do|does) not stand"
    r"|can not bear)\b"
)

CHANGES = re.compile(
    r"\b(?:(?<=to )(?:move|change|switch|push|postpone|reschedule|extend|raise|cut|lower)|chang(?:ed|es|ing)"
    r"|mov(?:ed|es|ing)|switch(?:ed|es|ing)|renam(?:ed|ing)|push(?:ed|ing)|postpon(?:ed|ing)"
    r"|rais(?:ed|ing)"
    r"|increas(?:ed|es|ing)|lower(?:ed|ing)|reduc(?:ed|ing)|cut|bump(?:ed|ing)|extend(?:ed|ing)|shorten(?:ed|ing)"
    r"|delay(?:ed|ing)"
    r"|reschedul(?:ed|ing)|upgrad(?:ed|ing)|downgrad(?:ed|ing)|updat(?:ed|ing)|relocat(?:ed|ing)|transferr(?:ed|ing)"
    r"|shift(?:ed|ing)|dropped|slipp(?:ed|ing)|ros(?:e)|risen|f(?:e|a)ll(?:en)?|gr(?:e|o)wn?|went|gone|turned"
    r"|(?:re)?paint(?:ed|ing)"
    r"|dyed|convert(?:ed|ing)|migrat(?:ed|ing)|adjust(?:ed|ing)|revis(?:ed|ing)|brought|doubled|promoted|swapped|put"
    r"|pulled|ported"
    r"|reassigned|rebooked|redid|set|changeover|climb(?:ed)?|jumped|shr(?:a|u)nk|gained|hit|reached|corrected"
    r"|replaced|redecorated)\b"
)

SWAPS = re.compile(
    r"\b(?:swapp?(?:ed|ing)?|trad(?:ed|ing)|replac(?:ed|ing)|exchang(?:ed|ing)|substitut(?:ed"
    r"|ing))\s(?P<old>.{2,60}?)\s(?:in\s)?(?:for|with|by)\s(?P<new>.+)$"
    r"|\b(?:switch(?:ed|ing)?|chang(?:ed|ing)|migrat(?:ed|ing)|mov(?:ed|ing)|went"
    r"|converted)\s(?:over\s)?from\s(?P<left>.{2,60}?)\sto\s(?P<taken>.+)$"
    r"|(?P<kept>.*)\binstead of\s(?P<dropped>.+)$"
)

RATHER = re.compile(
    r"\b(?:prefers?|likes?)\s(?P<value>\S.{1,40}?)\s(?:better than|more than|over|to|rather than"
    r"|instead of)\s(?P<other>\S.{1,40})$"
)

PHRASES = tuple(
    (re.compile(pattern, re.IGNORECASE), short)
    for pattern, short in (
        (r"\bhalf an hour\b", "30 minutes"),
        (r"\b(e-?mail) address\b", r"\1"),
        (r"\bgot ((?:my|our|the|his|her) [\w-]+(?: [\w-]+)?) (?:off|out|removed)\b", r"removed \1"),
        (
            (
                r"^(?:the|my|our) [\w-]+ (?:says?|said|told (?:me|us)|confirmed|show(?:s|ed)"
                r"|means?)(?: that)? (?=(?:i|we|my|our)\b)"
            ),
            "",
        ),
        (r"\b(?:have |has )?decided not to\b", "do not"),
        (r"\b(?:have |has )?decided to\b", "will"),
        (r"\b(for|takes?|lasts?|only) an? (?=(?:hour|minute|week|month|year|day)\b)", r"\1 1 "),
        (
            (
                r"\b(?:had|got) (?=(?:my|our|the)\b)(.{2,40}?) (replaced|moved|changed|pushed|extended|cut"
                r"|(?:re)?painted)\b"
            ),
            r"\2 \1",
        ),
        (r"\b(?:went|gone|going|is|am) back (?:to work|at work)\b", "is employed"),
        (r"\b(?:from home)\b", "remotely"),
        (r"\blet (?P<whom>(?:my|our|the|his|her|their) [\w-]+) go\b", r"fired \g<whom>"),
        (r"\b(?:next|this|coming) (?=(?:mon|tues|wednes|thurs|fri|satur|sun)day)", ""),
        (r"\b(?:next|this|coming) (?=(?:jan|feb|mar|apr|may|ju|aug|sep|oct|nov|dec))", ""),
        (r"\b(?:in|at|from|to|into) the office\b", "onsite"),
        (r"\bthese days\b", "nowadays"),
        (r"\bany ?more\b|\bany longer\b", "longer"),
        (r"\bevery (?:other|second|two) weeks?\b", "biweekly"),
        (r"\bused to (?=\w+\b(?<!ing))", "no longer "),
        (r"\bwedding\b", "married"),
        (r"\bgoes by\b|\banswers? to\b", "is called"),
    )
)
"""Phrases that are said in a word."""

LEARNS = re.compile(r"\b(?:learn\w*|lessons?|class(?:es)?|course|practi[sc]\w+|train\w*)\b")
