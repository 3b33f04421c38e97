/* Rows of `compare` that are compared with each other: those of one service, load and operation.
 * Numbers and sentences that the table, JSON and the report share.  Pure. */
#pragma once
#include "figure.h"
#include "measure.h"
#include "verdict.h"

/* A relative difference that counts as none, unless the user says another. */
#define WITHIN_DEFAULT 0.05

struct group {
	const char *service, *label, *operation;
	const char *pair;         /* see struct measure; "": none */
	unsigned comparisons;     /* whose intervals hold together, see verdict.h */
	struct measure **rows;    /* borrowed; the first is the baseline */
	struct verdict *verdicts; /* of each row against the first one; [0] is not judged */
	unsigned count;
	enum figure cost; /* the figure by which its rows are compared */
	double within;    /* the relative difference that counts as none */
	bool of_runs;     /* judged by whole runs, not by rounds; see against.h */
};

struct groups {
	struct group *list;
	unsigned count;
	char *minor; /* "iperf3 test, nbd block_status": operations that have no rows here; or "" */
};

/* Makes groups in the order in which their rows first appear. m must outlive them and be merged.
 * An operation with less than 2 % of its listener's operations gets no row. */
void groups_init(struct groups *g, const struct measures *m);
void groups_fini(struct groups *g);

/* Goes through the rows of all groups, from { 0 } on; false: there are no more. */
struct groups_at {
	const struct measure *row;
	const struct group *group;
	const struct verdict *verdict; /* NULL: the first row of its group, which is not judged */
	unsigned group_index, index;   /* of the group; of the row in it */
};
bool groups_next(const struct groups *all, struct groups_at *at);

/* The figure by which a group's rows are compared.  CPU per request if a generator counted them for
 * all of the rows.  CPU per operation means little when the operations of a group differ in size (a
 * receive batch of discard is whatever arrived): then CPU per byte. */
enum figure compare_cost(struct measure *const *rows, unsigned count);

/* The row's visit in the same round of the same run as `like`; NULL: there is none. */
const struct measure *visit_beside(const struct measure *row, const struct measure *like);

double group_cost(const struct group *g, unsigned i); /* ns; NaN: unknown */

/* The relative change of row i against the first one: the estimate from the rounds that they have
 * in common, or, if there are none, of their medians.  NaN: unknown. */
double group_change(const struct group *g, unsigned i);

/* Figures that are judged beside the cost, as it is: their intervals hold together. The rate is not
 * judged where the generator or the link was the limit of a row. */
enum { GROUP_SIDE_FIGURES = 3 };
extern const enum figure group_side_figures[GROUP_SIDE_FIGURES];
struct verdict group_side_verdict(const struct group *g, unsigned row, unsigned side);

/* The row with `tls = user` of the same engine as row i, whose records the kernel makes: the two
 * are compared as well, and the intervals of all such pairs hold together.  0: there is none, or it
 * is the first. */
unsigned group_user_row(const struct group *g, unsigned i);
struct verdict group_user_verdict(const struct group *g, unsigned i);

/* The relative distance of the row's rate from the first one's, without a sign; NaN: unknown. */
double group_rate_apart(const struct group *g, unsigned row);

/* Is any row judged, if only as undecided? */
bool group_is_judged(const struct group *g);

/* The most rounds that a row has in common with the first one. */
unsigned group_rounds(const struct group *g);

/* "-3.1 %", the estimate; "": unknown. */
struct phrase {
	char text[80];
};
struct phrase group_change_text(const struct group *g, unsigned i);

/* What its interval tells: "0.6 to 5.8 % less", "the same within 5 %", "undecided, -3.0 to +7.4 %",
 * "too few rounds: 3 of 7" */
struct phrase group_verdict_text(const struct group *g, unsigned i);

/* The row's engine, or its own name where another row has the same engine. */
struct phrase group_row_name(const struct group *g, unsigned i);

/* The engine with the features that the configuration asks for: `io_uring+sqpoll`. */
struct phrase compare_engine_text(const struct measure *row);

/* Sentences, which the caller frees; NULL: nothing to report.  The title is never NULL.
 * group_tls(): which libraries and ciphers its rows use. */
char *group_title(const struct group *g);   /* "nbd read: fio randread" */
char *group_tls(const struct group *g);     /* "tls by OpenSSL 3.0.19 with aes-128-gcm" */
char *group_verdict(const struct group *g); /* of one group, without its title */
/* Rows with `tls = kernel` against those with `tls = user`. */
char *group_user(const struct group *g);
/* The differences of other figures than the cost, and the part of a CPU that the cost takes. */
char *group_side(const struct group *g);
char *groups_conclusion(const struct groups *all); /* of all groups, two sentences */
/* Names groups where the network interface was the bottleneck. */
char *groups_link_limit(const struct groups *all);
/* Names groups where the generator was the bottleneck, and not the link. */
char *groups_generator_limit(const struct groups *all);
/* Names listeners that may run on the generator's CPUs; on other hardware threads of its cores. */
char *groups_shared_cpus(const struct groups *all);
char *groups_shared_cores(const struct groups *all);
/* Conditions that make the figures less reliable: a line each; NULL: none. */
char *groups_conditions(const struct groups *all);
/* All sentences that warn of figures, the two above among them, in the order to be shown. */
typedef char *groups_sentence(const struct groups *all);
enum { GROUPS_WARNINGS = 8 };
extern groups_sentence *const groups_warnings[GROUPS_WARNINGS];
