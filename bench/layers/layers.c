/* See layers.h. */
#include "layers.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "must.h"
#include "perf.h"
#include "symbols.h"
#include "weights.h"

/* The samples of a listener in one interval. */
struct sampled {
	char *name;
	struct weights weights;
};

struct layers {
	struct perf perf;
	struct spaces *spaces;
	pid_t pid;        /* whose map is read, and whose threads are known; 0: none */
	bool taking;      /* samples are taken */
	uint64_t seen_ns; /* the time of the last document, CLOCK_MONOTONIC */
	uint64_t lost;    /* in the interval, of all threads of the machine */
	struct thread {
		pid_t tid;
		unsigned listener; /* its index */
	} * threads;
	unsigned thread_count;
	struct sampled *listeners;
	unsigned listener_count;
};

/* ---- Open, close ---- */

int layers_open(struct layers **ret, struct reason *reason)
{
	struct layers *l = must(calloc(1, sizeof(*l)));
	int rc;

	l->spaces = spaces_new();
	rc = perf_open(&l->perf, reason);
	if (rc == 0)
		rc = spaces_read_kernel(l->spaces, reason);
	if (rc < 0) {
		layers_close(l);
		l = NULL;
	}
	*ret = l;
	return rc;
}

void layers_cancel(struct layers *l)
{
	if (!l)
		return;
	if (l->taking)
		perf_enable(&l->perf, false);
	for (unsigned i = 0; i < l->listener_count; i++)
		free(l->listeners[i].name);
	free(l->listeners);
	free(l->threads);
	l->listeners = NULL;
	l->threads = NULL;
	l->thread_count = l->listener_count = 0;
	l->pid = 0;
	l->lost = 0;
	l->taking = false;
}

void layers_close(struct layers *l)
{
	if (!l)
		return;
	layers_cancel(l);
	perf_close(&l->perf);
	spaces_free(l->spaces);
	free(l);
}

/* ---- Threads ---- */

/* The index of the listener, which is added if it is missing. */
static unsigned find(struct layers *l, const char *name)
{
	unsigned i = 0;

	while (i < l->listener_count && strcmp(l->listeners[i].name, name) != 0)
		i++;
	if (i < l->listener_count)
		return i;
	l->listeners = must(reallocarray(l->listeners, i + 1, sizeof(*l->listeners)));
	l->listeners[l->listener_count++] = (struct sampled){ .name = strdup(name) };
	return i;
}

static struct thread *thread_of(const struct layers *l, pid_t tid)
{
	for (unsigned i = 0; i < l->thread_count; i++)
		if (l->threads[i].tid == tid)
			return &l->threads[i];
	return NULL;
}

static void see_thread(struct layers *l, unsigned listener, pid_t tid)
{
	if (thread_of(l, tid))
		return;
	l->threads = must(reallocarray(l->threads, l->thread_count + 1, sizeof(*l->threads)));
	l->threads[l->thread_count++] = (struct thread){ tid, listener };
}

int layers_see(struct layers *l, const json_t *document, struct reason *reason)
{
	json_t *listeners = field_get(document, "listeners"), *listener, *tid;
	pid_t pid = (pid_t)field_uint(document, "pid");
	size_t i, j;
	int rc = 0;

	if (!l)
		return 0;
	if (l->pid != pid)
		rc = spaces_read_process(l->spaces, pid, reason);
	if (rc < 0)
		return rc;
	l->pid = pid;
	l->seen_ns = field_uint(document, "started_ns") + field_uint(document, "uptime_ns");
	json_array_foreach(listeners, i, listener) {
		json_t *threads = field_get(listener, "threads");
		unsigned at = find(l, field_text(listener, "name"));

		if (!threads)
			return reason_set(
				reason, -EPROTO,
				"this daemon is too old: GetStats does not name its threads");
		json_array_foreach(threads, j, tid)
			see_thread(l, at, (pid_t)field_uint(tid, ""));
	}
	if (!l->taking)
		perf_enable(&l->perf, true);
	l->taking = true;
	return 0;
}

/* ---- Samples ---- */

enum { FRAMES_MAX = 160 };

/* The functions of a sample's chain, the innermost first; returns how many.  The kernel's part of a
 * chain is whole.  Of the part in user space only the innermost function is used: nbserved and its
 * libraries have no frame pointers, so the kernel cannot follow their callers. */
static unsigned resolve(const struct spaces *spaces, const struct perf_sample *sample,
			const struct symbol **frames)
{
	uint64_t context = PERF_CONTEXT_MAX;
	unsigned count = 0;
	bool first = true;

	for (unsigned i = 0; i < sample->count && count < FRAMES_MAX; i++) {
		uint64_t address = sample->chain[i];

		if (address >= (uint64_t)PERF_CONTEXT_MAX) {
			context = address;
			continue;
		}
		/* All addresses but the first are return addresses, which follow the call: after a
		 * call that never returns, that may be the next function. */
		address -= !first;
		first = false;
		if (context == (uint64_t)PERF_CONTEXT_USER) {
			frames[count++] = spaces_user(spaces, sample->chain[i]);
			break;
		}
		frames[count++] = spaces_kernel(spaces, address);
	}
	return count;
}

static void take(void *context, const struct perf_sample *sample)
{
	struct layers *l = context;
	const struct thread *thread = thread_of(l, sample->tid);
	const struct symbol *frames[FRAMES_MAX];
	unsigned count;

	if (!thread)
		return;
	count = resolve(l->spaces, sample, frames);
	weights_add(&l->listeners[thread->listener].weights, frames, count, sample->weight);
}

static void read_until(struct layers *l, uint64_t until_ns)
{
	if (l && l->taking)
		l->lost += perf_read(&l->perf, until_ns, take, l);
}

void layers_read(struct layers *l)
{
	if (l)
		read_until(l, l->seen_ns);
}

void layers_read_all(struct layers *l)
{
	read_until(l, UINT64_MAX);
}

void layers_commit(struct layers *l)
{
	for (unsigned i = 0; l && i < l->listener_count; i++)
		weights_commit(&l->listeners[i].weights);
}

void layers_drop(struct layers *l)
{
	for (unsigned i = 0; l && i < l->listener_count; i++)
		weights_drop(&l->listeners[i].weights);
}

/* ---- Rows ---- */

/* The functions that no layer names, in nanoseconds.  Several may have one name, which comes from
 * an ELF file and may be no UTF-8. */
static json_t *unnamed(const struct weights *w)
{
	json_t *functions = json_object();

	for (unsigned i = 0; i < w->other_count; i++) {
		const struct weight *other = &w->other[i];
		const char *name = other->function ? other->function->name : "[unknown]";
		json_int_t ns = json_integer_value(json_object_get(functions, name)) +
				(json_int_t)other->ns;

		if (other->ns)
			json_object_set_new(functions, name, json_integer(ns));
	}
	return functions;
}

static json_t *to_json(const struct layers *l, const struct weights *w)
{
	json_t *layers = json_object();

	for (unsigned i = 0; i < LAYER_COUNT; i++)
		if (w->ns[i])
			json_object_set_new(layers, layer_infos[i].name,
					    json_integer((json_int_t)w->ns[i]));
	return json_pack("{s:s, s:i, s:I, s:b, s:o, s:o}", "event", perf_kind_names[l->perf.kind],
			 "samples", (int)w->samples, "lost", (json_int_t)l->lost, "stripped",
			 !spaces_has_own(l->spaces), "weights", layers, "other", unnamed(w));
}

static void set_row(struct layers *l, struct measure *row)
{
	unsigned at = find(l, field_text(row->source, "name"));

	/* Rows of a listener share their source. */
	row->layers = json_object_get(row->source, "layers");
	if (row->layers)
		return;
	row->layers = to_json(l, &l->listeners[at].weights);
	json_object_set_new(row->source, "layers", (json_t *)row->layers);
}

void layers_end(struct layers *l, struct measures *m, unsigned first)
{
	for (unsigned i = first; l && i < m->count; i++)
		set_row(l, m->rows[i]);
	layers_cancel(l);
}
