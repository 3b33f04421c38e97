/* Doctor: the host is examined on a thread of its own, since that starts and stops workers and
 * opens files, which may take seconds.  One examination at a time: its report is the answer to all
 * calls that wait for it.  Main thread, except examination_thread(). */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include "control_internal.h"
#include "doctor.h"
#include "util.h"

/* Time for an examination that was told to stop, when the daemon ends. */
#define EXAMINATION_END_NS ((uint64_t)2 * NS_PER_S)

struct examination {
	struct call answer; /* posted by the thread as it ends, unless it is left */
	struct control *control;
	struct config *config; /* a reference */
	json_t *report;
	pthread_t thread;
	sem_t ended;
	_Atomic bool stop;
	_Atomic bool
		decided; /* whether it answers: the thread, at its end, or control_doctor_stop() */
};

/* Adds "text": the report as nbserved's option prints it. */
static json_t *with_text(const json_t *report)
{
	json_t *reply = json_copy((json_t *)report);
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	if (to)
		doctor_print(report, to);
	if (to && fclose(to) == 0)
		json_object_set_new(reply, "text", json_stringn(text, bytes));
	free(text);
	return reply;
}

static void *examination_thread(void *arg)
{
	struct examination *x = arg;

	pthread_setname_np(pthread_self(), "doctor");
	x->report = doctor_check(x->config, &x->stop);
	if (!atomic_exchange(&x->decided, true))
		mailbox_post(&x->control->server->listeners.mailbox, &x->answer);
	sem_post(&x->ended); /* x is freed when this thread has been joined */
	return NULL;
}

static void examination_free(struct examination *x)
{
	config_free(x->config);
	json_decref(x->report);
	sem_destroy(&x->ended);
	free(x);
}

static void examination_answer(struct call *call);

static bool examination_begin(struct control *c)
{
	struct examination *x = calloc(1, sizeof(*x));

	if (!x)
		return false;
	x->answer.fn = examination_answer;
	x->control = c;
	x->config = config_ref(c->server->config);
	sem_init(&x->ended, 0, 0);
	if (pthread_create(&x->thread, NULL, examination_thread, x) != 0) {
		examination_free(x);
		return false;
	}
	c->examination = x;
	return true;
}

/* Ends all calls that wait.  report NULL: none could be made. */
static void answer_all(struct control *c, json_t *report)
{
	unsigned count = c->patient_count;
	json_t *text = NULL;

	c->patient_count = 0;
	for (unsigned i = 0; i < count; i++) {
		struct patient *p = &c->patients[i];

		varlink_charge_wait(p->call, p->since_ns);
		if (!report) {
			control_error(p->call, "NoAnswer", "", "cannot start a thread for it");
			continue;
		}
		if (p->text && !text)
			text = with_text(report);
		varlink_reply(p->call, json_incref(p->text ? text : report));
	}
	json_decref(text);
}

/* Runs from the main thread's mailbox, perhaps after control_stop().  A report about a
 * configuration that a reload has replaced meanwhile is no answer. */
static void examination_answer(struct call *call)
{
	struct examination *x = container_of(call, struct examination, answer);
	struct control *c = x->control;
	bool current = x->config == c->server->config;

	pthread_join(x->thread, NULL);
	c->examination = NULL;
	if (current)
		answer_all(c, x->report);
	else if (c->patient_count && !examination_begin(c))
		answer_all(c, NULL);
	examination_free(x);
}

static void patient_leaves(struct varlink_call *call, void *state)
{
	struct control *c = state;
	unsigned i = 0;

	while (c->patients[i].call != call)
		i++;
	varlink_charge_wait(call, c->patients[i].since_ns);
	c->patients[i] = c->patients[--c->patient_count];
}

void control_doctor(struct varlink_call *call, json_t *parameters)
{
	struct control *c = varlink_call_userdata(call);

	varlink_defer(call, patient_leaves, c);
	/* A client waits for one call at a time, so there is room. */
	c->patients[c->patient_count++] =
		(struct patient){ .call = call,
				  .text = json_is_true(json_object_get(parameters, "text")),
				  .since_ns = clock_ns() };
	if (!c->examination && !examination_begin(c))
		answer_all(c, NULL);
}

/* The mailbox is about to end.  If the thread was first, its answer is posted when this returns. */
void control_doctor_stop(struct control *c)
{
	struct examination *x = c->examination;

	if (!x || atomic_exchange(&x->stop, true))
		return;
	if (atomic_exchange(&x->decided, true))
		while (sem_wait(&x->ended) < 0)
			; /* EINTR */
}

bool control_end(struct control *c)
{
	struct examination *x = c->examination;

	if (!x)
		return true;
	if (!sem_wait_until(&x->ended, clock_ns() + EXAMINATION_END_NS))
		return false;
	pthread_join(x->thread, NULL);
	c->examination = NULL;
	examination_free(x);
	return true;
}
