/* See sampler.h. */
#include "sampler.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "field.h"
#include "generator_host.h"
#include "host.h"
#include "measure_file.h"
#include "measure_visits.h"
#include "must.h"
#include "nic_link.h"
#include "util.h"

enum {
	SAMPLES_MAX = 256,
	STEP_MS = 100,
	STEP_START_MS = 20, /* until there is load, whose start must be known exactly */
	SILENCE_MS = 5000,
};

static const json_t *sampler_first(const struct sampler *s)
{
	return json_array_get(s->documents, 0);
}

static void samples_remove(struct sampler *s, size_t i)
{
	size_t count = json_array_size(s->documents);

	json_decref(s->samples[i].link);
	json_decref(s->samples[i].energy);
	memmove(&s->samples[i], &s->samples[i + 1], (count - 1 - i) * sizeof(*s->samples));
	json_array_remove(s->documents, i);
}

/* The last document, borrowed. */
static const json_t *last_of(const struct sampler *s)
{
	return json_array_get(s->documents, json_array_size(s->documents) - 1);
}

/* Asks for the next sample. */
static int sampler_ask(struct sampler *s, const struct use *use)
{
	int rc = ctl_send(s->ctl, "GetStats", json_incref(s->parameters));

	s->next_ns = UINT64_MAX;
	s->asked = rc == CTL_DONE;
	s->use = use ? *use : (struct use){ 0 };
	return rc;
}

/* Gives up the sample that was asked for. */
static void sampler_forget(struct sampler *s)
{
	if (s->ctl->awaited)
		ctl_forget(s->ctl);
	json_decref(s->stats);
	json_decref(s->machine);
	s->stats = s->machine = NULL;
	s->asked = false;
}

static bool is_whole(const struct sampler *s)
{
	return s->stats && s->machine;
}

/* The threads of the document's listeners, a new reference. */
static json_t *served_threads(const json_t *stats)
{
	json_t *threads = json_array(), *listener;
	size_t i;

	json_array_foreach(field_get(stats, "listeners"), i, listener)
		json_array_extend(threads, field_get(listener, "threads"));
	return threads;
}

/* Reads the machine, or with -H asks the bridge for it: after the daemon's part, which names the
 * threads on whose CPUs softirqs are counted. */
static int read_machine(struct sampler *s)
{
	json_t *threads = served_threads(s->stats);

	if (s->ctl->target.host)
		return ctl_send(
			s->ctl, "Host.Read",
			json_pack("{s:O, s:o}", "interfaces", s->interfaces, "threads", threads));
	s->machine = host_read(0, threads, s->interfaces);
	json_decref(threads);
	return CTL_DONE;
}

/* Waits for the next part of the sample that was asked for. */
static int sampler_part(struct sampler *s)
{
	int rc;

	if (s->stats)
		rc = ctl_receive(s->ctl, "Host.Read", &s->machine);
	else
		rc = ctl_receive(s->ctl, "GetStats", &s->stats);
	if (rc == CTL_DONE && !is_whole(s))
		rc = read_machine(s);
	if (rc != CTL_DONE)
		sampler_forget(s);
	return rc;
}

/* Waits for the sample that was asked for. */
static int sampler_receive(struct sampler *s)
{
	struct sample *new = &s->samples[json_array_size(s->documents)];
	int rc = CTL_DONE;

	while (rc == CTL_DONE && !is_whole(s))
		rc = sampler_part(s);
	if (rc != CTL_DONE)
		return rc;
	measure_machine_from_json(&new->cpu, field_get(s->machine, "machine"));
	new->link = json_incref(field_get(s->machine, "link"));
	new->energy = json_incref(field_get(s->machine, "energy"));
	new->use = s->use;
	json_array_append(s->documents, s->stats);
	sampler_forget(s);
	s->loaded |= measures_operations(last_of(s)) != measures_operations(sampler_first(s));
	s->next_ns = clock_ns() + (!s->loaded ? STEP_START_MS * NS_PER_MS : s->step_ns);
	return rc;
}

static int sampler_take(struct sampler *s, const struct use *use)
{
	int rc = sampler_ask(s, use);

	return rc == CTL_DONE ? sampler_receive(s) : rc;
}

int sampler_init(struct sampler *s, struct ctl *ctl, json_t *parameters, json_t *interfaces)
{
	int rc;

	*s = (struct sampler){ .ctl = ctl,
			       .interfaces = interfaces,
			       .parameters = parameters,
			       .documents = json_array(),
			       .samples = must(calloc(SAMPLES_MAX + 1, sizeof(*s->samples))),
			       .step_ns = STEP_MS * NS_PER_MS,
			       .silence_ns = clock_ns() + SILENCE_MS * (uint64_t)NS_PER_MS };
	rc = sampler_take(s, NULL);
	if (rc != CTL_DONE)
		sampler_free(s);
	else
		s->begin = json_incref((json_t *)sampler_first(s));
	return rc;
}

/* A generator that connects to another server, or hangs, is noticed before it ends. */
static void tell_silence(struct sampler *s)
{
	const json_t *listeners = field_get(last_of(s), "listeners");
	const json_t *one = json_array_size(listeners) == 1 ? json_array_get(listeners, 0) : NULL;

	if (!s->silence_ns || clock_ns() < s->silence_ns)
		return;
	s->silence_ns = 0;
	if (measures_traffic(last_of(s)) != measures_traffic(s->begin))
		return;
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr); /* over the line of progress */
	ctl_warn("COMMAND has not connected for %d s%s%s%s%s", SILENCE_MS / 1000, one ? ": " : "",
		 field_text(one, "name"), one ? " waits at " : "",
		 field_text(json_array_get(field_get(one, "addresses"), 0), ""));
}

/* Makes room in a long run: drops every second sample, and doubles the interval. */
static void sampler_thin(struct sampler *s)
{
	for (size_t i = 1; i < json_array_size(s->documents); i++)
		samples_remove(s, i);
	s->step_ns *= 2;
}

/* Completes the sample that was asked for.  *ret_idle: there was no load so far, so this sample
 * takes the place of the one before as the first of the span. */
static int sampler_finish(struct sampler *s, bool *ret_idle)
{
	int rc = sampler_receive(s);

	*ret_idle = rc == CTL_DONE && !s->loaded;
	if (!*ret_idle)
		return rc;
	tell_silence(s);
	/* The last sample before the load is the first of its span. */
	samples_remove(s, 0);
	return rc;
}

static enum watch_answer sampler_look(void *context, const struct use *use)
{
	struct sampler *s = context;
	bool idle = false;

	ctl_alive(s->ctl); /* samples of a long run are far apart */
	if (!s->asked && clock_ns() >= s->next_ns) {
		if (json_array_size(s->documents) == SAMPLES_MAX)
			sampler_thin(s);
		s->failed = sampler_ask(s, use);
	}
	while (s->asked && !is_whole(s) && ctl_is_ready(s->ctl))
		s->failed = sampler_part(s);
	if (s->asked && is_whole(s))
		s->failed = sampler_finish(s, &idle);
	if (s->failed)
		return WATCH_END;
	return idle ? WATCH_IDLE : WATCH_GO;
}

static int sampler_fd(const void *context)
{
	const struct sampler *s = context;

	return s->asked ? ctl_fd(s->ctl) : -1;
}

static int sampler_wait_ms(const void *context)
{
	const struct sampler *s = context;
	uint64_t now_ns = clock_ns();

	return s->next_ns <= now_ns ? 0 : (int)(MIN(s->next_ns - now_ns, NS_PER_S) / NS_PER_MS) + 1;
}

struct watcher sampler_watcher(struct sampler *s)
{
	return (struct watcher){ s, sampler_fd, sampler_wait_ms, sampler_look, NULL };
}

int sampler_end(struct sampler *s, const struct use *use)
{
	bool idle, had_load;
	int rc = s->asked ? sampler_finish(s, &idle) : s->failed;
	size_t count;

	if (rc != CTL_DONE)
		return rc;
	had_load = s->loaded;
	rc = sampler_take(s, use);
	count = json_array_size(s->documents);
	/* Without load, or with one that no sample but the last has seen, the whole interval stays.
	 * Else samples after the end of the load are dropped. */
	if (rc != CTL_DONE || !had_load)
		return rc;
	for (; count > 2; count--) {
		const json_t *before = json_array_get(s->documents, count - 2);

		if (measures_operations(before) != measures_operations(last_of(s)))
			break;
		samples_remove(s, count - 1);
	}
	return rc;
}

void sampler_free(struct sampler *s)
{
	sampler_forget(s);
	while (json_array_size(s->documents))
		samples_remove(s, 0);
	free(s->samples);
	json_decref(s->begin);
	json_decref(s->parameters);
	json_decref(s->documents);
}

static void set_links(const struct sampler *s, struct measures *m, unsigned first)
{
	json_t *readings = json_array();

	for (size_t i = 0; i < json_array_size(s->documents); i++)
		if (s->samples[i].link)
			json_array_append(readings, s->samples[i].link);
	nic_link_set(m, first, readings, s->interfaces);
	json_decref(readings);
}

int sampler_rows(const struct sampler *s, const char *label, struct measures *m)
{
	unsigned first = m->count;
	uint64_t interval_ns;

	if (measures_interval(sampler_first(s), last_of(s), &interval_ns) < 0) {
		ctl_warn(
			"the daemon was restarted during the measurement, so its counters began again");
		return CTL_REFUSED;
	}
	measures_delta(m, sampler_first(s), last_of(s), interval_ns, label ? label : "");
	measures_set_connections(m, first, s->documents);
	set_links(s, m, first);
	return CTL_DONE;
}

void sampler_set(const struct sampler *s, struct measures *m, unsigned first)
{
	const struct sample *from = &s->samples[0];
	const struct sample *to = &s->samples[json_array_size(s->documents) - 1];

	for (unsigned i = first; i < m->count; i++) {
		struct measure_generator *g = &m->rows[i]->generator;

		m->rows[i]->machine = measure_machine_delta(&from->cpu, &to->cpu);
		if (!g->wall_ns)
			continue;
		g->elsewhere = generator_is_elsewhere(s->ctl);
		g->wall_ns = m->rows[i]->interval_ns;
		g->cpu_ns =
			to->use.cpu_ns > from->use.cpu_ns ? to->use.cpu_ns - from->use.cpu_ns : 0;
		g->busiest_ns = MIN(to->use.busiest_ns, g->cpu_ns);
		g->peak = MIN(to->use.peak, 1);
	}
}

json_t *sampler_energy(const struct sampler *s)
{
	return host_energy_spent(s->samples[0].energy,
				 s->samples[json_array_size(s->documents) - 1].energy);
}
