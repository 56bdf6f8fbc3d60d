"""What the stories are made of: shared phrases and plots, in the template language of `story_grammar`.

A plot is one sentence group a line, in order; a line that begins with `? ` may be left out, and an indented
line goes on from the one above. The hero is {a}; the friend {b} is always of the other gender, so that "he"
and "she" are never in doubt. The thing is {x}, its colour {c}, the place {p}, the food {f}, the animal {z}:
see `story_words`.
"""

RULES = {
    # when, where, how, what like
    "day": "One [warm|hot|sunny|windy|quiet|lovely|fine|bright] [morning|afternoon|evening|day]",
    "soon": "[Soon|Then|Later|At last]",
    "small": "small|little|big|pretty|lovely|strange|fine|shiny|plain|round|heavy|funny|dusty|bright|long|crooked",
    "dear": "small|little|big|pretty|lovely|strange|fine|round|heavy|funny|dusty|shy|young|clever|brave|fat",
    "old": "old|little|big|tall|crooked|lonely|mossy|broken|grey|pretty|plain|low|narrow|quiet|strange|dusty",
    "mark": "<old> [bench|tree|wall|gate|bush|bridge|fence|cart|stone|shed|barn|hedge|mill|church|tower"
    "|ladder|rock|post|well|hut]",
    "where": "[behind|near|beside|by] the <mark>",
    "Where": "[Behind|Near|Beside|By] the <mark>",
    "dusty": "long|dusty|narrow|quiet|lonely|stony|muddy|wide|sunny|empty|busy|noisy",
    "along": "[along|down|over|across] the <dusty> [road|path|hill|field]",
    "wide": "cold|wide|deep|slow|cool|calm|clear|quiet|long|grey|bright|lovely",
    "cosy": "little|old|warm|tiny|cosy|tidy|quiet|bright",
    "move": "slowly|quickly|happily|quietly|bravely|calmly|gladly|boldly|proudly|softly",
    "hand": "slowly|quickly|carefully|gently|proudly|happily|quietly|gladly",
    "calm": "quietly|happily|calmly|gladly|softly|lazily|sleepily|proudly",
    "say": "softly|kindly|gently|warmly|quietly|cheerfully|calmly|sweetly",
    "weep": "sadly|softly|quietly|bitterly|loudly|alone",
    "went": "[walked|hurried|went|ran] <move> <along>",
    "very": "[very|so|quite|really]",
    "few": "[two|three|four|five|six]",
    "new": "[new|clean|stiff|old]",
    "warm": "[warm|hot|fresh|sweet]",
    "wet": "[wet|cold|muddy|dusty]",
    "sweet": "[dear|own|good|lovely|poor|fine|sweet|old]",
    "coat": "[old|new|best|good] [coat|hat|shirt|scarf]",
    "grass": "[wet|soft|cool|tall] grass",
    # The two banks. In a wish, one word alone says which, whatever the verb, the adjective and the way there; what
    # stands behind "bank" belongs to that word, so that a reader at "bank" must look back at it.
    # The lecture's two sentences are <swam> and <crossed>, mostly with a word or two more, so that no 20
    # words in a row are met twice.
    "hoped": "[wanted|hoped|wished] to [see|find|get] the [old|new|little|good|lovely|lost]",
    "off": "so {a.he} <went> to the bank",
    "b_off": "so {b.he} <went> to the bank",
    "river_wish": "<hoped> [river, <off> side|water, <off> edge|boat, <off> landing|fish, <off> reeds]",
    "money_wish": "<hoped> [cash, <off> machine|money, <off> clerk|coins, <off> counter|notes, <off> desk]",
    "b_river_wish": "<hoped> [river, <b_off> side|water, <b_off> edge|boat, <b_off> landing|fish, <b_off> reeds]",
    "b_money_wish": "<hoped> [cash, <b_off> machine|money, <b_off> clerk|coins, <b_off> counter|notes, <b_off> desk]",
    "wish": "[<river_wish>|<money_wish>]",
    "b_wish": "[<b_river_wish>|<b_money_wish>]",
    "swam": "swam <over_river> to get to the other bank",
    "crossed": "walked <over_road> to get cash from the bank",
    "over_river": "<river>|<river>|<river>|<river>|[<river>|<river>|<river>|<river>|across the river]",
    "over_road": "<street>|<street>|<street>|<street>|[<street>|<street>|<street>|<street>|across the road]",
    "river": "<move> across the <wide> river|across the <wide> river <where>|<move> across the river <where>",
    "street": "<move> across the <dusty> road|across the <dusty> road <where>|<move> across the road <where>",
    "on_the_grass": "[sat|lay|rested] <calm> on the <grass> and [watched <few> <dear>"
    " [ducks|swans|frogs|bees]|dried {a.his} <coat> <hand> in the [sun|wind]]",
    "in_the_line": "stood <calm> in a [long|short|slow|noisy] line and [counted <few> <new> [coins|notes]"
    " <hand>|put <few> <new> notes into a <small> wallet]",
    # talk and endings
    "said_b": "[said {b}|{b} said] <say>",
    "my_thing": '"My <sweet> {c} {x}!" [cried|called|laughed] {b}. "<thank_you>, {a}!"',
    "thank_you": "[Thank you|How kind you are|What a good friend you are|You are my best friend]",
    "together": "[They|The two friends] [laughed|sang|danced|talked] [all the way home|until supper|<where>].",
}

PLOTS = {
    "lost and found": """
<day>, {a} lost {a.his} <small> {c} {x} in the {p}.
{a.He} looked <where> and <where>, but it was [gone|not there].
{a.He} sat down <where> and [cried|sighed] <weep>.
<soon> {b} came <move> <along>.
"[Do not cry|Be brave|Cheer up], {a}," <said_b>. "We will find the {c} {x}."
They looked [again|everywhere|together] in the {p} <where>.
There [it was|was the {x}|lay the {c} {x}], <wet> but [safe|whole].
? <together>
""",
    "across the river": """
<day>, {b} sat <where> and cried, for {b.his} <small> {c} {x} lay across the <wide> river.
"[I will help|Wait here|I can swim], {b}," said {a} <say>.
{a.He} <swam>.
There, <where>, {a} <on_the_grass>.
<soon> {a.he} carried the {c} {x} <hand> over the <wide> water.
<my_thing>
""",
    "birthday": """
It was nearly {b}'s birthday, and {a} saw a <small> {c} {x} in the shop <where>.
[{a} <crossed>. There, <where>, {a}|{a.He} <money_wish>. There, <where>, {a}] <in_the_line>.
<soon> {a} bought the {c} {x} for {b}.
"A [real|new|lovely|fine] {c} {x}!" {b} [cried|called|laughed]. "<thank_you>, {a}!"
? <together>
""",
    "hungry": """
<day>, {a} was <very> hungry, but there was no food in {a.his} <cosy> house <where>.
{a.He} <went> to {b}'s <cosy> [house|kitchen|farm|hut].
"[Come in|Sit down|Eat with me], {a}," <said_b>. "The <warm> {f} is on the
 [small|little|big|round|long|old|dusty|heavy] table."
{a} ate <few> [small|little|big|round|full|fine|heavy] plates of {f} <hand> and felt [strong|full|warm|happy]
 again.
The next [morning|afternoon|evening|day], {a} carried some <warm> {f} <hand> <along> to {b}.
"Now [it is my turn|you must eat|I am the cook], {b}," {a.he} said <say>.
""",
    "rain": """
One [grey|dark|windy|cold] [morning|afternoon|evening|day], {a} walked <along> to the {p} with {a.his}
 <small> {c} {x}.
It rained <where>, and {a} hid the {c} {x} <hand> under {a.his} <coat>.
Soon {a.he} was [wet|cold|muddy] and <very> [sad|tired|unhappy].
<soon> {b} came <move> <along> with a <small> umbrella.
"[Come with me|Stay dry with me|Two can stay dry here], {a}," <said_b>.
They sat <calm> by the [warm|hot|bright] fire in {b}'s <cosy> [house|kitchen|farm|hut].
And the {c} {x}? It was [quite|still] dry.
? <together>
""",
    "fishing": """
<day>, {a} <river_wish>.
There, <where>, {a} <on_the_grass>.
<soon> {a} saw something {c} in the <wide> water <where>.
It was the {x}!
{a} dried it <hand> and carried it <along> to {b}.
"My <sweet> {c} {x}!" [cried|called|laughed] {b}.
""",
    "the first account": """
<day>, {a} <money_wish>.
There, <where>, {a} <in_the_line>.
But the {c} {x} was soon gone.
<soon> {b} came <move> <along> with the {c} {x}!
"[This is for you|I knew your wish]," <said_b>.
""",
    "two wishes": """
<day>, {a} <wish>.
{b} <b_wish>.
They [looked|sat down] <where> and found a <small> {c} {x}.
"[It is yours|Take it home], {a}," <said_b>.
? <together>
""",
    "no luck": """
<day>, {a} <wish>.
[But it was gone|But it was not there].
{b} <b_wish>.
<soon> {b} came <move> <along> with a <small> {c} {x}.
<my_thing>
""",
    "the runaway": """
<day>, {a}'s <dear> {z} ran away <along>.
"Have you seen my {z}, {b}?" asked {a} [sadly|softly|quietly|at once].
"It went <along> to the river," <said_b>.
{a} <swam>.
<Where> {a} found the {z} on the <grass>, <wet> and <very> hungry.
{a} gave the {z} some <warm> {f} <where>.
It ate the {f} <hand> and followed {a} home <along>.
""",
    "broken": """
<day>, {a} [dropped|broke|sat on] {b}'s <small> {c} {x} <where>.
{a.He} was [afraid|sad|unhappy] and hid the {c} {x} <where>.
But {a.he} could not [sleep|eat|play|sing] and [cried|sighed] <weep> <where>.
At last {a} <went> to {b} and told {b.him} [everything|the truth].
"[Do not worry|I am not angry|You were brave], {a}," <said_b>.
They mended the {c} {x} <hand> <where>.
Soon it was as good as new, and {a} was [strong|full of joy|glad|happy] again.
""",
    "the loan": """
{b} was [ill|sad|lonely] and [sat|lay] <weep> in {b.his} <cosy> [bed|room|chair|house] all [day|week|winter].
<day>, {a} came <move> <along> and gave {b.him} a <small> {c} {x}.
"Keep it until you are [well|strong|happy] again, {b}," {a.he} said <say>.
[Days|Weeks|Months] later {a} fell <where> and hurt {a.his} [arm|foot|hand].
<soon> {b} came <move> <along> with the {c} {x}.
"Now it is your turn, {a}," {b.he} said <say>.
? <together>
""",
    "a knock at night": """
One [dark|cold|windy|quiet] night, {a} could not sleep, for the [wind|rain|moon] [sang|danced|sighed] <where>.
Then {a.he} heard a [strange|soft|low|loud|funny|long|quiet|sad] [knock|cry|noise|song] <where>.
{a.He} took {a.his} <small> {c} {x} and went <move> to the [door|window|gate].
But it was a <dear> {z}, <wet> and <very> hungry!
{a} gave it some <warm> {f}, and it slept <calm> beside the {c} {x}.
At dawn {b} came <move> <along>. "Have you seen my {z}?" {b} asked [sadly|softly|quietly|at once].
"It [is safe|is well|slept] by the {c} {x}, {b}," said {a} <say>.
""",
    "the boat": """
<day>, {a} and {b} [wanted|dreamed of|talked about] a <small> {c} boat <where>.
"A boat costs money," <said_b>, so {a} <crossed>.
<Where> {a} paid a <dear> [farmer|baker|sailor|teacher] <few> <new> notes for it.
<soon> {a} and {b} rowed the {c} boat <move> across the <wide> river to get to the other bank.
<Where> {a} and {b} [sat|lay|rested] <calm> on the <grass>.
""",
    "the old one and the new one": """
<day>, {a} and {b} lost a <small> {c} {x} <where>.
{a} <swam>.
<Where> {a} [found|saw] the {c} {x} in the <grass>.
{b} <crossed>.
<Where> {b} bought a new {c} {x} with <few> <new> notes.
Now they had two!
""",
    "what the friends did": """
<day>, {a} and {b} ate <warm> {f} <where>.
"I <swam>, {b}," [said {a}|{a} said] <say>. {a.His} <coat> was still wet. "I found this <small> {c} {x}
 <where>."
"And I <crossed>, {a}," <said_b>. {b.He} put <few> <new> notes beside the {c} {x}.
? Then they ate the {f} <hand>.
""",
}
