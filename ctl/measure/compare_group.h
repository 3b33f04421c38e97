/* Rows of `compare` that are compared with each other: those of one service, load and operation.
 * Numbers and sentences that the table, JSON and the report share.  Pure. */
#pragma once
#include "figure.h"
#include "measure.h"

struct group {
	const char *service, *label, *operation;
	struct measure **rows; /* borrowed; the first is the baseline */
	unsigned count;
	enum figure cost; /* the figure by which its rows are compared */
	double noise;     /* of the cost; NaN: unknown */
};

struct groups {
	struct group *list;
	unsigned count;
	char *minor; /* "iperf3 test, nbd block_status": operations that have no rows here; or "" */
};

/* Makes groups in the order in which their rows first appear. m must outlive them and be merged.
 * An operation with less than 1 % of its listener's operations gets no row. */
void groups_init(struct groups *g, const struct measures *m);
void groups_fini(struct groups *g);

/* The figure by which a group's rows are compared.  CPU per request if a generator counted them for
 * all of the rows.  CPU per operation means little when the operations of a group differ in size (a
 * receive batch of discard is whatever arrived): then CPU per byte. */
enum figure compare_cost(struct measure *const *rows, unsigned count);

/* The largest spread between visits of one row; NaN: a row has only one visit. */
double compare_noise(struct measure *const *rows, unsigned count, enum figure figure);

double group_cost(const struct group *g, unsigned i); /* ns; NaN: unknown */

/* Do a and b differ by more than the noise?  False if the noise is unknown. */
bool group_is_apart(const struct group *g, double a, double b);

/* The row that costs less than all others by more than the noise; NULL: none. */
const struct measure *group_best(const struct group *g);

/* The engine with the features that the configuration asks for: `io_uring+sqpoll`. */
void compare_engine_text(const struct measure *row, char *text, size_t bytes);

/* "CPU per request" */
const char *compare_cost_name(enum figure cost);

/* Sentences, which the caller frees; NULL: nothing to report.  The title is never NULL. */
char *group_title(const struct group *g);          /* "nbd read: fio randread" */
char *group_verdict(const struct group *g);        /* of one group, without its title */
char *groups_conclusion(const struct groups *all); /* of all groups, two sentences */
/* Names groups where the generator was the bottleneck. */
char *groups_generator_limit(const struct groups *all);
/* Names groups where generator and server may share CPUs. */
char *groups_shared_cpus(const struct groups *all);
/* Names listeners whose clients read holes: see compare_holes.c. */
char *groups_holes(const struct groups *all);
/* CPU time of other programs on the machine. */
char *groups_other_programs(const struct groups *all);
