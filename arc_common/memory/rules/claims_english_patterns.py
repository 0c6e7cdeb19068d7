"""The words and forms by which English statements fill a slot, or deny something."""

import re

from arc_common.memory.rules.vocabulary import word_set

__all__ = [
    "AFFINITY",
    "AMOUNT",
    "ATTRIBUTE",
    "AUXILIARY",
    "CHANGED",
    "COUNT",
    "FRAME",
    "FUNCTION_WORDS",
    "HAS",
    "HEADS",
    "IDENTITY",
    "INTENDED",
    "IN_LANGUAGE",
    "KIND",
    "LOCATED",
    "MANNERS",
    "MANY",
    "MOST_WORDS",
    "NAMED",
    "NEGATION",
    "NO_EMPLOYERS",
    "NUMBER_WORDS",
    "PAST",
    "PAYS",
    "PLACE",
    "RATHER",
    "SAME",
    "SLOTS",
    "SPEAKER",
    "STOP_WORDS",
    "SWITCHED",
    "TIMES",
    "USER",
    "WORD",
]

NEGATION = re.compile(
    r"\b(?:not|no longer|never|none|stopped|quits?|gave up|given up|hates?|dislikes?|avoids?|sold|got rid of|gave away"
    r"|cancel(?:l?ed|s)|can't|cannot|couldn't|don't|doesn't|didn't|isn't|aren't|wasn't|weren't|won't|wouldn't|hasn't"
    r"|haven't)\b"
)
PAST = re.compile(
    r"\b(?:used to|once|ago|formerly|previously|in (?:19|20)\d\d|as a child|growing up|when (?:he|she|they|i) was)\b"
)
INTENDED = re.compile(
    r"\b(?:plans? to|planning|wants?|hopes?|hoping|would like|considering|thinking|thinks|might|may|could|wishes"
    r"|dreams?"
    r"|looking|intends?|applied|applying|interview(?:ing|ed)?|next (?:week|month|year|spring|summer|fall|autumn"
    r"|winter))\b"
)
SPEAKER = re.compile(r"^(?:user|assistant)\s*:\s*")

USER = word_set("i me my mine user users user's the he she they we our his her their them us")
AUXILIARY = word_set(
    "now just currently still also recently has have had is are am was were been i'm i've he's she's they've they're"
    " to really actually already will would says said that and then later finally officially since does do"
)
STOP_WORDS = word_set(
    "the a an of on in at to for by is are my our their his her its user user's about around exactly with and"
)
NUMBER_WORDS = {
    word: str(number)
    for number, word in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())  # noqa: SIM905 - reads better than a list
}
SPELLED = "|".join(NUMBER_WORDS)

SUBJECT = r"(?P<subject>[^,;]{0,60}?)"
END = (
    r"(?=$|[;(]|\s(?:now|currently|since|because|but|for|at the moment|these days|as of|last|this|next|after|before"
    r"|any ?more|instead|from|again|where|which|who|while|today|yesterday|as an?|in order|starting|with|and"
    r"|together|nowadays|at present|permanently|temporarily)\b)"
)
VALUE = rf"(?P<value>.{{1,80}}?){END}"
CLOSE = rf"(?P<value>[^,]{{1,80}}?)(?=,|{END[3:]}"

OCCUPATION = (
    r"engineer|developer|programmer|designer|manager|director|teacher|nurse|doctor|student|lawyer|attorney|chef|cook"
    r"|analyst|consultant|scientist|accountant|writer|journalist|driver|professor|researcher|architect|assistant"
    r"|therapist|dentist|pharmacist|photographer|freelancer|musician|actor|pilot|officer|editor|translator|technician"
    r"|plumber|electrician|carpenter|barista|waiter|waitress|librarian|paramedic|firefighter|recruiter|administrator"
    r"|intern|lead|ceo|cto|founder|salesperson|marketer|economist|veterinarian|surgeon|tutor|coach|baker|farmer"
)
HEADS = (
    r"name|nickname|surname|last name|first name|age|budget|deadline|due date|phone|phone number|number|mobile|cell"
    r"|e-mail|email|e-mail address|email address|mail|address|birthday|date of birth|birth date|job|job title|title"
    r"|occupation|profession|employer|company|workplace|position|role|salary|income|rent|weight|height|size"
    r"|shoe size|password|pin|username|plan|tier|subscription|time ?zone|nationality|citizenship|currency|blood type"
    r"|goal|limit|price|cost|fee|boss|manager|supervisor|doctor|dentist|wife|husband|spouse|partner|girlfriend"
    r"|boyfriend|meeting|appointment|interview|flight|train|bus|exam|reservation|booking|wedding|party|class|lesson"
    r"|session|delivery|check-?in|check-?out|departure|arrival|start date|end date|launch|launch date|release date"
    r"|release|move-in date|language|hometown|home|city|capital|ceo|destination|target|quota|headcount|status|contact"
    r"|license plate|room|seat|version|colou?r|team|major|school|university|dose|dosage|office|framework|database"
    r"|operating system|editor|browser|bank|insurer|provider|thermostat|alarm|bedtime|diet|mode|theme|font|unit"
)
BECOMES = (
    r"(?:is|are|will be|became|becomes|is now|(?:was|were|has been|have been|got|is being|will be) (?:re)?"
    r"(?:changed|moved|pushed|postponed|extended|raised|increased|reduced|cut|lowered|set|updated|scheduled|delayed"
    r"|upgraded|downgraded|adjusted|revised|brought|switched)(?: up| back| forward| down)? (?:to|until|for)"
    r"|(?:[a-z]+ed|went|rose|fell|grew)(?: up| down| back)? to"
    r"|starts|leaves|begins|departs|ends|closes|opens)"
)
LEAD = r"(?:(?:now|about|around|currently|at|on|in|called|named|scheduled for|set for|for|by|until|set to)\s)*"

PLACE = re.compile(
    rf"^{SUBJECT}\b(?:(?:lives?|living|resides?|residing|is based|am based|'m based|settled)\s(?:now\s"
    rf"|currently\s)?(?:in|at|near)"
    rf"|(?:has\s|have\s)?(?:moved|relocated)\s(?:away\s|house\s|back\s)?(?:from\s.{{2,40}}?\s)?to)\s{VALUE}"
)
SLOTS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (slot, re.compile(rf"^{SUBJECT}\b{pattern}"))
    for slot, pattern in (
        (
            "employer",
            (
                r"(?:works?|working|is employed|am employed|got a job|took a job|started a job|started working)\s"
                rf"(?:full[- ]time\s|part[- ]time\s|now\s)?(?:as an?\s[\w -]{{2,40}}?\s)?(?:at|for|by)\s{CLOSE}"
            ),
        ),
        ("employer", r"joined\s(?!(?:the|a|an)\s(?:gym|club|team|choir|class|group|band|course))" + CLOSE),
        (
            "occupation",
            (
                r"(?:(?:is|am|'m|became|works? as|working as|is now|employed as)\s(?:now\s)?(?:an?|the)"
                r"|promoted to(?:\san?)?)\s"
                rf"(?P<value>(?:(?!with|for|of|to|in)[\w-]+\s){{0,3}}?(?:{OCCUPATION}))\b"
            ),
        ),
        (
            "workplace",
            r"works?\s(?:now\s|mostly\s)?(?P<value>remotely|from home|from the office|on-?site|in the office)\b",
        ),
        (
            "age",
            (
                r"(?:is|am|'m|turned|turns|just turned)\s(?:now\s)?(?P<value>\d{1,3})"
                r"(?:\s(?:years?|yrs?)\s?(?:of age|old)?|-years?-old)?(?:\s(?:now|today|this year|last \w+|yesterday"
                r"|in \w+))?$"
            ),
        ),
        (
            "marital",
            (
                r"(?:is|am|'m|are|got|gets|became|has|recently|just|now)\s(?:now\s|recently\s|just\s|got\s|gotten\s"
                r"|been\s)?"
                r"(?P<value>single|unmarried|married|engaged|divorced|separated|widowed|widower|widow)\b(?! to the"
                r"| room| bed)"
            ),
        ),
        (
            "plan",
            (
                r"(?:is on|am on|'m on|are on|uses?|has|have|chose|(?:up|down)graded(?: .{2,30})? to|switched to"
                r"|subscribes? to"
                r"|subscribed to|moved to|changed to)\s(?:the\s|an?\s|their\s|my\s|our\s)?(?P<value>[\w' -]{2,40}?)\s"
                r"(?:plan|tier|subscription|membership)\b"
            ),
        ),
        ("due", rf"(?:is|are|'s)\s(?:now\s)?due\s(?:on|by|at|in)?\s?{CLOSE}"),
        ("budget", rf"(?:has|have|set|with)\s(?:now\s)?a\s(?:total\s)?budget\sof\s{CLOSE}"),
        ("weight", rf"weighs?\s{CLOSE}"),
        ("height", r"(?:is|am|'m)\s(?P<value>[\d.]+\s?(?:cm|m|feet|ft|inches).{0,12}?)\s(?:tall|high)\b"),
        ("income", rf"(?:earns?|makes)\s(?P<value>\D{{0,3}}\d[^,]{{0,40}}?){END}"),
        (
            "school",
            (
                rf"(?:studies at|attends|is enrolled (?:at|in)|goes to)\s(?P<value>[^,]{{2,60}}?(?:university"
                rf"|college|school|institute)\b.{{0,30}}?){END}"
            ),
        ),
        ("major", rf"(?:majors? in|is majoring in|changed (?:his|her|their|my) major to)\s{CLOSE}"),
        ("car", rf"drives\s(?:now\s)?an?\s(?!bus|truck|taxi|long|lot){CLOSE}"),
        ("floor", r"(?:is|sits|moved)\s(?:now\s)?(?:on|to)\sthe\s(?P<value>[\w-]{2,14})\sfloor\b"),
        ("commute", rf"commutes?\s(?:to work\s)?by\s{CLOSE}"),
        ("wakes", rf"(?:wakes? up|gets? up)\s(?:now\s)?(?:at|around)\s{CLOSE}"),
        ("sleeps", rf"(?:goes to (?:bed|sleep))\s(?:now\s)?(?:at|around)\s{CLOSE}"),
        ("starts work", rf"(?:starts? work|begins? work|starts? working)\s(?:now\s)?(?:at|around)\s{CLOSE}"),
        (
            "runs on",
            rf"(?:runs on|is running on|(?:was|has been) (?:upgraded|migrated|moved|ported|downgraded) to)\s{CLOSE}",
        ),
    )
)
MANNERS = frozenset({"employer", "occupation", "workplace", "marital", "plan", "school", "car"})
"""Slots that plans and wishes don't fill."""

NO_EMPLOYERS = word_set("home night nights free fun himself herself themselves myself hours weekends it once least")
ATTRIBUTE = re.compile(
    r"^(?P<owner>(?:the\s)?(?:user's\s|my\s|our\s|their\s|his\s|her\s|[\w' ]{2,30}?'s\s|the\s)?)"
    rf"(?P<modifier>(?:[\w-]+\s){{0,3}}?)(?P<head>(?:favou?rite|preferred)\s[\w -]{{2,30}}?|{HEADS})"
    rf"(?:\s(?:of|for|with)\s(?P<of>[\w' -]{{2,40}}?))?\s{BECOMES}\s{LEAD}{VALUE}"
)
CHANGED = re.compile(
    rf"^{SUBJECT}\b(?:re)?(?:changed|moved|raised|increased|lowered|reduced|cut|extended|postponed|pushed|updated|set"
    r"|switched|scheduled|revised)\s(?:the|my|their|his|her|our|its)\s"
    rf"(?P<modifier>(?:[\w-]+\s){{0,3}}?)(?P<head>{HEADS})\s(?:(?:of|for|with)\s(?P<of>[\w' -]{{2,40}}?)\s)?"
    rf"(?:back\s|up\s|down\s)?(?:from\s.{{1,40}}?\s)?(?:to|at|until|for)\s{VALUE}"
)
NAMED = re.compile(rf"^(?P<owner>[\w' ]{{0,30}}?)\b(?P<what>[\w-]+)\s(?:is|was)\s(?:now\s)?(?:named|called)\s{CLOSE}")
COUNT = re.compile(
    rf"^{SUBJECT}\b(?:has|have|owns?|keeps?)\s(?:now\s)?(?P<value>\d+|{SPELLED})\s"
    rf"(?P<what>(?:[\w-]+\s)?[\w-]+)$"
)
LOCATED = re.compile(
    rf"^(?P<subject>(?:the|our|my|user's)\s[\w' -]{{2,40}}?)\s(?:is|are)\s(?:now\s)?(?:located\s|based\s"
    rf"|hosted\s|kept\s)?"
    rf"(?:in|at)\s{CLOSE}"
)
IDENTITY = re.compile(
    r"^(?P<owner>(?:[Tt]he |[Mm]y |[Oo]ur |(?:[Tt]he )?[Uu]ser's |[Hh]is |[Hh]er "
    r"|[Tt]heir ))(?P<what>[a-z-]+(?: [a-z-]+)?) is (?:now )?"
    r"(?P<value>(?:(?:Dr|Mr|Ms|Mrs|Prof)\.? )?[A-Z][\w-]+(?: [A-Z][\w-]+){0,3})(?: now)?\.?$"
)
MANY = word_set(
    "friend colleague coworker co-worker brother sister sibling son daughter child kid cousin aunt uncle hobby pet dog"
    " cat neighbor neighbour classmate teammate nephew niece client customer student"
)
"""Of these one can have several, each with a name."""

FRAME = re.compile(
    r"^(?P<subject>(?:[a-z'-]+\s){1,6}?)(?P<verb>is|are|takes|costs|needs|lasts|departs|leaves|arrives|opens"
    r"|closes|starts|ends|holds"
    r"|requires|uses|drinks|sleeps|receives|gets|spends|charges|supports|allows)\s(?P<rest>.*\d.*)$"
)
AMOUNT = re.compile(r"\d+(?:[.,:/-]\d+)*")
PAYS = re.compile(rf"^{SUBJECT}\bpays?\s(?P<value>\D{{0,3}}\d[^,]{{0,30}}?)\s(?:in|for|as)\s(?P<what>[\w ]{{2,30}})$")
RATHER = re.compile(
    rf"^{SUBJECT}\b(?:prefers?|likes?)\s(?P<value>[^,]{{2,40}}?)\s(?:better than|more than|over|to|rather than"
    rf"|instead of)\s"
    r"(?P<other>[^,]{2,40})$"
)
LANGUAGES = (
    r"english|korean|french|german|spanish|japanese|chinese|italian|portuguese|russian|dutch|polish|turkish|arabic"
    r"|hindi|vietnamese|thai"
)
IN_LANGUAGE = re.compile(
    rf"^{SUBJECT}\b(?:prefers?|wants?|likes?|asked for"
    rf"|would like)\s(?P<what>[\w ]{{2,40}}?)\s(?:to be\s)?(?:written\s)?in\s"
    rf"(?P<value>{LANGUAGES})\b"
)
KIND = re.compile(
    rf"^{SUBJECT}\b(?:prefers?|wants|would like|likes|chose|switched to|uses)\s(?:to use\s|to have\s|the\s"
    rf"|an?\s|having\s|using\s)*"
    r"(?P<value>dark|light|aisle|window|metric|imperial|celsius|fahrenheit|short|brief|concise|long|detailed|formal"
    r"|informal|casual|hot|iced|cold|paper|digital|remote|on-?site|hybrid"
    r"|vegetarian)\s(?P<what>[\w-]+)\b(?P<rest>.{0,60})$"
)
SWITCHED = re.compile(
    rf"^{SUBJECT}\b(?:switched|changed|migrated"
    rf"|went)\sfrom\s(?P<value>[^,]{{2,40}}?)\sto\s(?P<other>[^,]{{2,40}}?){END}"
)
VERBS = "lik|drink|eat|us|play|watch|tak|smok|want|hav|own|go|do|work"
AFFINITY = re.compile(
    rf"^{SUBJECT}\b(?:(?:do|does|did|can|could|would|will|is|am|are)(?:n't|\snot)\s|cannot\s|can't\s|won't\s"
    rf"|no longer\s"
    r"|never\s|not\s|really\s|any longer\s|is\s|am\s|are\s)*"
    r"(?:likes?|loves?|enjoys?|adores?|prefers?|drinks?|eats?|uses?|plays?|watch(?:es)?|wants?|needs?|takes?|smokes?"
    r"|a (?:big |huge )?fan of|fond of|into|keen on|interested in|dislikes?|hates?|avoids?|can't stand|stand"
    rf"|(?:stopped|quit|gave up|given up|started|resumed|took up)(?:\s(?:{VERBS})\w*ing)?)\s"
    rf"(?:to\s(?:{VERBS})\w*\s|(?:{VERBS})\w*ing\s|the\s|an?\s|any\s)*(?P<object>.{{2,60}}?)"
    r"(?:\s(?:any ?more|any longer|at all|these days|now|again))?$"
)
HAS = re.compile(
    rf"^{SUBJECT}\b(?:(?:does|do|did)(?:n't|\snot)\s|no longer\s)?(?:has|have|owns?|sold|got rid of|gave away"
    rf"|cancell?ed|got|bought)\s"
    r"(?:(?:an?|the|his|her|their|my|our|any)\s)+(?P<object>[\w -]{2,40}?)(?:\s(?:any ?more|any longer|now))?$"
)
TIMES = re.compile(
    r"\b(?:any ?more|any longer|no longer|now|currently|at all|these days|again|still|already|recently|just|ever)\b"
)
FUNCTION_WORDS = re.compile(
    r"\b(?:not|no|never|do|does|did|don't|doesn't|didn't|isn't|aren't|is|am|are|was|the|an?|of|to|be|been|has|have|had"
    r"|hasn't|haven't|can|can't|cannot|will|won't|stopped|quit|gave|given|up|any|user|user's|i|i'm|i've|my|he|she|they"
    r"|his|her|their|started|resumed|being)\b"
)
WORD = re.compile(r"[a-z0-9][\w@.+:/-]*")
SAME = {
    "brief": "short", "concise": "short", "detailed": "long", "casual": "informal", "cold": "iced", "colour": "color",
    "favourite": "favorite", "preferred": "favorite", "email": "e-mail", "mail": "e-mail", "mobile": "phone",
    "cell": "phone", "surname": "name", "unmarried": "single", "widower": "widowed", "widow": "widowed",
}  # fmt: skip
MOST_WORDS = 8
"""Of a value or a statement: what is longer is told in too many ways to be compared word by word."""
