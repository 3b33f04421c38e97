/* bench/result/: rows in, verdicts, doubts, findings and what is open out. */
#include <math.h>

#include "measure_case.h"
#include "print.h"
#include "util.h"
#include "words.h"

enum { ROUNDS = 14, REQUESTS = 10000, BYTES = 1000000 };

static uint64_t state_of_chance;

/* A factor about 1, which differs by up to `spread` to each side. */
static double about(double spread)
{
	state_of_chance = state_of_chance * 6364136223846793005 + 1442695040888963407;
	return 1 + spread * ((double)(state_of_chance >> 40) / (1 << 23) - 1);
}

/* A row of visits whose generator made REQUESTS of a hundred bytes, in a tenth as many receives. */
struct kind {
	const char *label, *listener, *engine;
	double cost_ns, calls, switches; /* of a request */
	double spread;                   /* of the cost */
};

static struct measure *add_visit(struct measures *m, const struct kind *k, unsigned round)
{
	struct measure *row = measures_add(m);

	row->label = k->label;
	row->listener = k->listener;
	row->engine = k->engine;
	row->service = row->operation = "echo";
	row->batch = true;
	row->count = row->listener_count = REQUESTS / 10;
	row->bytes_in = row->bytes_out = BYTES / 2;
	row->interval_ns = 100 * NS_PER_MS;
	row->workers = 1;
	row->cpu_ns = (uint64_t)(k->cost_ns * REQUESTS * about(k->spread));
	row->syscalls = (uint64_t)(k->calls * REQUESTS * about(0.02));
	row->switches = (uint64_t)(k->switches * REQUESTS * about(0.02));
	row->generator.name = "g";
	row->generator.wall_ns = row->interval_ns;
	row->generator.result.requests = REQUESTS;
	row->visit.run = "run";
	row->visit.round = round;
	row->visit.generation = 1;
	return row;
}

/* Returns the first of the visits. */
static unsigned add_visits_of(struct measures *m, const struct kind *k)
{
	unsigned first = m->count;

	for (unsigned i = 0; i < ROUNDS; i++)
		add_visit(m, k, i + 1);
	return first;
}

/* A row of so many system calls a request, and of a cost that differs by 30 % from visit to visit.
 */
static struct kind of_calls(const char *listener, const char *engine, double calls)
{
	return (struct kind){ "load", listener, engine, 1000, calls, 0.5, 0.3 };
}

static const struct result_row *row_of(const struct result *r, const char *listener)
{
	for (struct result_at at = { 0 }; result_next(r, &at);)
		if (!strcmp(at.row->row->listener, listener))
			return at.row;
	fail_msg("no row of %s", listener);
	return NULL;
}

static struct result *judged_merged(struct measures *m)
{
	measures_merge(m);
	return judged(m);
}

/* Though a receive brings ten requests, and the cost is lost in the noise. */
TEST(calls_are_judged_for_each_request)
{
	const struct kind a = of_calls("a", "epoll", 0.2), b = of_calls("b", "io_uring", 0.05);
	CLEANUP(measures_free) struct measures m = {};
	const struct result_row *row;
	CLEANUP(result_free_p) struct result *r;

	state_of_chance = 1;
	add_visits_of(&m, &a);
	add_visits_of(&m, &b);
	r = judged_merged(&m);
	row = row_of(r, "b");
	assert_int_equal(r->groups[0].figures[JUDGED_CALLS], FIGURE_SYSCALLS_PER_REQUEST);
	assert_int_equal(row->verdicts[JUDGED_CALLS].is, VERDICT_LESS);
	assert_true(row->verdicts[JUDGED_CALLS].low < -0.73 &&
		    row->verdicts[JUDGED_CALLS].high < -0.7);
	assert_int_equal(row->verdicts[JUDGED_COST].is, VERDICT_UNDECIDED);
	assert_int_equal(row->verdicts[JUDGED_SWITCHES].is, VERDICT_SAME);
	assert_int_equal(r->finding_count, 1);
	assert_int_equal(r->findings[0].what, JUDGED_CALLS);
	assert_int_equal(r->comparisons, 3);
	assert_true(fabs(r->by_chance - 3 * 0.05) < 1e-9);
	assert_int_equal(r->open.open[JUDGED_COST], 1);
	assert_int_equal(r->open.count, 1);
}

/* Without requests, calls for each receive depend on how much each receive brings. */
TEST(calls_for_each_receive_are_not_judged)
{
	const struct kind a = of_calls("a", "epoll", 0.2), b = of_calls("b", "io_uring", 0.05);
	CLEANUP(measures_free) struct measures m = {};
	CLEANUP(result_free_p) struct result *r;

	add_visits_of(&m, &a);
	add_visits_of(&m, &b);
	for (unsigned i = 0; i < m.count; i++)
		m.rows[i]->generator.result.requests = 0;
	r = judged_merged(&m);
	assert_int_equal(r->groups[0].figures[JUDGED_COST], FIGURE_CPU_PER_OP);
	assert_int_equal(r->groups[0].figures[JUDGED_CALLS], FIGURE_COUNT);
}

/* Fewer calls in two loads, for more CPU time in one of them: one sentence each.  Differences in
 * switches are smaller than those in CPU time, and stand before them all the same. */
TEST(calls_come_first_then_switches_then_times)
{
	const struct kind kinds[] = {
		{ "one", "a", "epoll", 1000, 0.2, 0.5, 0.01 },
		{ "one", "b", "io_uring", 1200, 0.05, 0.5, 0.01 },
		{ "two", "a", "epoll", 1000, 0.2, 0.5, 0.01 },
		{ "two", "b", "io_uring", 1000, 0.1, 0.45, 0.01 },
		{ "two", "c", "rdma", 3000, 0.2, 0.5, 0.01 },
	};
	CLEANUP(measures_free) struct measures m = {};
	CLEANUP(result_free_p) struct result *r;
	CLEANUP(free_p) char *text;

	for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++)
		add_visits_of(&m, &kinds[i]);
	r = judged_merged(&m);
	assert_int_equal(r->finding_count, FINDINGS_MAX);
	assert_int_equal(r->findings[0].what, JUDGED_CALLS);
	assert_string_equal(r->findings[0].row->name, "io_uring");
	assert_int_equal(r->findings[0].groups, 2);
	assert_int_equal(r->findings[0].all, 2);
	assert_true(r->findings[0].low < -0.73 && r->findings[0].high > -0.52);
	assert_int_equal(r->findings[1].what, JUDGED_SWITCHES);
	assert_int_equal(r->findings[2].what, JUDGED_COST);
	assert_string_equal(r->findings[2].row->name, "rdma");
	assert_false(r->findings[2].opposite);
	text = words_finding(r, 0);
	assert_has(text, " % fewer system calls per request than epoll, in all 2 loads.");
}

TEST(what_fewer_calls_cost_follows_them)
{
	const struct kind a = { "", "a", "epoll", 1000, 0.2, 0.5, 0.01 };
	const struct kind b = { "", "b", "io_uring", 1100, 0.05, 0.5, 0.01 };
	CLEANUP(measures_free) struct measures m = {};
	CLEANUP(result_free_p) struct result *r;
	CLEANUP(free_p) char *text;

	add_visits_of(&m, &a);
	add_visits_of(&m, &b);
	r = judged_merged(&m);
	assert_int_equal(r->finding_count, 2);
	assert_true(r->findings[1].opposite);
	text = words_finding(r, 1);
	assert_ptr_equal(strstr(text, "For that it takes "), text);
	assert_has(text, " % more CPU time per request: 0.1");
}

/* Whatever chance makes of the rows: each comparison is decided, the same, or open, and what the
 * sentences say is what the rows say. */
TEST(sentences_do_not_contradict_rows)
{
	state_of_chance = 5;
	for (unsigned times = 0; times < 40; times++) {
		CLEANUP(measures_free) struct measures m = {};
		unsigned counts[VERDICT_UNDECIDED + 1] = { 0 };
		CLEANUP(result_free_p) struct result *r;

		for (unsigned i = 0; i < 4; i++) {
			struct kind k = of_calls((const char *const[]){ "a", "b", "c", "d" }[i],
						 (const char *const[]){ "e", "f", "g", "h" }[i],
						 0.1 * about(0.1));

			k.cost_ns *= about(0.2);
			add_visits_of(&m, &k);
		}
		r = judged_merged(&m);
		for (struct result_at at = { 0 }; result_next(r, &at);)
			for (unsigned i = 0; !at.first && i < JUDGED_FAMILIES; i++)
				counts[at.row->verdicts[i].is]++;
		assert_int_equal(counts[VERDICT_UNDECIDED], r->open.count);
		assert_int_equal(r->comparisons, 9);
		assert_int_equal(r->finding_count, MIN(counts[VERDICT_LESS] + counts[VERDICT_MORE],
						       (unsigned)FINDINGS_MAX));
		for (unsigned i = 0; i < r->finding_count; i++) {
			const struct finding *f = &r->findings[i];

			assert_int_equal(f->row->verdicts[f->what].is, f->is);
			assert_true(f->low == f->row->verdicts[f->what].low);
		}
	}
}

/* Half a call for each visit, by what the calls of the others are divided by: operations. */
TEST(a_count_of_zero_is_half_of_one_in_the_unit_of_the_figure)
{
	const struct kind a = of_calls("a", "epoll", 0), b = of_calls("b", "io_uring", 0.2);
	const double half = 0.5 * 10 / REQUESTS, calls = 0.2 * 10;
	CLEANUP(measures_free) struct measures m = {};
	CLEANUP(result_free_p) struct result *r;

	add_visits_of(&m, &a);
	for (unsigned i = add_visits_of(&m, &b); i < m.count; i++)
		m.rows[i]->generator.result.requests = 0;
	for (unsigned i = 0; i < m.count; i++)
		m.rows[i]->batch = false;
	r = judged_merged(&m);
	assert_int_equal(r->groups[0].figures[JUDGED_CALLS], FIGURE_SYSCALLS_PER_OP);
	assert_true(fabs(row_of(r, "b")->verdicts[JUDGED_CALLS].change / (calls / half) - 1) <
		    0.05);
}

/* Rows of two listeners whose CPU time differs by 30 % from visit to visit.  Adds to each of them
 * what the CPU counted: less by a tenth for the second.  alone: in user space. */
static struct result *with_counts(struct measures *m, bool first_alone, bool second_alone)
{
	const struct kind a = of_calls("a", "epoll", 0.2), b = of_calls("b", "io_uring", 0.2);
	unsigned second;

	state_of_chance = 1;
	add_visits_of(m, &a);
	second = add_visits_of(m, &b);
	for (unsigned i = 0; i < m->count; i++) {
		struct measure *row = m->rows[i];
		uint64_t count = (i < second ? 10000 : 9000) * (uint64_t)(REQUESTS * about(0.02));

		if (i < second ? first_alone : second_alone) {
			row->user_instructions = count;
		} else {
			row->instructions = count;
			row->cycles = 2 * count;
		}
	}
	return judged_merged(m);
}

TEST(instructions_decide_where_times_do_not)
{
	CLEANUP(measures_free) struct measures m = {};
	CLEANUP(result_free_p) struct result *r = with_counts(&m, false, false);
	CLEANUP(free_p) char *text = words_finding(r, 1);

	assert_false(verdict_decides(row_of(r, "b")->verdicts[JUDGED_COST].is));
	assert_int_equal(row_of(r, "b")->verdicts[JUDGED_INSTRUCTIONS].is, VERDICT_LESS);
	assert_int_equal(row_of(r, "b")->verdicts[JUDGED_CYCLES].is, VERDICT_LESS);
	assert_int_equal(r->finding_count, 2);
	assert_int_equal(r->findings[0].what, JUDGED_INSTRUCTIONS);
	assert_int_equal(r->findings[1].what, JUDGED_CYCLES);
	assert_has(text, " % fewer cycles per request than epoll");
}

/* They are named so, and nothing is said of cycles, which were not counted. */
TEST(instructions_in_user_space_alone_are_judged_as_such)
{
	CLEANUP(measures_free) struct measures m = {};
	CLEANUP(result_free_p) struct result *r = with_counts(&m, true, true);
	CLEANUP(free_p) char *text = words_finding(r, 0);

	assert_int_equal(r->groups[0].figures[JUDGED_INSTRUCTIONS],
			 FIGURE_USER_INSTRUCTIONS_PER_REQUEST);
	assert_int_equal(row_of(r, "b")->verdicts[JUDGED_INSTRUCTIONS].is, VERDICT_LESS);
	assert_int_equal(row_of(r, "b")->verdicts[JUDGED_CYCLES].is, VERDICT_TOO_FEW_ROUNDS);
	assert_has(text, "fewer instructions in user space per request than epoll");
}

TEST(instructions_of_all_and_of_user_space_are_not_compared)
{
	for (int first = 0; first < 2; first++) {
		CLEANUP(measures_free) struct measures m = {};
		CLEANUP(result_free_p) struct result *r = with_counts(&m, first, !first);

		assert_int_equal(row_of(r, "b")->verdicts[JUDGED_INSTRUCTIONS].is,
				 VERDICT_TOO_FEW_ROUNDS);
		assert_int_equal(r->finding_count, 0);
	}
}

/* Rows of an earlier release have no context switches. */
TEST(an_unknown_count_is_not_judged)
{
	struct kind a = of_calls("a", "epoll", 0.2), b = of_calls("b", "io_uring", 0.2);
	CLEANUP(measures_free) struct measures m = {};
	CLEANUP(result_free_p) struct result *r;

	a.switches = 0;
	add_visits_of(&m, &a);
	add_visits_of(&m, &b);
	r = judged_merged(&m);
	assert_int_equal(row_of(r, "b")->verdicts[JUDGED_SWITCHES].is, VERDICT_TOO_FEW_ROUNDS);
	assert_int_equal(r->finding_count, 0);
}

/* ---- Doubts ---- */

static struct result *with_bytes(struct measures *m, const char *listener, unsigned odd)
{
	const struct kind a = of_calls("a", "epoll", 0.2), b = of_calls("b", "io_uring", 0.05);
	unsigned first = add_visits_of(m, &a), second = add_visits_of(m, &b);

	for (unsigned i = 0; i < m->count; i++)
		m->rows[i]->instructions = m->rows[i]->cycles = 5000 * REQUESTS;
	for (unsigned i = 0; i < odd; i++)
		m->rows[(*listener == 'a' ? first : second) + i]->bytes_in += BYTES / 10;
	return judged_merged(m);
}

/* Another client is served as well. */
TEST(bytes_of_others_leave_no_verdict)
{
	struct measures m = {};
	struct result *r = with_bytes(&m, "b", ROUNDS);
	const struct result_row *row = row_of(r, "b");

	assert_int_equal(row->doubt, DOUBT_BYTES);
	assert_int_equal(row->doubted, ROUNDS);
	for (unsigned i = 0; i < JUDGED_FAMILIES; i++)
		assert_int_equal(row->verdicts[i].is, VERDICT_NOT_COMPARABLE);
	assert_false(isnan(row->change)); /* the estimate stays */
	assert_int_equal(r->finding_count, 0);
	assert_has(warned(r, "no_verdict"), "No verdict on b: bytes");
	result_free(r);
	measures_free(&m);
	r = with_bytes(&m, "a", 3);
	assert_int_equal(row_of(r, "a")->doubt, DOUBT_BYTES);
	assert_int_equal(row_of(r, "b")->doubt, DOUBT_FIRST);
	assert_int_equal(row_of(r, "b")->verdicts[JUDGED_CALLS].is, VERDICT_NOT_COMPARABLE);
	result_free(r);
	measures_free(&m);
}

TEST(one_odd_visit_is_left_out)
{
	CLEANUP(measures_free) struct measures m = {};
	CLEANUP(result_free_p) struct result *r = with_bytes(&m, "b", 1);
	const struct result_row *row = row_of(r, "b");

	assert_int_equal(row->doubt, DOUBT_NONE);
	assert_int_equal(row->doubted, 1);
	assert_int_equal(row->verdicts[JUDGED_CALLS].is, VERDICT_LESS);
	assert_int_equal(row->verdicts[JUDGED_CALLS].rounds, ROUNDS - 1);
}

static void change_workers(struct measure *visit)
{
	visit->workers = 2;
}

static void change_generation(struct measure *visit)
{
	visit->visit.generation = 2;
}

static void change_start(struct measure *visit)
{
	visit->visit.since_ns = 5;
}

static void change_within(struct measure *visit)
{
	visit->visit.changed = 1;
}

TEST(a_listener_that_changed_has_no_verdict)
{
	static void (*const changes[])(struct measure * visit) = { change_workers,
								   change_generation, change_start,
								   change_within };

	for (unsigned i = 0; i < ARRAY_SIZE(changes); i++) {
		const struct kind a = of_calls("a", "epoll", 0.2),
				  b = of_calls("b", "io_uring", 0.05);
		CLEANUP(measures_free) struct measures m = {};
		unsigned first;
		CLEANUP(result_free_p) struct result *r;

		add_visits_of(&m, &a);
		first = add_visits_of(&m, &b);
		for (unsigned j = ROUNDS / 2; j < ROUNDS; j++)
			changes[i](m.rows[first + j]);
		r = judged_merged(&m);
		assert_int_equal(row_of(r, "b")->doubt, DOUBT_CHANGED);
		assert_int_equal(row_of(r, "b")->doubted, ROUNDS / 2);
	}
}

/* Each visit says how many of its row failed in its run. */
TEST(a_tenth_of_failed_visits_leaves_no_verdict)
{
	for (unsigned failed = 1; failed <= 2; failed++) {
		const struct kind a = of_calls("a", "epoll", 0.2),
				  b = of_calls("b", "io_uring", 0.05);
		CLEANUP(measures_free) struct measures m = {};
		unsigned first;
		CLEANUP(result_free_p) struct result *r;

		add_visits_of(&m, &a);
		first = add_visits_of(&m, &b);
		for (unsigned i = 0; i < ROUNDS; i++)
			m.rows[first + i]->visit.failed = failed;
		r = judged_merged(&m);
		assert_int_equal(row_of(r, "b")->failed, failed);
		assert_int_equal(row_of(r, "b")->doubt, failed == 2 ? DOUBT_FAILED : DOUBT_NONE);
		assert_non_null(warned(r, "failed_visits"));
	}
}

/* The wait for the next datagram was once in the server's latency. */
TEST(a_latency_above_the_round_trip_leaves_no_verdict)
{
	const struct kind a = of_calls("a", "epoll", 0.2), b = of_calls("b", "io_uring", 0.05);
	CLEANUP(measures_free) struct measures m = {};
	CLEANUP(result_free_p) struct result *r;

	add_visits_of(&m, &a);
	add_visits_of(&m, &b);
	for (unsigned i = 0; i < m.count; i++) {
		struct measure *row = m.rows[i];

		row->batch = false;
		row->generator.result.quantile_count = 1;
		row->generator.result.quantiles[0] = (struct generator_quantile){ 0.5, 80000 };
		row->latency.count = 100;
		row->latency.buckets[histogram_bucket(i < ROUNDS ? 26000 : 10000000)] = 100;
		row->latency.min = row->latency.max = i < ROUNDS ? 26000 : 10000000;
	}
	r = judged_merged(&m);
	assert_int_equal(row_of(r, "a")->doubt, DOUBT_NONE);
	assert_int_equal(row_of(r, "b")->doubt, DOUBT_LATENCY);
}

/* ---- What would decide ---- */

/* Intervals are narrower by the square root of the rounds. */
TEST(four_times_the_rounds_see_half_the_difference)
{
	const struct kind a = of_calls("a", "epoll", 0.2), b = of_calls("b", "io_uring", 0.2);
	const struct verdict *v;
	double wanted;
	CLEANUP(measures_free) struct measures m = {};
	CLEANUP(result_free_p) struct result *r;

	state_of_chance = 9;
	add_visits_of(&m, &a);
	add_visits_of(&m, &b);
	r = judged_merged(&m);
	assert_int_equal(r->open.open[JUDGED_COST], 1);
	v = &row_of(r, "b")->verdicts[JUDGED_COST];
	wanted = ROUNDS * pow(v->half_width / (log1p(WITHIN_DEFAULT) / 2), 2);
	assert_true(fabs(r->open.rounds - wanted) <= 1);
	assert_true(r->open.rounds > 4 * ROUNDS);
	/* Two visits of 0.1 s a round. */
	assert_true(fabs(r->open.seconds / r->open.rounds - 0.2) < 1e-6);
}

/* ---- Then and now ---- */

static void add_run(struct measures *m, const char *run, double cost_ns, double generator_ns)
{
	struct kind k = { "", "a", "epoll", cost_ns, 0.2, 0.5, 0.01 };
	unsigned first = m->count;

	for (unsigned i = 0; i < 3; i++)
		add_visit(m, &k, i + 1);
	for (unsigned i = first; i < m->count; i++) {
		m->rows[i]->visit.run = run;
		m->rows[i]->generator.cpu_ns = (uint64_t)(generator_ns * REQUESTS * about(0.01));
	}
}

/* Five runs each, of a machine that is so much slower now, and a server that costs so much more.
 * setup: of those now; another one than then is judged by force. */
static struct result *beside(struct measures *now, struct measures *then, double machine,
			     double server, const char *setup)
{
	static const char *const runs[] = { "1", "2", "3", "4", "5", "6", "7", "8", "9", "10" };
	const struct result_options options = { .saved = then, .force = *setup };

	for (unsigned i = 0; i < 5; i++) {
		double mood = about(0.02);

		add_run(then, runs[i], 1000, 500);
		add_run(now, runs[5 + i], 1000 * machine * server * mood, 500 * machine * mood);
	}
	for (unsigned i = 0; i < now->count; i++)
		now->rows[i]->visit.setup = setup;
	measures_merge(now);
	measures_merge(then);
	return result_new(now, &options);
}

static json_t *gate_in(const json_t *document, const char *name)
{
	return json_object_get(json_object_get(document, "gates"), name);
}

TEST(a_slower_machine_is_no_worse_server)
{
	static const struct {
		double machine, server;
		bool changed;
		enum gate gate;
	} cases[] = {
		{ 1, 1, false, GATE_PASSED },      { 1.03, 1, false, GATE_PASSED },
		{ 1.03, 1.2, false, GATE_FAILED }, { 1.2, 1, true, GATE_UNKNOWN },
		{ 0.8, 1.3, true, GATE_UNKNOWN },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(measures_free) struct measures now = {}, then = {};
		CLEANUP(result_free_p)
		struct result *r = beside(&now, &then, cases[i].machine, cases[i].server, "");
		const struct against_saved *t = row_of(r, "a")->saved;
		json_t *document;

		assert_int_equal(t->machine_changed, cases[i].changed);
		assert_int_equal(r->gate, cases[i].gate);
		document = print_json(r, &now);
		assert_string_equal(json_string_value(gate_in(document, "against")),
				    gate_names[r->gate]);
		assert_null(gate_in(document, "pairs")); /* no one asked for these */
		json_decref(document);
		assert_true(fabs(t->generator_now / t->generator_before / cases[i].machine - 1) <
			    0.05);
		assert_int_equal(strstr(words_against(r, row_of(r, "a")).text, "machine changed") !=
					 NULL,
				 cases[i].changed);
	}
}

/* Its generator does other work, which tells nothing of the machine. */
TEST(another_setup_is_judged_by_the_cost_itself)
{
	static const double generators[] = { 1.03, 1.5 };

	for (unsigned i = 0; i < ARRAY_SIZE(generators); i++) {
		CLEANUP(measures_free) struct measures now = {}, then = {};
		struct result *r =
			beside(&now, &then, generators[i], 1.2 / generators[i], "another");
		const struct against_saved *t = row_of(r, "a")->saved;

		assert_true(t->other_setup);
		assert_false(t->machine_changed);
		assert_int_equal(t->verdict.is, VERDICT_MORE);
		assert_true(t->verdict.low < 0.2 && t->verdict.high > 0.2);
		assert_true(t->verdict.low <= t->verdict.change &&
			    t->verdict.change <= t->verdict.high);
		result_free(r);
	}
}

/* The machine is half as fast in some visits; the generator's time tells which. */
TEST(builds_are_judged_by_the_generators_time)
{
	CLEANUP(measures_free) struct measures m = {};
	CLEANUP(result_free_p) struct result *r;

	for (unsigned build = 0; build < 2; build++)
		for (unsigned i = 0; i < ROUNDS; i++) {
			struct kind k = { "",      build ? "a (new)" : "a (old)",
					  "epoll", build ? 1060 : 1000,
					  0.2,     0.5,
					  0 };
			struct measure *row = add_visit(&m, &k, i + 1);
			double slow = about(0.5);

			row->pair = "a";
			row->visit.setup = "s";
			row->cpu_ns = (uint64_t)((double)row->cpu_ns * slow);
			row->generator.cpu_ns = (uint64_t)(500 * REQUESTS * slow * about(0.01));
		}
	r = judged_merged(&m);
	assert_true(r->groups[0].same_work);
	assert_int_equal(row_of(r, "a (new)")->verdicts[JUDGED_COST].is, VERDICT_MORE);
	assert_true(row_of(r, "a (new)")->verdicts[JUDGED_COST].half_width < 0.02);
}
