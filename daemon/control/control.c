/* The control socket: its methods.  Main thread: a method that takes long delays signals, timers
 * and the watchdog, so its time is charged to the client's user.  See control.h. */
#include "control.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "doctor.h"
#include "document.h"
#include "log.h"
#include "log_level.h"
#include "runtime.h"
#include "server.h"
#include "suggest.h"
#include "text.h"
#include "util.h"
#include "worker_owner.h"

#define INTERFACE "org.nbserved.Control"

/* The server that a call is about. */
static struct server *control_server(const struct varlink_call *call)
{
	return ((const struct control *)varlink_call_userdata(call))->server;
}

/* ---- Errors that several methods answer with ---- */

/* Answers org.nbserved.Control.NAME {listener, message}.  listener: the one that the error is
 * about;
 * "": none. */
__attribute__((format(printf, 4, 5))) static void control_error(struct varlink_call *call,
								const char *name,
								const char *listener,
								const char *format, ...)
{
	char error[64];
	json_t *message;
	va_list args;

	va_start(args, format);
	message = json_vsprintf(format, args);
	va_end(args);
	snprintf(error, sizeof(error), INTERFACE ".%s", name);
	varlink_error(call, error,
		      json_pack("{s:s, s:o}", "listener", listener, "message", message));
}

/* True: no listener has one of names (a string, an array of them, or NULL), and the call has ended
 * with an error that says so. */
static bool lacks_listener(struct varlink_call *call, const json_t *names)
{
	const struct listeners *all = &control_server(call)->listeners;
	struct suggestion near = { .text = json_string_value(names) };

	for (size_t i = 0; i < json_array_size(names); i++) {
		near.text = json_string_value(json_array_get(names, i));
		if (!listeners_find(all, near.text))
			break;
	}
	if (!near.text || listeners_find(all, near.text))
		return false;
	for (unsigned i = 0; i < all->count; i++)
		suggest_try(&near, all->list[i]->name);
	control_error(call, "NoSuchListener", near.text, "there is no listener '%s'%s", near.text,
		      suggest_hint(&near));
	return true;
}

/* Logs a change with the user that made it. */
static void log_change(const struct varlink_call *call, const char *what, const char *object)
{
	const struct unix_peer *peer = varlink_call_peer(call);

	log_info("control: %s %s, by uid %u, pid %d", what, object, (unsigned)peer->uid,
		 (int)peer->pid);
}

/* ---- Methods ---- */

static void get_status(struct varlink_call *call, json_t *parameters)
{
	(void)parameters;
	varlink_reply(call, document_status(control_server(call)));
}

/* Adds "text", what was written to a stream of text_open(). */
static void set_text(json_t *reply, FILE *to, char **text)
{
	fclose(to);
	json_object_set_new(reply, "text", json_string(*text));
	free(*text);
}

/* Handlers own neither the call nor its parameters; varlink_reply() takes ownership of its JSON. */
static void get_config(struct varlink_call *call, json_t *parameters)
{
	const struct server *s = control_server(call);
	json_t *reply = config_to_json(s->config);

	if (json_is_true(json_object_get(parameters, "text"))) {
		char *text;
		FILE *to = text_open(&text);

		/* The configuration as nbserved's option prints it. */
		config_dump(s->config, to);
		set_text(reply, to, &text);
	}
	varlink_reply(call, reply);
}

/* The configuration in force has the new level as well, so that GetConfig shows it and a reload
 * with the same file sets it back. */
static void set_log_level(struct varlink_call *call, json_t *parameters)
{
	const char *name = json_string_value(json_object_get(parameters, "level"));
	int level = log_level_parse(name);

	if (level < 0) {
		varlink_invalid_parameter(call, "level");
		return;
	}
	config_set_log_level(control_server(call)->config, level);
	log_set_level(level);
	log_change(call, "log level", name);
	varlink_reply(call, json_object());
}

static void drain(struct varlink_call *call, json_t *parameters)
{
	struct server *s = control_server(call);
	const json_t *name = json_object_get(parameters, "listener");
	uint64_t deadline_ns = clock_ns() + s->config->server.drain_timeout_ns;
	json_t *draining;

	if (lacks_listener(call, name))
		return;
	log_change(call, "drain", json_is_string(name) ? json_string_value(name) : "everything");
	draining = json_array();
	for (unsigned i = 0; i < s->listeners.count; i++) {
		struct listener *l = s->listeners.list[i];

		if (json_is_string(name) && strcmp(json_string_value(name), l->config->name) != 0)
			continue;
		listener_drain(l, deadline_ns);
		if (l->state == LISTENER_DRAINING)
			json_array_append_new(draining, json_string(l->config->name));
	}
	listeners_settle(&s->listeners);
	server_notify_status(s);
	varlink_reply(call, json_pack("{s:o}", "draining", draining));
}

static void resume(struct varlink_call *call, json_t *parameters)
{
	struct server *s = control_server(call);
	const json_t *name = json_object_get(parameters, "listener");
	struct reload_answer answer;

	if (lacks_listener(call, name))
		return;
	log_change(call, "resume", json_is_string(name) ? json_string_value(name) : "everything");
	if (reload_resume(s, json_string_value(name), &answer) == RELOAD_DONE)
		varlink_reply(call, json_pack("{s:o}", "resumed", answer.lines));
	else
		varlink_error(
			call, INTERFACE ".ResumeRefused",
			json_pack("{s:s, s:o}", "message", answer.message, "errors", answer.lines));
}

/* reload_run() returns when the new configuration is in force or refused.  Listeners that it
 * replaced drain afterwards. */
static void reload(struct varlink_call *call, json_t *parameters)
{
	static const char *const errors[] = { [RELOAD_REFUSED] = INTERFACE ".ReloadRefused",
					      [RELOAD_RESTART] = INTERFACE ".RestartNeeded" };
	struct server *s = control_server(call);
	bool dry_run = json_is_true(json_object_get(parameters, "dry_run"));
	struct reload_answer answer;
	enum reload_outcome outcome;

	if (!dry_run)
		log_change(call, "reload", s->config->files[0]);
	outcome = reload_run(s, dry_run, &answer);
	if (outcome == RELOAD_DONE)
		varlink_reply(call, json_pack("{s:I, s:o}", "generation", (json_int_t)s->generation,
					      "changes", answer.lines));
	else
		varlink_error(
			call, errors[outcome],
			json_pack("{s:s, s:o}", "message", answer.message, "errors", answer.lines));
}

/* Answers methods that were removed with what to use instead; to be deleted in the next release. */
static void removed(struct varlink_call *call, json_t *parameters)
{
	(void)parameters;
	varlink_error(call, INTERFACE ".ReloadRefused",
		      json_pack("{s:s, s:[]}", "message",
				"the method was removed: write a file in conf.d, look at it with "
				"Reload and dry_run, then Reload",
				"errors"));
}

/* ---- GetStats: one document, or a stream of them.  A client that does not read, or whose user has
 * used its share of CPU time, misses documents.  It misses no counts, which are sums since the
 * start ---- */

enum {
	US_PER_MS = 1000,
	STATS_INTERVAL_MIN_MS = 50,
	STATS_INTERVAL_MS = 1000,
	STATS_INTERVAL_MAX_MS = 86400000
};

struct stream {
	struct server *server;
	struct varlink_call *call;
	const json_t *parameters; /* owned by the call */
	sd_event_source *timer;
	uint64_t interval_us, next_us; /* CLOCK_MONOTONIC */
};

/* The document that a call with these parameters asks for. */
static json_t *make_document(struct server *s, const json_t *parameters)
{
	return document_stats(s, json_object_get(parameters, "listeners"),
			      json_is_true(json_object_get(parameters, "by_worker")));
}

static void stream_free(struct stream *stream)
{
	sd_event_source_disable_unref(stream->timer);
	free(stream);
}

static void stream_cancel(struct varlink_call *call, void *state)
{
	(void)call;
	stream_free(state);
}

/* Sends a document if the client can take one, and sets the next time.  Times that have passed
 * meanwhile are skipped, not made up for. */
static int stream_on_timer(sd_event_source *source, uint64_t due_us, void *userdata)
{
	struct stream *stream = userdata;
	uint64_t now_us = due_us, begin_ns = clock_thread_ns();

	/* A reload may have removed one of the listeners. */
	if (lacks_listener(stream->call, json_object_get(stream->parameters, "listeners"))) {
		stream_free(stream);
		return 0;
	}
	if (varlink_can_notify(stream->call)) {
		json_t *document = make_document(stream->server, stream->parameters);

		varlink_charge(stream->call, begin_ns);
		varlink_notify(stream->call, document);
	}
	sd_event_now(stream->server->event, CLOCK_MONOTONIC, &now_us);
	stream->next_us += stream->interval_us;
	if (stream->next_us < now_us)
		stream->next_us = now_us + stream->interval_us;
	sd_event_source_set_time(source, stream->next_us);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static void stream_start(struct varlink_call *call, const json_t *parameters)
{
	const json_t *interval_ms = json_object_get(parameters, "interval_ms");
	json_int_t ms =
		json_is_integer(interval_ms) ? json_integer_value(interval_ms) : STATS_INTERVAL_MS;
	struct stream *stream = calloc(1, sizeof(*stream));
	int rc;

	if (!stream) {
		varlink_reply(call, NULL);
		return;
	}
	stream->server = control_server(call);
	stream->call = call;
	stream->parameters = parameters;
	stream->interval_us = (uint64_t)ms * US_PER_MS;
	sd_event_now(stream->server->event, CLOCK_MONOTONIC, &stream->next_us);
	/* The timer is due at once, for the first document. */
	rc = sd_event_add_time(stream->server->event, &stream->timer, CLOCK_MONOTONIC,
			       stream->next_us, US_PER_MS, stream_on_timer, stream);
	if (rc < 0) {
		stream_free(stream);
		varlink_reply(call, NULL);
		return;
	}
	varlink_defer(call, stream_cancel, stream);
}

static void get_stats(struct varlink_call *call, json_t *parameters)
{
	if (lacks_listener(call, json_object_get(parameters, "listeners")))
		return;
	if (varlink_call_more(call))
		stream_start(call, parameters);
	else
		varlink_reply(call, make_document(control_server(call), parameters));
}

/* ---- ListConnections: asks the workers, one after the other, until the limit is reached ---- */

/* A worker owns the request until it has answered.  So the request outlives a client that
 * disconnects and is freed only when the answer has arrived, however late. */

enum {
	ANSWER_TIMEOUT_US = 5 * 1000 * 1000,
	ACCURACY_US = 100 * 1000,
	CONNECTIONS_LIMIT = 100,
	CONNECTIONS_LIMIT_MAX = 10000,
	LISTINGS_MAX = 64, /* limits the memory that hanging workers cost */
};

struct listing {
	struct worker_list list; /* owned by the worker until `answer` is posted */
	struct call answer;
	struct control *control;
	struct varlink_call *call; /* NULL: the client has disconnected or has its answer */
	const char *name;          /* name of the listener, owned by the call; NULL: all */
	sd_event_source *timer;
	json_t *connections;
	uint64_t generation, open;
	unsigned listener, worker; /* indices of the worker being asked */
	char asked[CONFIG_NAME_MAX];
	unsigned limit;
};

static void listing_free(struct listing *g)
{
	g->control->listing_count--;
	sd_event_source_disable_unref(g->timer);
	json_decref(g->connections);
	free(g->list.infos);
	free(g);
}

/* The call has ended; the worker may still own the request. */
static void listing_detach(struct listing *g)
{
	g->call = NULL;
	g->timer = sd_event_source_disable_unref(g->timer);
}

static void listing_cancel(struct varlink_call *call, void *state)
{
	(void)call;
	listing_detach(state);
}

static int listing_on_timeout(sd_event_source *source, uint64_t due_us, void *userdata)
{
	struct listing *g = userdata;

	(void)source, (void)due_us;
	control_error(g->call, "NoAnswer", g->asked,
		      "worker %u of listener '%s' has not answered in %d s", g->worker, g->asked,
		      ANSWER_TIMEOUT_US / (1000 * 1000));
	listing_detach(g);
	return 0;
}

/* Runs on the worker's thread.  The request is the main thread's again once `answer` is posted. */
static void listing_done(struct worker_list *list)
{
	struct listing *g = container_of(list, struct listing, list);

	mailbox_post(&g->control->server->listeners.mailbox, &g->answer);
}

static void listing_ask(struct listing *g, const struct listener *l)
{
	strcpy(g->asked, l->config->name);
	g->list.max = g->limit - (unsigned)json_array_size(g->connections);
	sd_event_source_set_time_relative(g->timer, ANSWER_TIMEOUT_US);
	sd_event_source_set_enabled(g->timer, SD_EVENT_ONESHOT);
	worker_list_connections(&l->workers[g->worker], &g->list);
}

/* Asks the next worker; false: no worker is left, or the limit is reached.  Beyond the limit it
 * only counts the open connections. */
static bool listing_ask_next(struct listing *g)
{
	const struct server *s = g->control->server;

	for (; g->listener < s->listeners.count; g->listener++, g->worker = 0) {
		const struct listener *l = s->listeners.list[g->listener];

		if (g->name && strcmp(g->name, l->config->name) != 0)
			continue;
		for (; g->worker < l->worker_count; g->worker++) {
			g->open += stat_load(l->workers[g->worker].stats.open);
			if (json_array_size(g->connections) < g->limit) {
				listing_ask(g, l);
				return true;
			}
		}
	}
	return false;
}

/* Ends the call or asks on.  After a reload the indices of listeners mean others, so the client has
 * to ask again. */
static void listing_continue(struct listing *g)
{
	if (g->generation != g->control->server->generation) {
		control_error(g->call, "NoAnswer", "",
			      "the configuration was reloaded meanwhile: ask again");
	} else if (listing_ask_next(g)) {
		return;
	} else {
		json_incref(g->connections);
		varlink_reply(g->call, json_pack("{s:o, s:I}", "connections", g->connections,
						 "open", (json_int_t)g->open));
	}
	listing_free(g);
}

/* Runs from the main thread's mailbox.  The call may have ended meanwhile, by its client or by the
 * time limit: then the request only has to be freed. */
static void listing_on_answer(struct call *call)
{
	struct listing *g = container_of(call, struct listing, answer);
	uint64_t begin_ns = clock_thread_ns();

	if (!g->call) {
		listing_free(g);
		return;
	}
	for (unsigned i = 0; i < g->list.count; i++)
		json_array_append_new(g->connections,
				      document_connection(g->asked, g->worker, &g->list.infos[i]));
	varlink_charge(g->call, begin_ns);
	g->worker++;
	listing_continue(g);
}

static struct listing *listing_new(struct varlink_call *call, const char *name, unsigned limit)
{
	struct listing *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->control = varlink_call_userdata(call);
	g->control->listing_count++;
	g->call = call;
	g->name = name;
	g->limit = limit;
	g->generation = g->control->server->generation;
	g->connections = json_array();
	g->answer.fn = listing_on_answer;
	g->list.done = listing_done;
	g->list.infos = malloc(limit * sizeof(struct conn_info));
	if (g->connections && g->list.infos &&
	    sd_event_add_time_relative(g->control->server->event, &g->timer, CLOCK_MONOTONIC,
				       ANSWER_TIMEOUT_US, ACCURACY_US, listing_on_timeout, g) >= 0)
		return g;
	listing_free(g);
	return NULL;
}

static void list_connections(struct varlink_call *call, json_t *parameters)
{
	const struct control *c = varlink_call_userdata(call);
	const json_t *name = json_object_get(parameters, "listener");
	const json_t *limit = json_object_get(parameters, "limit");
	struct listing *g;

	if (lacks_listener(call, name))
		return;
	if (c->listing_count >= LISTINGS_MAX) {
		control_error(call, "NoAnswer", "", "too many such calls wait for workers");
		return;
	}
	g = listing_new(call, json_string_value(name),
			json_is_integer(limit) ? (unsigned)json_integer_value(limit)
					       : CONNECTIONS_LIMIT);
	if (!g) {
		varlink_reply(call, NULL);
		return;
	}
	varlink_defer(call, listing_cancel, g);
	listing_continue(g);
}

/* ---- Doctor: the host is examined on a thread of its own, since that starts and stops workers and
 * opens files, which may take seconds.  One examination at a time: its report is the answer to all
 * calls that wait for it.  Main thread, except examination_thread() ---- */

/* Time limit for a stopped examination, when the daemon ends. */
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
		decided; /* whether it answers: the thread, at its end, or examination_stop() */
};

/* Adds "text": the report as nbserved's option prints it. */
static json_t *with_text(const json_t *report)
{
	json_t *reply = json_copy((json_t *)report);
	char *text;
	FILE *to = text_open(&text);

	doctor_print(report, to);
	set_text(reply, to, &text);
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
static void doctor_answer_all(struct control *c, json_t *report)
{
	unsigned count = c->doctor_caller_count;
	json_t *text = NULL;

	c->doctor_caller_count = 0;
	for (unsigned i = 0; i < count; i++) {
		struct doctor_caller *p = &c->doctor_callers[i];

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
		doctor_answer_all(c, x->report);
	else if (c->doctor_caller_count && !examination_begin(c))
		doctor_answer_all(c, NULL);
	examination_free(x);
}

static void doctor_caller_leaves(struct varlink_call *call, void *state)
{
	struct control *c = state;
	unsigned i = 0;

	while (c->doctor_callers[i].call != call)
		i++;
	varlink_charge_wait(call, c->doctor_callers[i].since_ns);
	c->doctor_callers[i] = c->doctor_callers[--c->doctor_caller_count];
}

static void examine(struct varlink_call *call, json_t *parameters)
{
	struct control *c = varlink_call_userdata(call);

	varlink_defer(call, doctor_caller_leaves, c);
	/* A client waits for one call at a time, so there is room. */
	c->doctor_callers[c->doctor_caller_count++] =
		(struct doctor_caller){ .call = call,
					.text = json_is_true(json_object_get(parameters, "text")),
					.since_ns = clock_ns() };
	if (!c->examination && !examination_begin(c))
		doctor_answer_all(c, NULL);
}

/* The mailbox is about to end.  If the thread was first, its answer is posted
 * when this returns. */
static void examination_stop(struct control *c)
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

/* ---- The interface ---- */

/* clang-format off */
#define PARAMETERS(...) (const struct varlink_parameter[]){ __VA_ARGS__, { 0 } }
#define REQUIRED(name, type, ...) { name, VARLINK_##type, .optional = false, __VA_ARGS__ }
#define OPTIONAL(name, type, ...) { name, VARLINK_##type, .optional = true, __VA_ARGS__ }
#define LISTENER      OPTIONAL("listener", STRING)
#define LIMIT(most)   OPTIONAL("limit", INT, .min = 1, .max = (most))

static const struct varlink_method control_methods[] = {
	{ "GetStatus", VARLINK_READ, false, NULL, get_status },
	{ "GetStats", VARLINK_READ, true,
	  PARAMETERS(OPTIONAL("listeners", STRINGS, .max = CONFIG_LISTENERS_MAX),
		     OPTIONAL("by_worker", BOOL),
		     OPTIONAL("interval_ms", INT, .min = STATS_INTERVAL_MIN_MS, .max = STATS_INTERVAL_MAX_MS)),
	  get_stats },
	{ "ListConnections", VARLINK_READ, false, PARAMETERS(LISTENER, LIMIT(CONNECTIONS_LIMIT_MAX)),
	  list_connections },
	{ "GetConfig", VARLINK_READ, false, PARAMETERS(OPTIONAL("text", BOOL)), get_config },
	{ "Doctor", VARLINK_READ, false, PARAMETERS(OPTIONAL("text", BOOL)), examine },
	{ "SetLogLevel", VARLINK_CHANGE, false, PARAMETERS(REQUIRED("level", STRING)), set_log_level },
	{ "Drain", VARLINK_CHANGE, false, PARAMETERS(LISTENER), drain },
	{ "Resume", VARLINK_CHANGE, false, PARAMETERS(LISTENER), resume },
	{ "Reload", VARLINK_CHANGE, false, PARAMETERS(OPTIONAL("dry_run", BOOL)), reload },
	{ "Set", VARLINK_CHANGE, false, NULL, removed },
	{ "Add", VARLINK_CHANGE, false, NULL, removed },
	{ "Remove", VARLINK_CHANGE, false, NULL, removed },
	{ "ConfirmReload", VARLINK_CHANGE, false, NULL, removed },
	{ 0 },
};
/* clang-format on */

/* The group's id; -1: no such group. */
static gid_t find_group(const char *name)
{
	const struct group *group = getgrnam(name);

	if (group)
		return group->gr_gid;
	log_info("control: there is no group '%s': only root and the daemon's user may read", name);
	return (gid_t)-1;
}

/* Makes the directory of path, the control socket, if it is the user's own below $XDG_RUNTIME_DIR:
 * no other program makes that.  If this fails, the later bind reports the error. */
static void make_directory(const char *path)
{
	char own[PATH_MAX];

	runtime_socket(own, sizeof(own));
	if (strcmp(path, own) != 0 || strcmp(path, RUNTIME_SOCKET) == 0)
		return;
	*strrchr(own, '/') = '\0';
	mkdir(own, 0755);
}

int control_start(struct control *c, struct server *s, struct reason *reason)
{
	const struct server_config *config = &s->config->server;
	struct reason why = { "no memory" };
	int rc = -ENOMEM;

	c->server = s;
	c->description = control_describe();
	c->interface = (struct varlink_interface){ INTERFACE, c->description, control_methods };
	if (c->description)
		rc = varlink_new(s->event, &c->interface, c, &c->varlink);
	if (rc == 0) {
		make_directory(config->control);
		rc = varlink_listen(c->varlink, config->control, find_group(config->control_group),
				    &why);
	}
	if (rc < 0) {
		control_stop(c);
		return reason_set(reason, rc, "control socket: %.*s", REASON_MAX - 32, why.text);
	}
	return 0;
}

/* Workers may still own requests of ListConnections: c itself must stay valid, see control.h. */
void control_stop(struct control *c)
{
	varlink_free(c->varlink);
	c->varlink = NULL;
	free(c->description);
	c->description = NULL;
	examination_stop(c);
}
