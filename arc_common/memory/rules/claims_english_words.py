"""The closed classes of English words by which statements are read."""

import re

from arc_common.memory.rules.vocabulary import word_set

__all__ = [
    "ADDITIVE",
    "ATTRIBUTES",
    "AUXILIARIES",
    "CAUSED",
    "CHANGES",
    "CLASSES",
    "CONTRACTIONS",
    "DENIED_BY",
    "DISLIKES",
    "ENDS",
    "ENGAGES",
    "FILLERS",
    "HYPOTHETICAL",
    "INTENDED",
    "JOINS",
    "LEARNS",
    "LIGHT",
    "LIKES",
    "LONG_AGO",
    "MANY",
    "MONTHS",
    "NEGATION",
    "NOW",
    "OCCUPATIONS",
    "PAST",
    "PEOPLE",
    "PHRASES",
    "PLACES",
    "PREPOSITIONS",
    "PRONOUNS",
    "RATHER",
    "SAME",
    "SCHOOLS",
    "STATES",
    "SUBJECTS",
    "SWAPS",
    "TAIL",
    "VERBS",
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
    r"\b(?:also|too|as well|another|second|additional|extra|besides|either|both|sometimes|occasionally|either)\b"
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

AUXILIARIES = word_set(
    "am is are was were be been being has have had do does did will shall can get gets got getting become becomes "
    "became seem seems remain remains 'm"
)
PRONOUNS = word_set(
    "i me my mine we us our ours user users user's he him his she her hers they them their theirs it its you your "
    "the a an this that these those there myself himself herself themselves ourselves which who"
)
FILLERS = word_set(
    "of on in at to for by from with into onto about around near exactly and or as than so but up out off over "
    "down back now nowadays still currently already recently just finally officially usually normally always "
    "often really actually very quite pretty mostly mainly generally always ever again since then later "
    "completely totally fully only each every per any some longer not no never none without own new old current "
    "currently instead more altogether entirely too also either both located situated based set scheduled well "
    "roughly approximately almost nearly last for"
)
ENGAGES = word_set(
    "speak know fluent understand like love enjoy prefer adore drink eat use play take have own do practise practice"
    " attend learn watch wear "
    "subscrib touch keep pay consum go need stand bear tri train buy into fan fond keen get"
)
"""Stems of verbs by which somebody has to do with a thing: which of them is said makes little difference."""

JOINS = word_set(
    "buy adopt join start begin take hire marri get book order sign open acquir purchas enrol enroll regist move "
    "land accept resum pick promot tri subscrib install becom turn adopt finish"
)
"""Stems of verbs whose past is the beginning of what is so now."""

ENDS = re.compile(
    r"\b(?:quit|quits|quitting|stopp(?:ed|ing)|stops|g(?:a|i)v(?:e|es|en|ing) up(?: on)?|gave away|giving away"
    r"|gave(?= (?:my|our|the|his|her|their)\b)|ran out|run out|died|passed away"
    r"|dropp(?:ed|ing)"
    r"(?: out of)?|dropped|ditch(?:ed|ing)?|scrapp(?:ed|ing)|abandon(?:ed|ing)|cancel(?:s|l?ed|l?ing)?|sold"
    r"|sell(?:ing)?"
    r"|got rid of|get rid of|resigned(?: from)?|left|leaving|leave|delet(?:ed|ing)|uninstalled|cut out|cutting out"
    r"|unsubscribed(?: from)?"
    r"|with(?:drew|drawn) from|retired from|parted with|broke up with|broke off|split up with|threw (?:away|out)"
    r"|thrown (?:away|out)"
    r"|returned|done with|finished with|fed up with|sworn off|swore off|came off|off(?: of)?(?= (?:the|my)\b)"
    r"|donated|gave back|outgr(?:ew|own)|called off|calling off|backed out of|pulled out of|turned down|moved out of"
    r"|dumped|retired|terminated|lost|paid off|skip|discontinued|removed|closed down|shut down|skipp(?:ed|ing)"
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

ATTRIBUTES = word_set(
    "name nickname surname age budget deadline date phone number mobile cell e-mail email address birthday title "
    "occupation profession employer company workplace position role salary income rent weight height size "
    "password pin username plan tier subscription timezone zone nationality citizenship currency type goal limit "
    "price cost fee boss manager supervisor wife husband spouse partner girlfriend boyfriend language hometown "
    "home city capital ceo destination target quota headcount status plate seat version colour major minor "
    "university dose dosage framework database system editor browser bank insurer provider diet mode theme font "
    "unit grade rank level score rating degree species breed brand model speed temperature setting total balance "
    "deductible premium interval frequency rate capacity location venue topic genre instrument stage route gate "
    "terminal platform landlord dentist doctor advisor adviser teacher coach trainer therapist mentor captain "
    "roommate flatmate favourite main primary usual default best preferred current go-to drink breakfast snack "
    "order password schedule shift species sign religion faith party flavour thesis dissertation project "
    "operating theme motto"
)
MANY = word_set(
    "friend colleague coworker brother sister sibling son daughter child kid cousin aunt uncle hobby pet dog cat "
    "neighbour neighbor classmate teammate nephew niece client customer student interest skill"
)
"""Of these one can have several, each with a name."""

PEOPLE = word_set(
    "brother sister mother father mom mum dad wife husband son daughter child children kid kids partner boyfriend "
    "girlfriend friend roommate flatmate colleague coworker boss manager uncle aunt cousin grandmother "
    "grandfather grandma grandpa nephew niece twin parent parents neighbour neighbor teammate classmate fiance "
    "fiancee ex mother-in-law father-in-law sister-in-law brother-in-law grandson granddaughter stepson "
    "stepdaughter landlord team"
)

STATES = {
    verb: name
    for name, verbs in {
        "home": "live in|live at|live near|resid in|base in|settl in|live on",
        "live with": "live with",
        "stay": "stay at",
        "stay with": "stay with",
        "job": "work at|work for|employ at|employ by|job at|job with",
        "occupation": "work as|employ as",
        "field": "work in",
        "work from": "work from",
        "school": "studi at|enrol at|enrol in|enroll at|enroll in|attend",
        "major": "major in",
        "minor": "minor in",
        "transport": "commut by",
        "car": "drive",
        "bank": "bank with|bank at",
        "goes to": "go to",
        "reports to": "report to",
        "belongs to": "belong to",
        "sleeps": "sleep in|sleep on",
        "sits": "sit in|sit at|sit by|sit next",
        "parks": "park in|park at",
        "runs on": "run on|run",
        "plays for": "play for",
        "at": "place in|place at|hold in|hold at|host in|host on|keep in|keep at|store in|locat in",
        "from": "leav from|depart from",
        "arrives": "arriv at",
        "engaged to": "engag to",
        "married to": "marri to",
        "dates": "date",
        "supports": "support",
        "weight": "weigh",
        "name": "name|call",
        "size": "wear",
        "insurer": "insur with|insur by",
        "registered": "register with",
        "trains under": "train under",
        "votes": "vote for",
        "graduates": "graduat in",
    }.items()
    for verb in verbs.split("|")
}
"""Verbs, with what joins their complement, that take one complement at a time, and what it is of."""

CLASSES = {
    word: name
    for name, words in {
        "pet": "dog cat rabbit hamster parrot puppy kitten goldfish turtle bird snake",
        "alcohol": "beer wine whisky whiskey vodka cocktail cocktails gin rum champagne soju",
        "meat": "beef pork chicken steak bacon ham lamb sausage turkey burger burgers steaks",
        "dairi": "milk cheese yogurt yoghurt butter cream",
        "child": "son daughter baby kid",
        "cigarett": "tobacco vaping",
        "caffein": "coffee espresso espressos",
    }.items()
    for word in words.split()
}
"""What something is one of: who has none of the class has not it."""

DENIED_BY = {
    "vegetarian": ("meat",),
    "vegan": ("meat", "dairi", "milk", "egg"),
    "pescatarian": ("meat",),
    "teetotal": ("alcohol",),
    "sober": ("alcohol",),
    "single": ("boyfriend", "girlfriend", "wife", "husband", "partner", "fianc"),
    "only child": ("brother", "sister", "sibl", "twin"),
    "live alone": ("roommat", "flatmat", "housemat"),
    "on my own": ("roommat", "flatmat", "housemat"),
    "by myself": ("roommat", "flatmat", "housemat"),
    "non-smoker": ("cigarett",),
    "nonsmoker": ("cigarett",),
    "dairy-free": ("dairi",),
}
"""What somebody who is so does not take."""

LIGHT = word_set(
    "school colleg univers cours degre program studi membership subscript account habit class lesson complet"
    " contract thing altogeth entir entire time plan "
    "entirely completely properly job use work have do take eat drink go serv work"
)
"""Stems of what adds nothing to what is over ("the gym membership")."""

MONTHS = {
    name: number
    for number, names in enumerate(
        [
            "january jan",
            "february feb",
            "march",
            "april apr",
            "may",
            "june jun",
            "july jul",
            "august aug",
            "september sept sep",
            "october oct",
            "november nov",
            "december dec",
        ],
        1,
    )
    for name in names.split()
}
VERBS = word_set(
    "live work studi like love hate enjoy prefer drink eat use play take have own do go attend learn watch wear "
    "pay smoke run drive walk bike cycl swim sleep wake speak read write cook bake teach train meet open close "
    "start begin end finish leav arriv depart cost weigh need want plan move chang switch quit stop give drop "
    "sell buy get keep visit travel fli commut earn spend save rent volunt sing paint draw collect belong report "
    "call name marri date join becom turn cancel return lose find make put bring send see know think feel look "
    "sit stand stay park hold lead manag support vote follow subscrib order book pick drop adopt hire grow rais "
    "rehears practis practic exercis perform compet coach serv host scratch bark suffer heal recov scrap ditch "
    "delet trade swap upgrad renew expir lapse wipe ask tell say let rise fall increas decreas cut last take "
    "happen seat fit cover includ offer accept requir allow support charg bill contain"
)
"""Stems of common verbs: where the subject of a sentence ends."""

OCCUPATIONS = word_set(
    "engineer developer programmer designer manager director teacher nurse doctor student lawyer attorney chef "
    "cook analyst consultant scientist accountant writer journalist driver professor researcher architect "
    "assistant therapist dentist pharmacist photographer freelancer musician actor pilot officer editor "
    "translator technician plumber electrician carpenter barista waiter waitress librarian paramedic firefighter "
    "recruiter administrator intern ceo cto founder salesperson marketer economist veterinarian surgeon tutor "
    "coach baker farmer welder mechanic adviser advisor cashier secretary receptionist bartender florist "
    "hairdresser barber painter illustrator cleaner clerk courier"
)
PREPOSITIONS = word_set("in at on to for with by from as near under of next during about after before since until")
RATHER = re.compile(
    r"\b(?:prefers?|likes?)\s(?P<value>\S.{1,40}?)\s(?:better than|more than|over|to|rather than"
    r"|instead of)\s(?P<other>\S.{1,40})$"
)
SAME = {
    "colour": "color", "favourite": "favorite", "preferred": "favorite", "email": "e-mail", "mail": "e-mail",
    "mobile": "phone", "cell": "phone", "surname": "name", "begins": "start", "begin": "start",
    "departs": "leave", "depart": "leave",
    "flatmate": "roommate", "flatmates": "roommates", "flat": "apartment", "flats": "apartment",
    "tv": "television", "colours": "colors", "neighbour": "neighbor",
    "lives": "live", "goes": "go", "leaves": "leave", "gave": "give", "given": "give", "went": "go",
    "got": "get", "gotten": "get",
    "smoke": "cigarette", "smokes": "cigarette", "smoking": "cigarette", "smoker": "cigarette",
    "smoked": "cigarette", "left": "leave",
}  # fmt: skip
PHRASES = tuple(
    (re.compile(pattern, re.IGNORECASE), short)
    for pattern, short in (
        (r"\bhalf an hour\b", "30 minutes"),
        (r"\b(for|takes?|lasts?|only) an? (?=(?:hour|minute|week|month|year|day)\b)", r"\1 1 "),
        (r"\bhad (?=(?:my|our|the)\b)(.{2,40}?) replaced (?=with|by)", r"replaced \1 "),
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

LIKES = word_set(
    "like love enjoy prefer ador fan fond keen speak know fluent understand learn watch need into practis practic"
)
LEARNS = re.compile(r"\b(?:learn\w*|lessons?|class(?:es)?|course|practi[sc]\w+|train\w*)\b")
PLACES = word_set("venu date time place locat day")
"""Stems of what says of a value only its kind."""

SCHOOLS = word_set("school primary elementary high university college academy nursery kindergarten institute")
SUBJECTS = word_set("i we he she they user you it")
