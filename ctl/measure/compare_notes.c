/* See compare_notes.h. */
#include "compare_notes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "human.h"
#include "util.h"

/* Omits features that every io_uring listener has. */
static bool is_notable(const char *feature)
{
	static const char *const plumbing[] = { "registered_ring", "restricted", "single_issuer",
						"multishot_accept" };

	for (unsigned i = 0; i < ARRAY_SIZE(plumbing); i++)
		if (!strcmp(feature, plumbing[i]))
			return false;
	return true;
}

/* Adds the row's listener to those of the same features: { "a, b": ["echo-uring", ...] }. */
static void add_features(json_t *listeners, const struct measure *row)
{
	json_t *notable = json_array(), *names, *feature, *name;
	char *text;
	size_t i;

	json_array_foreach(row->features, i, feature)
		if (is_notable(field_text(feature, "")))
			json_array_append(notable, feature);
	text = field_show(notable);
	json_decref(notable);
	names = json_object_get(listeners, text);
	if (!names) {
		names = json_array();
		json_object_set_new(listeners, text, names);
	}
	free(text);
	json_array_foreach(names, i, name)
		if (!strcmp(field_text(name, ""), row->listener))
			return;
	json_array_append_new(names, json_string(row->listener));
}

static void render_features(struct output *out, const struct groups *all)
{
	json_t *listeners = json_object(), *names;
	const char *features;

	for (unsigned i = 0; i < all->count; i++)
		for (unsigned j = 0; j < all->list[i].count; j++)
			add_features(listeners, all->list[i].rows[j]);
	json_object_foreach(listeners, features, names) {
		char *text = field_show(names);

		if (*features)
			output_wrapped(out, STYLE_DIM, 2, "%s: %s", text, features);
		free(text);
	}
	json_decref(listeners);
}

static void explain_columns(struct output *out, const struct groups *all)
{
	uint64_t low = UINT64_MAX, high = 0;
	bool shared = false, batches = false, compared = false;
	bool trips = false, machine = false, softirq = false;

	for (unsigned i = 0; i < all->count; i++) {
		compared |= all->list[i].count > 1;
		for (unsigned j = 0; j < all->list[i].count; j++) {
			const struct measure *row = all->list[i].rows[j];

			batches |= row->batch;
			low = MIN(low, row->latency.count);
			high = MAX(high, row->latency.count);
			shared |= row->listener_count != row->count;
			trips |= row->generator.wall_ns > 0;
			machine |= row->machine.total_ns > 0;
			softirq |= row->softirq.total_ns > 0;
		}
	}
	output_wrapped(
		out, STYLE_DIM, 2,
		"CPU: user and system time of the listener's threads and of the kernel's that "
		"work for them; user %%: its part in user space, which the kernel tells by clock "
		"ticks: - below a second.");
	if (compared)
		output_wrapped(
			out, STYLE_DIM, 2,
			"vs 1st: CPU/req, else CPU/op, or CPU/GB where it is shown (operations "
			"differ in size), against the first row of its group, by the ratios in the "
			"same rounds: the estimate and half of its interval. All intervals "
			"of a group hold together in 95 of 100 runs.");
	if (trips)
		output_wrapped(
			out, STYLE_DIM, 2,
			"reqs, genMB, trip50, trip99: requests, bytes and round trips as the "
			"generator counted and timed them; gen %%: its CPU time.");
	if (machine)
		output_wrapped(
			out, STYLE_DIM, 2,
			"irq, idle, steal, other: of the whole machine, 100 %% a CPU; irq: softirqs "
			"and interrupts, which without IRQ_TIME_ACCOUNTING are in threads' time, too; "
			"steal: time that the hypervisor gave to others; other: programs that are "
			"neither the server nor the generator; -: the parts do not add up.");
	if (softirq)
		output_wrapped(
			out, STYLE_DIM, 2,
			"rx, tx: softirq time an operation, of packets to the listener and of "
			"drivers with packets from it; peer: of its clients on this host. Wherever "
			"it ran, so it may be in CPU, too. unatt: softirqs of no listener's port, of "
			"the whole machine.");
	output_wrapped(
		out, STYLE_DIM, 2,
		"Latency: from the request in the worker's hands to the reply in the "
		"kernel's, not the client's round trip. Sampled: %s%s%s samples a row; - too "
		"few.",
		human_count(low).text, low == high ? "" : " to ",
		low == high ? "" : human_count(high).text);
	if (batches)
		output_wrapped(out, STYLE_DIM, 2,
			       "An operation of a byte stream is what one receive or send "
			       "moved: many pipelined requests may be one.");
	if (shared)
		output_wrapped(out, STYLE_DIM, 2,
			       "MB, CPU, calls and turns are of all operations of a listener.");
}

void compare_notes(struct output *out, const struct groups *all)
{
	explain_columns(out, all);
	render_features(out, all);
}
