"""The closed classes of English words by which statements are read."""

from arc_common.text.languages.language import word_map, word_set

__all__ = [
    "ATTRIBUTES",
    "AUXILIARIES",
    "CLASSES",
    "DENIED_BY",
    "DWELLINGS",
    "ENGAGES",
    "FILLERS",
    "JOINS",
    "LIGHT",
    "LIKES",
    "MANY",
    "MONTHS",
    "OCCUPATIONS",
    "PEOPLE",
    "PLACES",
    "PREPOSITIONS",
    "PRONOUNS",
    "QUALITIES",
    "SCHOOLS",
    "STATES",
    "SUBJECTS",
    "VERBS",
]

AUXILIARIES = word_set(
    "am is are was were be been being has have had do does did will shall can get gets got getting become becomes "
    "became seem seems remain remains 'm"
)
"""Verbs that say nothing of their own."""

PRONOUNS = word_set(
    "i me my mine we us our ours user users user's he him his she her hers they them their theirs it its you your "
    "the a an this that these those there myself himself herself themselves ourselves which who"
)
"""What stands for somebody, or only points at something; articles among them."""

FILLERS = word_set(
    "all whole entire of on in at to for by from with into onto about around near exactly and or as than so but "
    "up out off over down back now nowadays still currently already recently just finally officially usually "
    "normally always often really actually very quite pretty mostly mainly generally ever again since then later "
    "completely totally fully only each every per any some longer not no never none without own new old current "
    "instead more altogether entirely too also either both located situated based set scheduled well roughly "
    "approximately almost nearly last"
)
"""What a statement says the same without."""

ENGAGES = word_set(
    "speak know fluent understand like love enjoy prefer ador drink eat use play take have own do practise "
    "practice attend learn watch wear subscrib touch keep pay consum go need stand bear tri train buy into fan "
    "fond keen get"
)
"""Stems of verbs by which somebody has to do with a thing: which of them is said makes little difference."""

JOINS = word_set(
    "buy adopt join start begin take hire marri get book order sign open acquir purchas enrol enroll regist move "
    "land accept resum pick promot tri subscrib install becom turn finish"
)
"""Stems of verbs whose past is the beginning of what is so now."""

ATTRIBUTES = word_set(
    "name nickname surname age budget deadline date phone number mobile cell e-mail email address birthday title "
    "occupation profession employer company workplace position role salary income rent weight height size "
    "password pin username plan tier subscription timezone zone nationality citizenship currency type goal limit "
    "price cost fee language hometown home city capital destination target quota headcount status plate seat "
    "version colour major minor university dose dosage framework database system editor browser bank insurer "
    "provider diet mode theme font unit grade rank level score rating degree species breed brand model speed "
    "temperature setting total balance deductible premium interval frequency rate capacity location venue topic "
    "genre instrument stage route gate terminal platform favourite main primary usual default best preferred "
    "current go-to drink breakfast snack order schedule shift sign religion faith party flavour thesis "
    "dissertation project operating motto"
)
"""Of these a thing has one."""

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

STATES = word_map(
    {
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
        "insurer": "insur with|insur by",
        "registered": "register with",
        "trains under": "train under",
        "votes": "vote for",
        "graduates": "graduat in",
    },
    between="|",
)
"""Verbs, with what joins their complement, that take one complement at a time, and what it is of."""

CLASSES = word_map(
    {
        "pet": "dog cat rabbit hamster parrot puppy kitten goldfish turtle bird snake",
        "alcohol": "beer wine whisky whiskey vodka cocktail cocktails gin rum champagne soju",
        "meat": "beef pork chicken steak bacon ham lamb sausage turkey burger burgers steaks",
        "dairi": "milk cheese yogurt yoghurt butter cream",
        "child": "son daughter baby kid",
        "cigarett": "tobacco vaping",
        "caffein": "coffee espresso espressos",
    }
)
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
    "school colleg univers cours degre program studi membership subscript account habit class lesson complet "
    "contract thing altogeth entir entire time plan entirely completely properly job use work have do take eat "
    "drink go serv"
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
    "sit stand stay park hold lead manag support vote follow subscrib order book pick adopt hire grow rais "
    "rehears practis practic exercis perform compet coach serv host scratch bark suffer heal recov scrap ditch "
    "delet trade swap upgrad renew expir lapse wipe ask tell say let rise fall increas decreas cut last happen "
    "seat fit cover includ offer accept requir allow charg bill contain"
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
"""What somebody works as; one at a time."""

PREPOSITIONS = word_set("in at on to for with by from as near under of next during about after before since until")
"""What begins a complement, and ends the one before."""

LIKES = word_set(
    "like love enjoy prefer ador fan fond keen speak know fluent understand learn watch need into practis practic"
)
"""Stems of those by which nobody has the thing."""

PLACES = word_set("venu date time place locat day")
"""Stems of what says of a value only its kind."""

SCHOOLS = word_set("school primary elementary high university college academy nursery kindergarten institute")
"""What somebody who goes there goes to for years."""

SUBJECTS = word_set("i we he she they user you it")
"""Who is the user, or whom the user speaks of last."""

DWELLINGS = word_set(
    "house apartment flat studio condo home dorm city town village country suburb place cottage farm loft"
)
"""What somebody who moves there lives in."""

QUALITIES = word_set(
    "good bad big small nice great fine high low late early ready open busy hard easy strict kind noisy quiet "
    "dirty clean warm far near cheap expensive active tired tight strong weak fast slow heavy safe happy sad "
    "angry friendly lovely tiny huge loud boring"
)
"""What many things can be, whatever else they are."""
