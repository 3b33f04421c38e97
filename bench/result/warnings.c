/* What makes figures less reliable, or void: a sentence for each kind of warning, however many rows
 * it is about.  See result.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "generator.h"
#include "hosts.h"
#include "human.h"
#include "measure_visits.h"
#include "must.h"
#include "steps.h"
#include "text.h"
#include "util.h"

/* ---- What a sentence is about ---- */

/* "a, b"; NULL: the array is empty.  Frees it. */
static char *list_text(json_t *list)
{
	char *text = json_array_size(list) ? field_show(list) : NULL;

	json_decref(list);
	return text;
}

/* The listeners of which it is true in any load. */
static char *listeners(const struct result *r, bool (*is)(const struct result_at *at))
{
	json_t *names = json_array();

	for (struct result_at at = { 0 }; result_next(r, &at);)
		if (is(&at))
			field_add_once(names, json_string(at.row->row->listener));
	return list_text(names);
}

/* "3 of 14 visits" of all rows. */
static char *visits(const struct result *r, bool (*is)(const struct measure *visit))
{
	unsigned count = 0, all = 0;

	for (struct result_at at = { 0 }; result_next(r, &at);) {
		for (unsigned i = 0; i < measure_visits(at.row->row); i++)
			count += is(measure_visit_at(at.row->row, i));
		all += measure_visits(at.row->row);
	}
	return count ? text_new("%u of %u visits", count, all) : NULL;
}

/* "echo-uring (3 of 24), echo-epoll (1 of 24)": the visits of each row; 0 of them: not named. */
static char *parts(const struct result *r,
		   unsigned (*part)(const struct result_at *at, unsigned *ret_all))
{
	json_t *rows = json_array();

	for (struct result_at at = { 0 }; result_next(r, &at);) {
		unsigned all, count = part(&at, &all);

		if (count)
			json_array_append_new(
				rows,
				json_sprintf("%s (%u of %u)", at.row->row->listener, count, all));
	}
	return list_text(rows);
}

/* The most of any row, in percent. */
static char *most(const struct result *r, enum figure figure, double least)
{
	double found = 0;

	for (struct result_at at = { 0 }; result_next(r, &at);)
		found = fmax(found, at.row->values[figure].median);
	return found >= least ? text_new("%s", human_percent(found).text) : NULL;
}

static const char *host_text(const struct result *r, const char *name)
{
	const struct measure *visit =
		r->group_count ? measure_visit_at(r->groups[0].rows[0].row, 0) : NULL;

	return visit ? field_text(field_get(visit->conditions, "host"), name) : "";
}

enum { FINE_MAX = 4 };

/* The host's value, unless it is unknown or fine. */
static char *host_value(const struct result *r, const char *name, const char *const *fine)
{
	const char *value = host_text(r, name);

	for (unsigned i = 0; i < FINE_MAX && fine[i]; i++)
		if (!strcmp(value, fine[i]))
			return NULL;
	return *value ? text_new("%s", value) : NULL;
}

/* ---- Of rows and visits ---- */

/* clang-format off */
#define VISIT_IS(name, condition) \
	static bool name(const struct measure *visit) { return (condition); }
#define ROW_IS(name, condition) \
	static bool name(const struct result_at *at) \
	{ \
		const struct result_row *r = at->row; \
		return (condition); \
	}
VISIT_IS(was_throttled, field_uint(visit->conditions, "throttled") > 0)
VISIT_IS(was_on_other_nodes, field_bool(visit->conditions, "other_nodes"))
VISIT_IS(has_refused, visit->generator.refused_requests > 0)
ROW_IS(is_elsewhere, r->row->generator.elsewhere)
ROW_IS(is_by_ssh, is_elsewhere(at) && *field_text(r->row->conditions, "host_by_ssh"))
ROW_IS(shares_cpu, r->row->generator.shared_cpus > 0)
ROW_IS(shares_core, r->row->generator.sibling_cpus > 0)
ROW_IS(is_link_limit, r->link_limit)
ROW_IS(is_generator_limit, r->generator_limit)
ROW_IS(is_saturated, !isnan(figure_value(r->row, FIGURE_TURN_P99)))
ROW_IS(is_of_frames, !strcmp(r->row->engine, "af_xdp"))
ROW_IS(is_beside_frames, is_of_frames(at) && (double)r->row->frames_in < 0.99 * (double)r->row->datagrams_in)
ROW_IS(does_not_add_up, r->row->generator.wall_ns && r->row->machine.total_ns &&
       r->row->machine.irq_time != IRQ_TIME_UNKNOWN && isnan(figure_value(r->row, FIGURE_OTHER)))
ROW_IS(is_beside_generator, is_of_frames(at) && r->row->generator.wall_ns && !is_elsewhere(at) &&
       !isnan(r->values[at->group->host].median))
/* clang-format on */

/* Is there a verdict on what the row's threads take, and not so by what the whole host does? */
static bool is_otherwise_by_host(const struct result_at *at)
{
	double own = at->row->values[at->group->host].median;
	double first = at->group->rows->values[at->group->host].median;
	enum verdict_is is = at->row->verdicts[JUDGED_COST].is;

	if (!is_of_frames(at) && strcmp(at->group->rows->row->engine, "af_xdp") != 0)
		return false;
	return (is == VERDICT_LESS && own >= first) || (is == VERDICT_MORE && own <= first);
}

static unsigned failed(const struct result_at *at, unsigned *ret_all)
{
	*ret_all = at->row->failed + measure_visits(at->row->row);
	return at->row->failed;
}

/* Returns the number of rounds in which this row could be compared with the first row, if that is
 * below 90 % of *ret_all, the number of visits; else 0. */
static unsigned compared_rounds(const struct result_at *at, unsigned *ret_all)
{
	unsigned rounds = at->row->verdicts[JUDGED_COST].rounds;

	*ret_all = MAX(measure_visits(at->group->rows[0].row), measure_visits(at->row->row));
	return rounds < 0.9 * *ret_all ? rounds : 0;
}

/* ---- Sentences that are made otherwise ---- */

/* One sentence about all rows without a verdict, by their reasons. */
static char *doubted(const struct result *r)
{
	char *text = NULL;
	FILE *to = text_open(&text);

	for (unsigned i = DOUBT_FAILED; i < DOUBT_FIRST; i++) {
		json_t *rows = json_array();
		char *names;

		for (struct result_at at = { 0 }; result_next(r, &at);)
			if (at.row->doubt == i)
				field_add_once(rows, json_string(at.row->row->listener));
		names = list_text(rows);
		if (names)
			fprintf(to, "%s%s: %s", ftell(to) ? "; " : "No verdict on ", names,
				doubt_infos[i].sentence);
		free(names);
	}
	if (ftell(to))
		putc('.', to);
	return text_close(to, &text);
}

static char *shared_cpus(const struct result *r)
{
	const char *apart = host_text(r, "apart"), *space = strchr(apart, ' ');
	char *names = listeners(r, shares_cpu), *text = NULL;

	if (names && space)
		text = text_new(
			"The generator and %s may run on the same CPUs: pin them apart "
			"(`cpus = %.*s` in the listener, taskset -c %s COMMAND), or they take "
			"time from each other.",
			names, (int)(space - apart), apart, space + 1);
	else if (names)
		text = text_new("The generator and %s may run on the same CPUs: they take time "
				"from each other, and there is no other core that nbbench may use.",
				names);
	free(names);
	return text;
}

/* The part of the reads that found holes of the file, by those that were sampled; 0 also if
 * unknown. */
static double hole_share(const struct measure *row)
{
	if (!strstr(row->operation, "read"))
		return 0;
	return (double)row->zero_reads / (double)MAX(row->sampled_reads, (uint64_t)1);
}

static bool reads_holes(const struct result_at *at)
{
	return hole_share(at->row->row) >= 0.1;
}

static char *holes(const struct result *r)
{
	char *names = listeners(r, reads_holes), *text = NULL;
	double share = 0;

	for (struct result_at at = { 0 }; result_next(r, &at);)
		share = fmax(share, hole_share(at.row->row));
	if (names)
		text = text_new(
			"%s: up to %s %% of what was read were holes, which no disk reads: write "
			"the disk first (`dd if=/dev/urandom bs=1M count=1K | nbdcopy - URI`), or "
			"have it made with `fill = yes`.",
			names, human_percent(share).text);
	free(names);
	return text;
}

/* Names hosts that were at their limit in rows whose other hosts were not. */
static char *limited_hosts(const struct result *r)
{
	json_t *hosts = json_array();
	char *names, *text = NULL;

	for (struct result_at at = { 0 }; result_next(r, &at);) {
		const struct measure *row = at.row->row;

		for (unsigned i = 0;
		     !at.row->generator_limit && !at.row->link_limit && i < hosts_count(row); i++)
			if (result_is_limit(at.row, hosts_value(row, i, FIGURE_GENERATOR_SHARE)))
				field_add_once(hosts, json_string(hosts_name(row, i)));
	}
	names = list_text(hosts);
	if (names)
		text = text_new(
			"Only some of the generator's hosts were at their limit, by their "
			"busiest threads (%s): the load was less than that of as many hosts.",
			names);
	free(names);
	return text;
}

static char *overlap(const struct result *r)
{
	const struct measure *least = NULL;
	unsigned hosts = 0;
	uint64_t spread_ns = 0;

	for (struct result_at at = { 0 }; result_next(r, &at);)
		for (unsigned i = 0; hosts_count(at.row->row) && i < measure_visits(at.row->row);
		     i++) {
			const struct measure *visit = measure_visit_at(at.row->row, i);

			hosts = MAX(hosts, hosts_count(visit));
			spread_ns = MAX(spread_ns, visit->generator.spread_ns);
			if (!least || visit->generator.overlap < least->generator.overlap)
				least = visit;
		}
	if (!least)
		return NULL;
	if (least->generator.overlap >= 0.9)
		return text_new("The generator started on %u hosts within %s.", hosts,
				human_time(spread_ns).text);
	return text_new("The generator started on %u hosts within %s; they ran together for only "
			"%s %% of the time (%s): give it a duration, not a count, or more to do.",
			hosts, human_time(spread_ns).text,
			human_percent(least->generator.overlap).text, least->listener);
}

static char *errors(const struct result *r)
{
	uint64_t count = 0;

	for (struct result_at at = { 0 }; result_next(r, &at);)
		count += at.row->row->errors;
	return count ? text_new("%s operation%s failed.", human_count(count).text, plural(count))
		     : NULL;
}

static char *coarse_steps(const struct result *r)
{
	for (struct result_at at = { 0 }; result_next(r, &at);) {
		uint64_t step_ns = generator_step_ns(at.row->row->generator.name);

		if (step_ns && !isnan(at.row->values[FIGURE_TRIP99].median))
			return text_new(
				"%s prints round trips in steps of %s: trip50 and trip99 are no "
				"finer.",
				at.row->row->generator.name, human_time(step_ns).text);
	}
	return NULL;
}

static char *minor(const struct result *r)
{
	return *r->minor
		       ? text_new(
				 "Not shown, as less than 2 %% of their listener's operations: %s.",
				 r->minor)
		       : NULL;
}

/* ---- The table ---- */

/* text() makes the sentence, or what it is about stands between `before` and `after`: by the
 * functions above that are called as the member is. */
static const struct kind {
	const char *name;
	char *(*text)(const struct result *r);
	bool (*listeners)(const struct result_at *at);
	bool (*visits)(const struct measure *visit);
	unsigned (*parts)(const struct result_at *at, unsigned *ret_all);
	double least;
	enum figure most;
	const char *host, *fine[FINE_MAX];
	const char *before, *after;
	bool of_figures; /* else of the conditions */
} kinds[] = {
	/* In the order in which they are shown. */
	{ "no_verdict", .text = doubted },
	{ "failed_visits", .parts = failed,
	  .before = "Visits in which COMMAND failed are left out: ", .after = "." },
	{ "missing_visits", .parts = compared_rounds,
	  .before = "Not all visits are judged, as the first row has none that counts in the same "
		    "round: ",
	  .after = "." },
	{ "other_hosts", .listeners = is_elsewhere, .before = "The generator and ",
	  .after = " were on different hosts: what is said of CPUs and other programs is true of "
		   "the listeners' host." },
	/* That may be in another network than the card that the user wants to measure. */
	{ "host_by_ssh", .listeners = is_by_ssh, .before = "{host} was the address that ssh uses (",
	  .after = "): for another card give the listener an address of its own." },
	{ "shared_cpus", .text = shared_cpus },
	{ "shared_cores", .listeners = shares_core, .before = "The generator and ",
	  .after = " run on hardware threads of the same core, which slow each other down: pin "
		   "them to different cores (`lscpu -e` lists them)." },
	{ "other_programs", .most = FIGURE_OTHER,
	  .least = 0.1, /* CPUs; background activity of any machine */
	  .before = "Other programs took up to ",
	  .after = " % of a CPU meanwhile (all CPUs together): on a quiet machine intervals are "
		   "narrower." },
	{ "retransmits", .most = FIGURE_RETRANSMITTED, .least = 0.001,
	  .before = "The listeners' host sent up to ",
	  .after = " % of its TCP segments again: packets are lost, so rates and round trips "
		   "include the time of retransmission." },
	/* Pressure is also caused by a generator with more threads than there are CPUs. */
	{ "pressure", .most = FIGURE_PRESSURE, .least = 0.25,
	  .before = "Threads waited for a CPU in up to ", .after = " % of the time." },
	{ "throttled", .visits = was_throttled, .before = "CPUs were throttled in ",
	  .after = ", by heat or by the CPU limit of a cgroup." },
	{ "steal", .most = FIGURE_STEAL, .least = 0.05, .before = "The hypervisor gave up to ",
	  .after = " % of a CPU to others." },
	{ "other_nodes", .visits = was_on_other_nodes,
	  .before = "The generator and the listener were on different NUMA nodes in ",
	  .after = ": packets cross between them." },
	{ "governor", .host = "governor", .fine = { "performance" },
	  .before = "The frequency governor is ",
	  .after = ": a CPU that is less busy runs slower, and its requests cost more time "
		   "(`cpupower frequency-set -g performance`)." },
	{ "turbo", .host = "turbo", .fine = { "off" }, .before = "Turbo is ",
	  .after = ": a CPU runs faster where others are idle or cool." },
	{ "huge_pages", .host = "transparent_hugepages", .fine = { "madvise", "never" },
	  .before = "Transparent huge pages are on (",
	  .after = "): which buffers have them differs between processes." },
	{ "clock_source", .host = "clocksource",
	  .fine = { "tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page" },
	  .before = "The clock source is ",
	  .after = ": each reading of the clock is a system call, so sampled turns cost more." },
	{ "errors", .text = errors, .of_figures = true },
	{ "holes", .text = holes, .of_figures = true },
	{ "beside_frames", .listeners = is_beside_frames, .of_figures = true,
	  .before = "Less than 99 % of the datagrams came to ",
	  .after = " as frames, the others by the socket: is traffic steered to the queue of "
		   "`xdp-queues` (`ethtool -n`)?" },
	{ "host_otherwise", .listeners = is_otherwise_by_host, .of_figures = true,
	  .before = "What the threads of ",
	  .after =
		  " save or add against the first row, the whole host does not (host/req, host/op or "
		  "host/GB, by medians)." },
	{ "host_with_generator", .listeners = is_beside_generator, .of_figures = true,
	  .before = "The CPU time of the whole host (host/req, host/op, host/GB) of ",
	  .after = " includes the generator's, which ran on that host." },
	{ "link_limit", .listeners = is_link_limit, .of_figures = true,
	  .before = "The link was the limit of ", .after = ": rates there are the link's." },
	{ "generator_limit", .listeners = is_generator_limit, .of_figures = true,
	  .before = "The generator was the limit of ",
	  .after = ", as its busiest thread had no time to wait and the server had: rates there "
		   "are the generator's; CPU per request is still the server's." },
	{ "limited_hosts", .text = limited_hosts, .of_figures = true },
	{ "overlap", .text = overlap, .of_figures = true },
	{ "refused_requests", .visits = has_refused, .of_figures = true,
	  .before = "The generator's count of requests cannot be right in ",
	  .after = ": it is more than there was time for at its rate, or than the listener "
		   "counted. These visits are not judged by requests." },
	{ "saturated", .listeners = is_saturated, .of_figures = true, .before = "",
	  .after =
		  " had no time to sleep: p50 and p99 leave out how long requests waited in their "
		  "sockets, up to a turn (turn99) each; connections over rate (cycle) includes it." },
	{ "inexact", .listeners = does_not_add_up, .of_figures = true,
	  .before = "The CPU times of ",
	  .after = " and of the generator are more than the machine was busy, by more than 2 % "
		   "and its clock ticks: they are not exact." },
	{ "coarse_steps", .text = coarse_steps, .of_figures = true },
	{ "minor", .text = minor, .of_figures = true },
};

static char *text_of(const struct result *r, const struct kind *k)
{
	char *about, *text = NULL;

	if (k->text)
		return k->text(r);
	about = k->listeners ? listeners(r, k->listeners)
		: k->visits  ? visits(r, k->visits)
		: k->parts   ? parts(r, k->parts)
		: k->host    ? host_value(r, k->host, k->fine)
			     : most(r, k->most, k->least);
	if (about)
		text = text_new("%s%s%s", k->before, about, k->after);
	free(about);
	return text;
}

void warnings_make(struct result *r)
{
	r->warnings = must(calloc(ARRAY_SIZE(kinds), sizeof(*r->warnings)));
	for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
		char *text = text_of(r, &kinds[i]);

		if (text)
			r->warnings[r->warning_count++] =
				(struct result_warning){ kinds[i].name, text,
							 !kinds[i].of_figures };
	}
}
