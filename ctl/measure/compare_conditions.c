/* Conditions that make figures less reliable, or void: sentences from what each visit
 * saved.  See compare_group.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare_group.h"
#include "field.h"
#include "hosts.h"
#include "hosts_words.h"
#include "human.h"
#include "text.h"
#include "util.h"

/* Visits of all rows of which `is` is true. */
static unsigned count_visits(const struct groups *all, bool (*is)(const struct measure *visit),
			     unsigned *ret_all)
{
	unsigned count = 0;

	*ret_all = 0;
	for (struct groups_at at = { 0 }; groups_next(all, &at);) {
		for (unsigned i = 0; i < measure_visits(at.row); i++)
			count += is(measure_visit_at(at.row, i));
		*ret_all += measure_visits(at.row);
	}
	return count;
}

static const char *host_text(const struct groups *all, const char *name)
{
	const struct measure *visit = all->count ? measure_visit_at(all->list[0].rows[0], 0) : NULL;
	const json_t *host = visit ? field_get(visit->conditions, "host") : NULL;

	return field_text(host, name);
}

/* The sentence about the listeners of which `is` is true; NULL: there are none. */
static char *name_rows(const struct groups *all, bool (*is)(const struct measure *row),
		       const char *before, const char *after)
{
	json_t *listeners = json_array();
	char *names, *text = NULL;

	for (struct groups_at at = { 0 }; groups_next(all, &at);)
		if (is(at.row))
			field_add_once(listeners, json_string(at.row->listener));
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
static void tell_hosts(FILE *to, const struct groups *all)
{
	unsigned visits;

	if (!count_visits(all, was_elsewhere, &visits))
		return;
	fputs("The generator and the listeners were on different hosts: what is said of the "
	      "machine, its CPUs and its other programs is of the listeners'.",
	      to);
	if (count_visits(all, was_by_ssh, &visits))
		fputs(" {host} was the address that ssh uses: for another card give the listener "
		      "an address of its own.",
		      to);
	putc('\n', to);
}

/* The largest value of a figure in any row; 0: none is known. */
static double most_of(const struct groups *all, enum figure figure)
{
	double most = 0;

	for (struct groups_at at = { 0 }; groups_next(all, &at);)
		most = fmax(most, figure_spread(at.row, figure).median);
	return most;
}

static void tell_retransmits(FILE *to, const struct groups *all)
{
	static const double little = 0.001; /* of all segments */
	double most = most_of(all, FIGURE_RETRANSMITTED);

	if (most >= little)
		fprintf(to,
			"The listeners' host sent up to %s %% of its TCP segments again: packets "
			"are lost on the way, and rates and round trips are those of waiting for "
			"them.\n",
			human_percent(most).text);
}

static void tell_missing(FILE *to, const struct groups *all)
{
	for (struct groups_at at = { 0 }; groups_next(all, &at);) {
		const struct measure *first = at.group->rows[0];
		unsigned rounds = at.verdict ? at.verdict->rounds : 0;
		unsigned visits = MAX(measure_visits(first), measure_visits(at.row));

		if (rounds > 0 && rounds < 0.9 * visits)
			fprintf(to,
				"Only %u of %u visits of %s have a cost beside one of %s in the "
				"same round: it is judged by these.\n",
				rounds, visits, at.row->listener, first->listener);
	}
}

static void tell_clock(FILE *to, const struct groups *all)
{
	static const char *const quick[] = { "tsc", "kvm-clock", "arch_sys_counter",
					     "hyperv_clocksource_tsc_page" };
	const char *clock = host_text(all, "clocksource");
	bool is_quick = !*clock;

	for (unsigned i = 0; i < ARRAY_SIZE(quick); i++)
		is_quick |= !strcmp(clock, quick[i]);
	if (!is_quick)
		fprintf(to,
			"The clock source is %s: each reading of the clock is a system call, which "
			"sampled turns pay.\n",
			clock);
}

static void tell_governor(FILE *to, const struct groups *all)
{
	const char *governor = host_text(all, "governor");

	if (*governor && strcmp(governor, "performance") != 0)
		fprintf(to,
			"The frequency governor is %s: a CPU that is less busy runs slower, and its "
			"requests cost more time (`cpupower frequency-set -g performance`).\n",
			governor);
}

/* Writes a sentence, of which it takes ownership; NULL: there is none. */
static void tell_text(FILE *to, char *text)
{
	if (text)
		fprintf(to, "%s\n", text);
	free(text);
}

static bool shares_cpu(const struct measure *row)
{
	return row->generator.shared_cpus > 0;
}

static bool shares_core(const struct measure *row)
{
	return row->generator.sibling_cpus > 0;
}

static char *pinning(const struct groups *all)
{
	const char *apart = host_text(all, "apart"), *space = strchr(apart, ' ');

	if (space)
		return text_new("pin them apart (`cpus = %.*s` in the listener, taskset -c %s "
				"COMMAND), or they take time from each other",
				(int)(space - apart), apart, space + 1);
	return text_new("they take time from each other, and there is no other core that nbctl may "
			"use");
}

char *groups_shared_cpus(const struct groups *all)
{
	char *pin = pinning(all);
	char *after = text_new(" may run on the same CPUs: %s.", pin);
	char *text = name_rows(all, shares_cpu, "The generator and ", after);

	free(pin);
	free(after);
	return text;
}

char *groups_shared_cores(const struct groups *all)
{
	return name_rows(
		all, shares_core, "The generator and ",
		" run on hardware threads of the same core, which slow each other down: pin "
		"them to different cores (`lscpu -e` lists them).");
}

static void tell_shared_cpus(FILE *to, const struct groups *all)
{
	tell_text(to, groups_shared_cpus(all));
	tell_text(to, groups_shared_cores(all));
}

/* A condition is of one of four kinds: a function `tell` that writes the sentence; visits for which
 * `was` is true; a figure that is at least `least` in some row; or a value of the host.  `before`
 * and `after` are the words around "3 of 14 visits", or around the figure's largest value in
 * percent, or they are the whole sentence. */
struct condition {
	void (*tell)(FILE *to, const struct groups *all);
	bool (*was)(const struct measure *visit);
	double least;
	enum figure figure;
	const char *host, *value;
	const char *before, *after;
};

/* In the order in which they are shown. */
static const struct condition conditions[] = {
	{ .tell = tell_missing },
	{ .tell = tell_hosts },
	{ .tell = tell_shared_cpus },
	{ .figure = FIGURE_OTHER,
	  .least = 0.1, /* CPUs; background activity of any machine */
	  .before = "Other programs took up to ",
	  .after = " % of a CPU meanwhile (all CPUs together): on a quiet machine intervals are "
		   "narrower." },
	{ .tell = tell_retransmits },
	/* Pressure is also caused by a generator with more threads than there are CPUs. */
	{ .figure = FIGURE_PRESSURE,
	  .least = 0.25,
	  .before = "Threads waited for a CPU in up to ",
	  .after = " % of the time." },
	{ .was = was_throttled,
	  .before = "CPUs were throttled in ",
	  .after = ", by heat or by the CPU limit of a cgroup." },
	{ .figure = FIGURE_STEAL,
	  .least = 0.05,
	  .before = "The hypervisor gave up to ",
	  .after = " % of a CPU to others." },
	{ .was = was_on_other_nodes,
	  .before = "The generator and the listener were on different NUMA nodes in ",
	  .after = ": packets cross between them." },
	{ .tell = tell_governor },
	{ .host = "turbo",
	  .value = "on",
	  .before = "Turbo is on: a CPU runs faster where others are idle or cool." },
	{ .host = "transparent_hugepages",
	  .value = "always",
	  .before = "Transparent huge pages are on for all memory: which buffers have them "
		    "differs between processes." },
	{ .tell = tell_clock },
};

static void tell_condition(FILE *to, const struct groups *all, const struct condition *c)
{
	unsigned visits = 0, count = c->was ? count_visits(all, c->was, &visits) : 0;
	double most = c->least > 0 ? most_of(all, c->figure) : 0;

	if (c->tell)
		c->tell(to, all);
	else if (c->host && !strcmp(host_text(all, c->host), c->value))
		fprintf(to, "%s\n", c->before);
	else if (count)
		fprintf(to, "%s%u of %u visits%s\n", c->before, count, visits, c->after);
	else if (c->least > 0 && most >= c->least)
		fprintf(to, "%s%s%s\n", c->before, human_percent(most).text, c->after);
}

char *groups_conditions(const struct groups *all)
{
	char *text = NULL;
	FILE *to = text_open(&text);

	for (unsigned i = 0; i < ARRAY_SIZE(conditions); i++)
		tell_condition(to, all, &conditions[i]);
	return text_close(to, &text);
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
	if (strcmp(row->operation, "read") != 0)
		return 0;
	if (strcmp(row->service, "nbd") != 0)
		return (double)row->zero_reads / (double)MAX(row->sampled_reads, (uint64_t)1);
	if (row->bytes_read <= row->bytes_out)
		return 0;
	return 1 - (double)row->bytes_out / (double)row->bytes_read;
}

static char *holes(const struct groups *all)
{
	char *text = NULL;
	double most = 0;
	FILE *to = text_open(&text);

	for (struct groups_at at = { 0 }; groups_next(all, &at);) {
		double share = at.row->count ? hole_share(at.row) : 0;

		if (share < 0.1)
			continue;
		fprintf(to, "%s%s", ftell(to) ? ", " : "", at.row->listener);
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

static char *saturated(const struct groups *all)
{
	return name_rows(all, is_saturated, "",
			 " had no time to sleep: requests also waited in their sockets, as long as "
			 "a turn (turn99), before p50 and p99 began to count; connections over "
			 "rate (cycle) has all of it.");
}

static bool does_not_add_up(const struct measure *row)
{
	return row->generator.wall_ns && row->machine.total_ns &&
	       row->machine.irq_time != IRQ_TIME_UNKNOWN && isnan(figure_value(row, FIGURE_OTHER));
}

static char *inexact(const struct groups *all)
{
	return name_rows(all, does_not_add_up, "The CPU times of ",
			 " and of the generator are more than the machine was busy, by more than "
			 "2 % and its clock ticks: they are not exact.");
}

static bool has_refused(const struct measure *row)
{
	for (unsigned i = 0; i < measure_visits(row); i++)
		if (measure_visit_at(row, i)->generator.refused_requests)
			return true;
	return false;
}

static char *refused_requests(const struct groups *all)
{
	return name_rows(all, has_refused, "The generator's count of requests does not fit ",
			 ": it is more than there was time for at its rate, or than the listener "
			 "counted. It is not used.");
}

groups_sentence *const groups_warnings[GROUPS_WARNINGS] = {
	holes,       groups_link_limit, groups_generator_limit,
	hosts_limit, hosts_overlap,     refused_requests,
	saturated,   inexact,
};
