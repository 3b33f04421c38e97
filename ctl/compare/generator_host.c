/* See generator_host.h, and ctl/bridge/run.c for the other end. */
#include "generator_host.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "cpus.h"
#include "field.h"
#include "host.h"
#include "util.h"
#include "version.h"

enum {
	FAR_STEP_MS = 50,
	FAR_ALIVE_MS = 1000,
	FAR_SILENCE_MS = 15000, /* of the bridge, which reports more often */
};

int generator_host_open(struct ctl *ctl, const char *host)
{
	struct ctl *on = calloc(1, sizeof(*on));
	int rc;

	if (!on)
		abort();
	on->command = ctl->command;
	on->target = (struct client_target){ .host = host, .nbctl = ctl->target.nbctl };
	ctl->on = on;
	rc = ctl_open(on, &on->kept);
	if (rc != CTL_DONE)
		on->kept = NULL;
	on->steady = true;
	return rc;
}

void generator_host_close(struct ctl *ctl)
{
	if (ctl->on)
		client_close(ctl->on->kept);
	free(ctl->on);
	ctl->on = NULL;
}

bool generator_is_elsewhere(const struct ctl *ctl)
{
	const char *daemon = ctl->target.host, *on = ctl->on ? ctl->on->target.host : NULL;

	return daemon && on ? strcmp(daemon, on) != 0 : daemon || on;
}

int generator_host_describe(struct ctl *ctl, json_t **ret)
{
	int rc = CTL_DONE;

	if (!ctl->on) {
		*ret = host_describe();
		return CTL_DONE;
	}
	rc = ctl_call(ctl->on, "Host.Conditions", NULL, ret);
	if (rc == CTL_DONE)
		json_object_set_new(*ret, "name", json_string(ctl->on->target.host));
	return rc;
}

/* The command as JSON. */
static json_t *words_of(char *const *argv)
{
	json_t *words = json_array();

	for (; *argv; argv++)
		json_array_append_new(words, json_string(*argv));
	return words;
}

char *generator_host_version(struct ctl *ctl)
{
	json_t *reply = NULL;
	char *version = NULL;

	if (!ctl->on)
		return version_of(ctl->rest);
	if (!ctl->on->kept)
		return NULL; /* the reason was printed */
	if (ctl_call(ctl->on, "Host.Version", json_pack("{s:o}", "argv", words_of(ctl->rest)),
		     &reply) == CTL_DONE &&
	    field_get(reply, "version"))
		version = strdup(field_text(reply, "version"));
	json_decref(reply);
	return version;
}

/* ---- Running it over there ---- */

struct far {
	struct ctl *on;
	const struct watcher *watcher;
	uint64_t heard_ns, alive_ns;
	bool stopped;
	json_t *last; /* the last reply; NULL: it runs */
};

static void use_from_json(struct use *use, const json_t *from)
{
	*use = (struct use){ .cpu_ns = field_uint(from, "cpu_ns"),
			     .busiest_ns = field_uint(from, "busiest_ns"),
			     .peak = json_number_value(field_get(from, "peak")) };
}

/* Takes the replies that have come; *ret_use gets the newest.  0 or -errno. */
static int take_replies(struct far *far, struct use *ret_use)
{
	struct client *client = far->on->kept;

	while (!far->last && client_has_reply(client)) {
		json_t *reply, *error;
		bool continues;
		int rc = client_receive(client, 0, &reply, &error, &continues);

		if (rc < 0)
			return rc;
		far->heard_ns = clock_ns();
		use_from_json(ret_use, field_get(reply, "use"));
		if (!continues)
			far->last = error ? json_incref(error) : json_incref(reply);
		json_decref(reply);
		json_decref(error);
	}
	return clock_ns() > far->heard_ns + FAR_SILENCE_MS * (uint64_t)NS_PER_MS ? -ETIMEDOUT : 0;
}

/* The first Ctrl-C ends the command; the second ends nbctl, and by that the command. */
static int tell(struct far *far)
{
	struct client *client = far->on->kept;
	int number = child_interrupted();

	if (number && !far->stopped) {
		far->stopped = true;
		return client_tell(client, "org.nbserved.Host.Stop",
				   json_pack("{s:i}", "signal", number));
	}
	if (clock_ns() < far->alive_ns + FAR_ALIVE_MS * (uint64_t)NS_PER_MS)
		return 0;
	far->alive_ns = clock_ns();
	return client_tell(client, "org.nbserved.Host.Alive", NULL);
}

static int watch(struct far *far)
{
	const struct watcher *w = far->watcher;
	struct use use = { 0 };
	int rc = 0;

	while (rc == 0 && !far->last) {
		struct pollfd fds[] = { { client_fd(far->on->kept), POLLIN, 0 },
					{ w->fd(w->context), POLLIN, 0 } };

		poll(fds, ARRAY_SIZE(fds), MIN(FAR_STEP_MS, w->wait_ms(w->context)));
		rc = take_replies(far, &use);
		if (rc == 0 && !far->last && w->look(w->context, &use))
			rc = client_tell(far->on->kept, "org.nbserved.Host.Idle", NULL);
		if (rc == 0 && !far->last)
			rc = tell(far);
	}
	return rc;
}

static void show_output(const struct child *child, const char *output, enum child_show show)
{
	bool failed = child->status > 0 && !child_interrupted();

	if (show == CHILD_SHOW) {
		fputs(output, stdout);
		fflush(stdout);
		fputs(child->errors, stderr);
	} else if (show == CHILD_SHOW_ON_FAILURE && failed) {
		fputs(output, stderr);
		fputs(child->errors, stderr);
	}
}

static void set_child(struct child *child, const json_t *last, enum child_show show, bool keep)
{
	child->status = (int)json_integer_value(field_get(last, "status"));
	child->timed_out = field_bool(last, "timed_out");
	child->wall_ns = field_uint(last, "wall_ns");
	use_from_json(&child->use, field_get(last, "use"));
	cpus_parse(field_text(last, "cpus"), &child->cpus);
	child->errors = strdup(field_text(last, "errors"));
	show_output(child, field_text(last, "output"), show);
	if (keep)
		child->output = strdup(field_text(last, "output"));
}

static int refused(const struct ctl *ctl, const char *error)
{
	ctl_warn("%s cannot run it: %s", ctl->on->target.host, error);
	return CTL_UNREACHABLE;
}

int generator_host_run(struct ctl *ctl, char *const *argv, enum child_show show, bool keep,
		       unsigned timeout_ms, const struct watcher *watcher, struct child *ret)
{
	struct far far = { .on = ctl->on, .watcher = watcher, .heard_ns = clock_ns() };
	int rc;

	if (!ctl->on) {
		child_run(argv, show, keep, timeout_ms, watcher, ret);
		return CTL_DONE;
	}
	*ret = (struct child){ 0 };
	if (!far.on->kept)
		return CTL_UNREACHABLE; /* the reason was printed */
	rc = client_send(far.on->kept, "org.nbserved.Host.Run",
			 json_pack("{s:o, s:I}", "argv", words_of(argv), "timeout_ms",
				   (json_int_t)timeout_ms),
			 true);
	if (rc == 0)
		rc = watch(&far);
	if (rc < 0)
		rc = ctl_lost(ctl->on, -rc);
	else if (json_is_string(far.last))
		rc = refused(ctl, json_string_value(far.last));
	else
		set_child(ret, far.last, show, keep);
	json_decref(far.last);
	return rc;
}
