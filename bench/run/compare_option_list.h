/* The options of nbbench's commands, in the order of their help:
 * OPTION(ID, commands that have it, name, kind, argument, help).  To be included with OPTION
 * defined. */
/* clang-format off */
OPTION(REPEAT, WORDS | RUN | COMPARE, "repeat", OPTION_VALUE, "N", "number of rounds (default with {port}: as many as verdicts need; else 1)")
OPTION(TIME, WORDS | RUN | COMPARE, "time", OPTION_VALUE, "SECONDS", "... or the longest time for rounds (default: 60)")
OPTION(LABEL, WORDS | RUN | COMPARE, "label", OPTION_VALUE, "TEXT", "names the load in saved rows")
OPTION(SAVE, WORDS | RUN | COMPARE, "save", OPTION_VALUE, "FILE", "append a row per visit to FILE as JSON")
OPTION(AGAINST, WORDS | RUN | COMPARE | SHOW, "against", OPTION_VALUE, "FILE", "compare with these saved rows: what got worse or better")
OPTION(FORCE, WORDS | RUN | COMPARE | SHOW, "force", OPTION_FLAG, NULL, "... even if command, host or keys differ")
OPTION(FAIL_IF, WORDS | RUN | COMPARE | SHOW, "fail-if", OPTION_MANY, "LIMIT", "exit with 5 if a row breaks a limit: p99>200us, rate<100k")
OPTION(WITHIN, WORDS | RUN | COMPARE | SHOW, "within", OPTION_VALUE, "PERCENT", "a difference that counts as none (default: 5)")
OPTION(HTML, WORDS | RUN | COMPARE | SHOW, "html", OPTION_VALUE, "FILE", "write a page with pictures")
OPTION(SVG, SHOW, "svg", OPTION_VALUE, "FILE", "write the picture of the costs alone")
OPTION(WIDE, WORDS | RUN | COMPARE | SHOW, "wide", OPTION_FLAG, NULL, "show all columns, not only the most important ones")
OPTION(ON, RUN | COMPARE, "on", OPTION_VALUE, "HOST,...", "run COMMAND on these hosts at once, over ssh")
OPTION(QUIET, WORDS | RUN | COMPARE, "quiet", OPTION_FLAG, NULL, "hide COMMAND's output unless it fails")
OPTION(BUILD, WORDS | RUN, "build", OPTION_MANY, "NAME=PATH", "measure with two builds of nbserved or more, and judge the later ones by the first")
OPTION(SEED, WORDS | RUN | COMPARE, "seed", OPTION_VALUE, "N", "number that decides the random order of visits")
OPTION(SWEEP, RUN | COMPARE, "sweep", OPTION_MANY, "NAME=V1,V2,...", "measure with each of these for {NAME} in COMMAND")
OPTION(TIMEOUT, WORDS | RUN | COMPARE, "timeout", OPTION_VALUE, "SECONDS", "longest run of COMMAND (default: 600 with {port}, else no limit)")
