/* The result of a comparison: rows in groups, the verdicts on them, the same rows of earlier runs,
 * warnings, and what a run ends in.  result_new() finds all of it once; the table, the sentences,
 * JSON, the page and the exit status only read it, so they cannot contradict each other.  Pure.
 *
 * A group has the rows of one service, load and operation; its first row is the one with which the
 * others are compared. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "figure.h"
#include "gate.h"
#include "measure.h"
#include "verdict.h"

/* A relative difference that counts as none, unless the user says another. */
#define WITHIN_DEFAULT 0.05

/* A figure over the visits of a row.  NaN: unknown. */
struct value {
	double median, lower,
		upper;  /* with its interval, which holds in 95 of 100 runs by itself */
	unsigned count; /* visits, or blocks of them, for which it is known */
};

/* What is judged of each row but the first.  System calls, context switches, instructions, cycles
 * and cost are families: the intervals of each hold together over the comparisons of the group.
 * The last three are one family. */
enum judged {
	JUDGED_CALLS,
	JUDGED_SWITCHES,
	JUDGED_INSTRUCTIONS,
	JUDGED_CYCLES,
	JUDGED_COST,
	JUDGED_FAMILIES,
	JUDGED_RATE = JUDGED_FAMILIES,
	JUDGED_TRIP50,
	JUDGED_TRIP99,
	JUDGED_COUNT
};

/* Why a row has no verdict, though there are enough rounds. */
enum doubt {
	DOUBT_NONE,
	DOUBT_FAILED,  /* COMMAND failed in a tenth of its visits */
	DOUBT_CHANGED, /* the listener or its keys changed meanwhile */
	DOUBT_BYTES,   /* its bytes for each counted request are not those of the others */
	DOUBT_LATENCY, /* requests took longer in the server than by the generator's clock */
	DOUBT_FIRST,   /* the first row has no verdict for one of these reasons */
	DOUBTS
};
extern const struct doubt_info {
	const char *name;             /* as in JSON */
	const char *words, *sentence; /* in a cell; in a warning */
} doubt_infos[DOUBTS];

/* A row beside the saved rows of the same name.  Its units are whole runs, not rounds: all visits
 * of a run share the state of the machine. */
struct against_saved {
	const struct measure *row; /* a saved one */
	double before, now;        /* cost, the median of the runs; NaN: unknown */
	unsigned runs_before, runs_now;
	bool other_setup; /* saved rows are of another command, host, kernel or configuration */
	/* The generator's CPU time per request, if it is known on both sides: the machine's speed,
	 * where it does the same work, which it may not in another setup.  `verdict` is on the
	 * ratio of the cost to it then. */
	double generator_before, generator_now;
	bool machine_changed; /* these differ by more than `within` */
	struct verdict verdict;
	enum gate gate;
};

struct result_row {
	struct measure *row; /* its visits; borrowed */
	char name[80];       /* its engine, or its own name where another row has the same engine */
	struct value values[FIGURE_COUNT];
	struct verdict verdicts[JUDGED_COUNT]; /* against the group's first row, which has none */
	double change; /* of the cost, where nothing is judged, too; NaN: unknown */
	enum doubt doubt;
	unsigned doubted;                 /* visits that are not judged */
	unsigned failed;                  /* visits in which COMMAND failed */
	bool generator_limit, link_limit; /* the rate is theirs, not the server's */
	struct against_saved *saved;      /* NULL: not asked for, or no saved row */
	enum gate gate;                   /* of --build; of other rows: passed */
};

struct result_group {
	const char *service, *label, *operation, *pair; /* borrowed; see struct measure */
	char *title;                                    /* "nbd read: fio randread" */
	enum figure figures[JUDGED_COUNT];              /* FIGURE_COUNT: not judged */
	enum figure host;                               /* the cost of the whole host */
	enum figure rate;                               /* of what the cost is divided by */
	unsigned comparisons; /* whose intervals hold together, see verdict.h */
	unsigned rounds;      /* the most that a row has in common with the first one */
	bool judged;          /* any row has a verdict, if only "undecided" */
	bool same_work;     /* all rows have one setup in several builds: judged by the ratio to the
			       generator's CPU time */
	double usual_bytes; /* for each request that the generator counted; NaN: unknown */
	double round_s;     /* length of a round's visits, seconds; NaN: unknown */
	double within;      /* the relative difference that counts as none */
	struct result_row *rows;
	unsigned count;
};

/* A decided difference of a figure, of one engine in one or more groups; a sentence is made of
 * it. */
struct finding {
	enum judged what;
	enum verdict_is is;
	const struct result_group *group; /* where it is largest */
	const struct result_row *row;
	double low, high;     /* of the intervals of all groups in which it is decided so */
	unsigned groups, all; /* in how many of those where the engine is compared */
	double size;          /* the logarithm of the largest ratio, without its sign */
	bool opposite; /* a time that is more, where a count of the same row before it is less */
};
enum { FINDINGS_MAX = 3 };

/* The comparisons that are not decided. */
struct open {
	unsigned count, all[JUDGED_FAMILIES], open[JUDGED_FAMILIES];
	unsigned rounds;           /* that would decide differences of half of `within` */
	double seconds;            /* NaN: unknown */
	unsigned too_few, doubted; /* rows that have no verdict at all */
};

struct result_warning {
	const char *kind;   /* "shared_cpus", as in JSON */
	char *text;         /* a sentence */
	bool of_conditions; /* of the machine, which stand above the table; else of figures */
};

struct result_curve;
struct limits;

struct result {
	struct result_group *groups;
	unsigned group_count;
	struct result_curve *curves; /* of a sweep; see curve.h */
	unsigned curve_count;
	struct result_warning *warnings;
	unsigned warning_count;
	struct finding findings[FINDINGS_MAX]; /* the first one first */
	unsigned finding_count;
	struct open open;
	unsigned comparisons; /* that were judged, over all families of figures */
	double by_chance;     /* of equal things so many would be decided, at most */
	double within;
	char *minor;               /* "nbd block_status": operations that are in no row; or "" */
	const json_t *unavailable; /* borrowed; NULL: none */
	/* Of --against. */
	bool against;
	unsigned found;  /* rows that have a saved one */
	json_t *changed; /* [{ "what": "kernel", "then": "Linux 6.1", "now": "Linux 6.12" }] */
	struct limits *limits;                    /* of --fail-if; NULL: none */
	bool pairs;                               /* --pair or --build was given */
	enum gate pairs_gate, against_gate, gate; /* gate: of all that were asked for */
};

struct limit;
struct result_options {
	double within;                /* 0: WITHIN_DEFAULT */
	const struct measures *saved; /* of --against, merged; NULL: without */
	bool force;                   /* `saved` may be of other setups */
	bool pairs;                   /* pairs decide the exit status */
	const struct limit *limits;
	unsigned limit_count;
};

/* m is merged.  It, the rows of then and the limits must outlive the result. */
struct result *result_new(const struct measures *m, const struct result_options *options);
void result_free(struct result *r);

/* Steps through the rows of all groups; *at begins as { 0 }.  False: there are no more. */
struct result_at {
	struct result_group *group;
	struct result_row *row;
	bool first; /* of its group */
};
bool result_next(const struct result *r, struct result_at *at);

static inline const struct value *result_cost(const struct result_group *g,
					      const struct result_row *row)
{
	return &row->values[g->figures[JUDGED_COST]];
}

/* The relative distance of the row's rate from the first one's, without a sign; NaN: unknown. */
double result_rate_apart(const struct result_group *g, const struct result_row *row);
/* Is a thread of the generator that uses this share of a CPU the limit, and the server not? */
bool result_is_limit(const struct result_row *row, double share);

/* Half of the widest interval of the costs, as a relative change, and the fewest rounds that can
 * decide: for rounds.c.  m is not merged, and stays as it is.  NaN: there is no interval. */
double result_width(const struct measures *m);
unsigned result_least_rounds(unsigned comparisons);
