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
#include "must.h"
#include "nic_link.h"
#include "parts.h"
#include "text.h"
#include "util.h"

/* Visits of all rows of which `is` is true. */
static unsigned count_visits(const struct result *r, bool (*is)(const struct measure *visit),
			     unsigned *ret_all)
{
	unsigned count = 0;

	*ret_all = 0;
	for (struct result_at at = { 0 }; result_next(r, &at);) {
		for (unsigned i = 0; i < measure_visits(at.row->row); i++)
			count += is(measure_visit_at(at.row->row, i));
		*ret_all += measure_visits(at.row->row);
	}
	return count;
}

static const char *host_text(const struct result *r, const char *name)
{
	const struct measure *visit =
		r->group_count ? measure_visit_at(r->groups[0].rows[0].row, 0) : NULL;
	const json_t *host = visit ? field_get(visit->conditions, "host") : NULL;

	return field_text(host, name);
}

/* The sentence about the listeners of which `is` is true; NULL: there are none. */
static char *name_rows(const struct result *r, bool (*is)(const struct measure *row),
		       const char *before, const char *after)
{
	json_t *listeners = json_array();
	char *names, *text = NULL;

	for (struct result_at at = { 0 }; result_next(r, &at);)
		if (is(at.row->row))
			field_add_once(listeners, json_string(at.row->row->listener));
	names = field_show(listeners);
	if (*names)
		text = text_new("%s%s%s", before, names, after);
	free(names);
	json_decref(listeners);
	return text;
}

static bool was_throttled(const struct measure *visit)
{
	return field_uint(visit->conditions, "throttled") > 0;
}

static bool was_on_other_nodes(const struct measure *visit)
{
	return field_bool(visit->conditions, "other_nodes");
}

static bool was_elsewhere(const struct measure *visit)
{
	return visit->generator.elsewhere;
}

static bool was_by_ssh(const struct measure *visit)
{
	return *field_text(visit->conditions, "host_by_ssh");
}

/* Warns that {host} was the address that ssh uses, which may be in another network than the card
 * that the user wants to measure. */
static char *other_hosts(const struct result *r)
{
	unsigned visits;

	if (!count_visits(r, was_elsewhere, &visits))
		return NULL;
	return text_new(
		"The generator and the listeners were on different hosts: what is said of "
		"CPUs and other programs is true of the listeners' host.%s",
		count_visits(r, was_by_ssh, &visits)
			? " {host} was the address that ssh uses: for another card give the "
			  "listener an address of its own."
			: "");
}

/* The largest value of a figure in any row; 0: none is known. */
static double most_of(const struct result *r, enum figure figure)
{
	double most = 0;

	for (struct result_at at = { 0 }; result_next(r, &at);)
		most = fmax(most, at.row->values[figure].median);
	return most;
}

static char *retransmits(const struct result *r)
{
	static const double little = 0.001; /* of all segments */
	double most = most_of(r, FIGURE_RETRANSMITTED);

	if (most < little)
		return NULL;
	return text_new(
		"The listeners' host sent up to %s %% of its TCP segments again: packets are lost, "
		"so rates and round trips include the time of retransmission.",
		human_percent(most).text);
}

/* ---- Rows and visits that are not judged ---- */

/* "echo-uring (3 of 24), echo-epoll (1 of 24)" */
static char *missing(const struct result *r)
{
	char *text = NULL;
	FILE *to = text_open(&text);

	for (struct result_at at = { 0 }; result_next(r, &at);) {
		unsigned rounds = at.row->verdicts[JUDGED_COST].rounds;
		unsigned visits =
			MAX(measure_visits(at.group->rows[0].row), measure_visits(at.row->row));

		if (rounds > 0 && rounds < 0.9 * visits)
			fprintf(to, "%s%s (%u of %u)",
				ftell(to)
					? ", "
					: "Not all visits are judged, as the first row has none that "
					  "counts in the same round: ",
				at.row->row->listener, rounds, visits);
	}
	if (ftell(to))
		putc('.', to);
	return text_close(to, &text);
}

static char *failed(const struct result *r)
{
	char *text = NULL;
	FILE *to = text_open(&text);

	for (struct result_at at = { 0 }; result_next(r, &at);)
		if (at.row->failed)
			fprintf(to, "%s%u of %u of %s",
				ftell(to) ? ", " : "Visits in which COMMAND failed are left out: ",
				at.row->failed, at.row->failed + measure_visits(at.row->row),
				at.row->row->listener);
	if (ftell(to))
		putc('.', to);
	return text_close(to, &text);
}

static const char *const doubts[DOUBTS] = {
	[DOUBT_FAILED] = "COMMAND failed in a tenth of the visits or more",
	[DOUBT_CHANGED] = "the listener, its keys or the daemon changed meanwhile",
	[DOUBT_BYTES] =
		"bytes for each request that the generator counted differ by more than 5 % between "
		"visits or listeners, or the count cannot be right: another client was served, or the "
		"count is not of what was done",
	[DOUBT_LATENCY] =
		"p50 in the server is above the generator's round trip: one of the two is wrong",
};

/* One sentence about all rows without a verdict, by their reasons. */
static char *doubted(const struct result *r)
{
	char *text = NULL;
	FILE *to = text_open(&text);

	for (unsigned i = DOUBT_FAILED; i < DOUBT_FIRST; i++) {
		bool any = false;

		for (struct result_at at = { 0 }; result_next(r, &at);)
			if (at.row->doubt == i) {
				fprintf(to, "%s%s",
					any         ? ", "
					: ftell(to) ? "; "
						    : "No verdict on ",
					at.row->row->listener);
				any = true;
			}
		if (any)
			fprintf(to, ": %s", doubts[i]);
	}
	if (ftell(to))
		putc('.', to);
	return text_close(to, &text);
}

static char *machine_changed(const struct result *r)
{
	const struct then *worst = NULL;

	for (struct result_at at = { 0 }; result_next(r, &at);)
		if (at.row->then && at.row->then->machine_changed && !worst)
			worst = at.row->then;
	if (!worst)
		return NULL;
	return text_new(
		"The machine changed: the same work costs the generator %s us of CPU per request now, "
		"and %s us then. So rows are not compared with the saved ones.",
		figure_text(FIGURE_GENERATOR_PER_REQUEST, worst->generator_now).text,
		figure_text(FIGURE_GENERATOR_PER_REQUEST, worst->generator_before).text);
}

/* ---- The machine ---- */

static char *clock_source(const struct result *r)
{
	static const char *const quick[] = { "tsc", "kvm-clock", "arch_sys_counter",
					     "hyperv_clocksource_tsc_page" };
	const char *clock = host_text(r, "clocksource");

	for (unsigned i = 0; i < ARRAY_SIZE(quick); i++)
		if (!strcmp(clock, quick[i]))
			return NULL;
	return *clock ? text_new(
				"The clock source is %s: each reading of the clock is a system call, "
				"so sampled turns cost more.",
				clock)
		      : NULL;
}

static char *governor(const struct result *r)
{
	const char *name = host_text(r, "governor");

	if (!*name || !strcmp(name, "performance"))
		return NULL;
	return text_new(
		"The frequency governor is %s: a CPU that is less busy runs slower, and its "
		"requests cost more time (`cpupower frequency-set -g performance`).",
		name);
}

static bool shares_cpu(const struct measure *row)
{
	return row->generator.shared_cpus > 0;
}

static bool shares_core(const struct measure *row)
{
	return row->generator.sibling_cpus > 0;
}

static char *pinning(const struct result *r)
{
	const char *apart = host_text(r, "apart"), *space = strchr(apart, ' ');

	if (space)
		return text_new("pin them apart (`cpus = %.*s` in the listener, taskset -c %s "
				"COMMAND), or they take time from each other",
				(int)(space - apart), apart, space + 1);
	return text_new(
		"they take time from each other, and there is no other core that nbbench may "
		"use");
}

static char *shared_cpus(const struct result *r)
{
	char *pin = pinning(r);
	char *after = text_new(" may run on the same CPUs: %s.", pin);
	char *text = name_rows(r, shares_cpu, "The generator and ", after);

	free(pin);
	free(after);
	return text;
}

static char *shared_cores(const struct result *r)
{
	return name_rows(
		r, shares_core, "The generator and ",
		" run on hardware threads of the same core, which slow each other down: pin "
		"them to different cores (`lscpu -e` lists them).");
}

/* ---- Figures that are not what they seem ---- */

/* The part of the bytes read that were holes of the file.  With NBD that is the part that the
 * listener did not have to send, else it is known from a sample of the reads; 1 if nbdcopy asked
 * where there is data, and read none.  0: unknown. */
static double hole_share(const struct measure *row)
{
	if (!strcmp(row->generator.name, "nbdcopy") && !strcmp(row->operation, "block_status") &&
	    row->count == row->listener_count)
		return 1;
	if (!strstr(row->operation, "read"))
		return 0;
	if (strcmp(row->service, "nbd") != 0)
		return (double)row->zero_reads / (double)MAX(row->sampled_reads, (uint64_t)1);
	if (row->bytes_read <= row->bytes_out)
		return 0;
	return 1 - (double)row->bytes_out / (double)row->bytes_read;
}

static char *holes(const struct result *r)
{
	char *text = NULL;
	double most = 0;
	FILE *to = text_open(&text);

	for (struct result_at at = { 0 }; result_next(r, &at);) {
		double share = at.row->row->count ? hole_share(at.row->row) : 0;

		if (share < 0.1)
			continue;
		fprintf(to, "%s%s", ftell(to) ? ", " : "", at.row->row->listener);
		most = share > most ? share : most;
	}
	if (ftell(to))
		fprintf(to,
			": up to %s %% of what was read were holes, which no disk reads and NBD sends "
			"without data: write the disk first (`dd if=/dev/urandom bs=1M count=1K | "
			"nbdcopy - URI`), or have it made with `fill = yes`.",
			human_percent(most).text);
	return text_close(to, &text);
}

static bool is_saturated(const struct measure *row)
{
	return !isnan(figure_value(row, FIGURE_TURN_P99));
}

static char *saturated(const struct result *r)
{
	return name_rows(r, is_saturated, "",
			 " had no time to sleep: requests also waited in their sockets, as long as "
			 "a turn (turn99), before p50 and p99 began to count; connections over "
			 "rate (cycle) has all of it.");
}

static bool does_not_add_up(const struct measure *row)
{
	return row->generator.wall_ns && row->machine.total_ns &&
	       row->machine.irq_time != IRQ_TIME_UNKNOWN && isnan(figure_value(row, FIGURE_OTHER));
}

static char *inexact(const struct result *r)
{
	return name_rows(r, does_not_add_up, "The CPU times of ",
			 " and of the generator are more than the machine was busy, by more than "
			 "2 % and its clock ticks: they are not exact.");
}

static bool has_refused(const struct measure *visit)
{
	return visit->generator.refused_requests > 0;
}

static char *refused_requests(const struct result *r)
{
	unsigned all, count = count_visits(r, has_refused, &all);

	if (!count)
		return NULL;
	return text_new(
		"The generator's count of requests cannot be right in %u of %u visits: it is more "
		"than there was time for at its rate, or than the listener counted. These visits "
		"are not judged by requests.",
		count, all);
}

static char *generator_limit(const struct result *r)
{
	const struct result_row *first = NULL;
	unsigned count = 0, rows = 0;
	double apart = 0;
	char *text;
	FILE *to;

	for (struct result_at at = { 0 }; result_next(r, &at); rows++) {
		if (!at.row->generator_limit)
			continue;
		first = first ? first : at.row;
		apart = fmax(apart, result_rate_apart(at.group, at.row));
		count++;
	}
	if (!first)
		return NULL;
	to = text_open(&text);
	fprintf(to,
		"The generator was the limit in %u of %u rows (%s: its busiest thread at %s %% of "
		"a CPU, the server at %s %%): rates there are the generator's",
		count, rows, first->row->listener,
		figure_text(FIGURE_GENERATOR_SHARE, first->values[FIGURE_GENERATOR_SHARE].median)
			.text,
		figure_text(FIGURE_CPU_SHARE, first->values[FIGURE_CPU_SHARE].median).text);
	if (apart > 0)
		fprintf(to, ", which differ by up to %s %%", human_percent(apart).text);
	fputs("; CPU per request is still the server's.", to);
	fclose(to);
	return text;
}

static char *link_limit(const struct result *r)
{
	struct nic_link_fullest first = { .link = measure_link_of(NULL) };
	const char *listener = NULL;
	unsigned count = 0, rows = 0;
	double speed;

	for (struct result_at at = { 0 }; result_next(r, &at); rows++) {
		struct nic_link_fullest f = nic_link_fullest(at.row->row);

		if (f.share < NIC_LINK_FULL)
			continue;
		if (count++ == 0) {
			first = f;
			listener = at.row->row->listener;
		}
	}
	if (!count)
		return NULL;
	speed = (double)first.link.speed_bps / NS_PER_S;
	return text_new("The link was the limit in %u of %u rows (%s: %s %s %.3g of %.3g "
			"Gbit/s, %s %%): rates there are the link's.",
			count, rows, listener, first.link.interface,
			first.sends ? "sent" : "received", first.share * speed, speed,
			human_percent(first.share).text);
}

/* ---- The generator's hosts ---- */

static const double limit = 0.9; /* of a CPU, as of a generator on one host */

static bool is_at_limit(const struct measure *row, unsigned host)
{
	double share = hosts_value(row, host, FIGURE_GENERATOR_SHARE);
	double server = figure_spread(row, FIGURE_CPU_SHARE).median /
			(double)MAX(row->workers, (uint64_t)1);

	return share >= limit && server < limit * share;
}

static unsigned count_at_limit(const struct measure *row)
{
	unsigned count = 0;

	for (unsigned i = 0; i < hosts_count(row); i++)
		count += is_at_limit(row, i);
	return count;
}

/* "c1 (97 %), c3 (95 %)", or of those that were not: "c2" */
static void name_hosts(FILE *to, const struct measure *row, bool at_limit)
{
	const char *separator = "";

	for (unsigned i = 0; i < hosts_count(row); i++) {
		double share = hosts_value(row, i, FIGURE_GENERATOR_SHARE);

		if (is_at_limit(row, i) != at_limit)
			continue;
		fprintf(to, "%s%s", separator, hosts_name(row, i));
		if (at_limit)
			fprintf(to, " (%s %%)", figure_text(FIGURE_GENERATOR_SHARE, share).text);
		separator = ", ";
	}
}

static char *limited_hosts(const struct result *r)
{
	const struct measure *first = NULL;
	unsigned count = 0, rows = 0;
	char *text;
	FILE *to;

	for (struct result_at at = { 0 }; result_next(r, &at); rows++) {
		unsigned hosts = count_at_limit(at.row->row);

		if (hosts == 0 || hosts == hosts_count(at.row->row))
			continue;
		first = first ? first : at.row->row;
		count++;
	}
	if (!first)
		return NULL;
	to = text_open(&text);
	fprintf(to, "In %u of %u rows some hosts of the generator were at their limit (%s: ", count,
		rows, first->listener);
	name_hosts(to, first, true);
	fputs(" of a CPU by its busiest thread; ", to);
	name_hosts(to, first, false);
	fputs(" not): the load was less than that of as many hosts.", to);
	fclose(to);
	return text;
}

/* The visit of a row whose hosts ran together for the least part of the time; NULL: the generator
 * ran on one host. */
static const struct measure *least_overlap(const struct measure *row)
{
	const struct measure *least = NULL;

	for (unsigned i = 0; hosts_count(row) && i < measure_visits(row); i++) {
		const struct measure *visit = measure_visit_at(row, i);

		if (!least || visit->generator.overlap < least->generator.overlap)
			least = visit;
	}
	return least;
}

static uint64_t most_spread_ns(const struct measure *row)
{
	uint64_t most_ns = 0;

	for (unsigned i = 0; i < measure_visits(row); i++)
		most_ns = MAX(most_ns, measure_visit_at(row, i)->generator.spread_ns);
	return most_ns;
}

static char *overlap(const struct result *r)
{
	const struct measure *least = NULL;
	uint64_t spread_ns = 0;
	unsigned hosts = 0;
	char *text;
	FILE *to;

	for (struct result_at at = { 0 }; result_next(r, &at);) {
		const struct measure *visit = least_overlap(at.row->row);

		hosts = MAX(hosts, hosts_count(at.row->row));
		spread_ns = MAX(spread_ns, most_spread_ns(at.row->row));
		if (visit && (!least || visit->generator.overlap < least->generator.overlap))
			least = visit;
	}
	if (!least)
		return NULL;
	to = text_open(&text);
	fprintf(to, "The generator started on %u hosts within %s", hosts,
		human_time(spread_ns).text);
	if (least->generator.overlap < limit)
		fprintf(to,
			"; they ran together for only %s %% of the time (%s): give it a duration, "
			"not a count, or more to do",
			human_percent(least->generator.overlap).text, least->listener);
	fputs(".", to);
	fclose(to);
	return text;
}

/* ---- Operations ---- */

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

/* A warning is a function that makes its sentence; or visits for which `was` is true; or a figure
 * that is at least `least` in some row; or a value of the host.  `before` and `after` are the words
 * around "3 of 14 visits", or around the figure's largest value in percent, or they are the whole
 * sentence. */
static const struct kind {
	const char *name;
	char *(*text)(const struct result *r);
	bool (*was)(const struct measure *visit);
	double least;
	enum figure figure;
	const char *host, *value;
	const char *before, *after;
	bool of_figures; /* else of the conditions */
} kinds[] = {
	/* In the order in which they are shown. */
	{ "machine_changed", .text = machine_changed },
	{ "no_verdict", .text = doubted },
	{ "failed_visits", .text = failed },
	{ "missing_visits", .text = missing },
	{ "other_hosts", .text = other_hosts },
	{ "shared_cpus", .text = shared_cpus },
	{ "shared_cores", .text = shared_cores },
	{ "other_programs", .figure = FIGURE_OTHER,
	  .least = 0.1, /* CPUs; background activity of any machine */
	  .before = "Other programs took up to ",
	  .after = " % of a CPU meanwhile (all CPUs together): on a quiet machine intervals are "
		   "narrower." },
	{ "retransmits", .text = retransmits },
	/* Pressure is also caused by a generator with more threads than there are CPUs. */
	{ "pressure", .figure = FIGURE_PRESSURE, .least = 0.25,
	  .before = "Threads waited for a CPU in up to ", .after = " % of the time." },
	{ "throttled", .was = was_throttled, .before = "CPUs were throttled in ",
	  .after = ", by heat or by the CPU limit of a cgroup." },
	{ "steal", .figure = FIGURE_STEAL, .least = 0.05, .before = "The hypervisor gave up to ",
	  .after = " % of a CPU to others." },
	{ "other_nodes", .was = was_on_other_nodes,
	  .before = "The generator and the listener were on different NUMA nodes in ",
	  .after = ": packets cross between them." },
	{ "governor", .text = governor },
	{ "turbo", .host = "turbo", .value = "on",
	  .before = "Turbo is on: a CPU runs faster where others are idle or cool." },
	{ "huge_pages", .host = "transparent_hugepages", .value = "always",
	  .before = "Transparent huge pages are on for all memory: which buffers have them "
		    "differs between processes." },
	{ "clock_source", .text = clock_source },
	{ "errors", .text = errors, .of_figures = true },
	{ "holes", .text = holes, .of_figures = true },
	{ "link_limit", .text = link_limit, .of_figures = true },
	{ "generator_limit", .text = generator_limit, .of_figures = true },
	{ "limited_hosts", .text = limited_hosts, .of_figures = true },
	{ "overlap", .text = overlap, .of_figures = true },
	{ "refused_requests", .text = refused_requests, .of_figures = true },
	{ "saturated", .text = saturated, .of_figures = true },
	{ "inexact", .text = inexact, .of_figures = true },
	{ "coarse_steps", .text = coarse_steps, .of_figures = true },
	{ "minor", .text = minor, .of_figures = true },
};

static char *text_of(const struct result *r, const struct kind *k)
{
	unsigned visits = 0, count = k->was ? count_visits(r, k->was, &visits) : 0;
	double most = k->least > 0 ? most_of(r, k->figure) : 0;

	if (k->text)
		return k->text(r);
	if (k->host && !strcmp(host_text(r, k->host), k->value))
		return text_new("%s", k->before);
	if (count)
		return text_new("%s%u of %u visits%s", k->before, count, visits, k->after);
	if (k->least > 0 && most >= k->least)
		return text_new("%s%s%s", k->before, human_percent(most).text, k->after);
	return NULL;
}

void warnings_find(struct result *r)
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
