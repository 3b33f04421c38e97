/* Calls of commands to the daemon: connects, calls, and turns each failure into a message and
 * an exit code. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "ctl.h"
#include "field.h"
#include "printable.h"
#include "util.h"

enum {
	CALL_TIMEOUT_MS = 10000,
	CALL_LONG_MS = 60000,
	CALL_SERVE_MS = 80000,
	/* A bridge keeps the time limits of the daemon's replies, and reports one that is over:
	 * nbctl waits longer by this. */
	CALL_BRIDGE_MS = 5000,
	/* Connecting to another host, where the user may have to type a password. */
	CALL_CONNECT_MS = 120000,
	CALL_ALL_MS = 30000, /* connecting to several hosts, which may not ask for passwords */
	CALL_ALIVE_MS = 1000,
};

static const char *unreachable_advice(int error)
{
	switch (error) {
	case ENOENT:
		return "is nbserved running?  Try `systemctl status nbserved`, or name its socket "
		       "with -s SOCKET or NBSERVED_SOCKET";
	case ECONNREFUSED:
		return "nothing listens there any more: try `systemctl restart nbserved`";
	case EACCES:
	case EPERM:
		return "this needs root, the server's user or a member of its `control-group` "
		       "(usually nbserved): try sudo, or `usermod -aG nbserved USER` and log in "
		       "again";
	case ETIMEDOUT:
		return "it is there, but stuck, stopped or overloaded: see `systemctl status "
		       "nbserved`, then `systemctl restart nbserved`";
	case ECONNRESET:
	case EPIPE:
		return "it closed the connection: it stopped, or it has too many control clients; "
		       "see `journalctl -u nbserved`";
	case EPROTO:
		return "that is not nbserved's control socket";
	default:
		return "try `systemctl status nbserved`";
	}
}

const char *ctl_place(const struct ctl *ctl)
{
	return ctl->target.host ? ctl->target.host : ctl->target.socket;
}

static int unreachable_here(const char *where, const char *socket, int error)
{
	const char *why = error == EPROTO      ? "the answer is not Varlink"
			  : error == ETIMEDOUT ? "it does not answer"
					       : strerror(error);

	ctl_warn("%scannot reach the daemon at %s: %s", where, socket, why);
	ctl_warn("%s%s", where, unreachable_advice(error));
	return CTL_UNREACHABLE;
}

/* Prints why the daemon cannot be reached.  client NULL: client_open() has failed. */
static int unreachable(const struct ctl *ctl, struct client *client, int error)
{
	char text[1024];

	if (ctl->specs && !ctl->target.host) {
		ctl_warn("the daemon of this measurement does not answer any more: %s",
			 strerror(error));
		return CTL_UNREACHABLE;
	}
	if (!ctl->target.host)
		return unreachable_here("", ctl->target.socket, error);
	if (client)
		client_explain(client, error, text, sizeof(text));
	else
		snprintf(text, sizeof(text), "ssh: %s", strerror(error));
	ctl_warn("%s", text);
	return CTL_UNREACHABLE;
}

/* Prints why the bridge on the other host cannot reach the daemon there, by the bridge's reply. */
static int unreachable_there(const struct ctl *ctl, const json_t *parameters)
{
	char where[256];

	snprintf(where, sizeof(where), "on %s: ", ctl->target.host);
	return unreachable_here(where, field_text(parameters, "socket"),
				(int)field_uint(parameters, "errno"));
}

/* Prints the daemon's reasons: texts, or objects with file and line. */
static void warn_errors(const json_t *parameters)
{
	json_t *error;
	size_t i;

	json_array_foreach(field_get(parameters, "errors"), i, error) {
		char *text = field_show(error);

		printable_clean(text);
		fprintf(stderr, "  %s\n", text);
		free(text);
	}
}

/* Methods that change something or need a longer time limit. */
struct method {
	const char *name;
	bool changes; /* for root and the daemon's user only */
	unsigned timeout_ms;
};

static const struct method *find_method(const char *name)
{
	/* Time limits.  Some methods start workers and open files, each of which may take the
	 * daemon 10 s. */
	static const struct method methods[] = {
		{ "Reload", true, CALL_LONG_MS },
		{ "Resume", true, CALL_LONG_MS },
		{ "Drain", true, CALL_TIMEOUT_MS },
		{ "SetLogLevel", true, CALL_TIMEOUT_MS },
		{ "Doctor", false, CALL_LONG_MS },
		{ "Host.Serve", false, CALL_SERVE_MS },
		{ "Host.Unserve", false, CALL_LONG_MS },
		{ NULL, false, CALL_TIMEOUT_MS }, /* all other methods */
	};
	const struct method *m = methods;

	while (m->name && strcmp(m->name, name) != 0)
		m++;
	return m;
}

unsigned ctl_limit_ms(const char *method)
{
	const char *dot = strrchr(method, '.');

	return find_method(dot ? dot + 1 : method)->timeout_ms;
}

/* By which time there is an answer of the daemon, or of the bridge that waits for it. */
static unsigned with_bridge_ms(const struct ctl *ctl, unsigned limit_ms)
{
	return limit_ms + (ctl->target.host ? CALL_BRIDGE_MS : 0);
}

static int refusal_code(const char *name)
{
	return strcmp(name, "RestartNeeded") ? CTL_REFUSED : CTL_RESTART;
}

static int refused(struct ctl *ctl, const char *method, const char *error, const json_t *parameters)
{
	const char *message = field_text(parameters, "message");
	const char *dot = strrchr(error, '.'), *name = dot ? dot + 1 : error;

	if (ctl->target.host && !strcmp(error, "org.nbserved.Host.Unreachable"))
		return unreachable_there(ctl, parameters);
	if (ctl->quiet && field_get(parameters, "errors"))
		return refusal_code(name);
	if (ctl->out.json) {
		json_t *document =
			json_pack("{s:s, s:O}", "error", error, "parameters", parameters);

		output_json(&ctl->out, document, false);
		json_decref(document);
	}
	if (*message)
		ctl_warn("%s", message);
	else if (!strcmp(name, "PermissionDenied"))
		ctl_warn("%s: permission denied: %s", method,
			 find_method(method)->changes
				 ? "changes need root or the server's own user"
				 : "this needs root, the server's user or a member of its "
				   "`control-group`");
	else if (!strcmp(name, "MethodNotFound"))
		ctl_warn("the daemon does not know %s: it is older than this %s", method,
			 ctl_program);
	else if (!strcmp(name, "InvalidParameter"))
		ctl_warn("%s: invalid parameter: %s", method, field_text(parameters, "parameter"));
	else
		ctl_warn("%s: %s", method, error);
	warn_errors(parameters);
	return refusal_code(name);
}

/* Is the other host's nbctl of our major and minor version? */
static bool is_our_version(const char *version)
{
	static const char ours[] = NB_VERSION;
	size_t same = strcspn(ours, ".") + 1;

	same += strcspn(&ours[same], ".");
	return !strncmp(version, ours, same) && (!version[same] || version[same] == '.');
}

static uint64_t connect_end_ns(unsigned ms)
{
	return clock_ns() + ms * (uint64_t)NS_PER_MS;
}

/* Receives the bridge's version.  CTL_DONE, or CTL_UNREACHABLE with the error printed. */
static int greet(const struct ctl *ctl, struct client *client, uint64_t end_ns)
{
	uint64_t now_ns = clock_ns();
	json_t *reply = NULL, *error = NULL;
	bool continues;
	int rc = client_send(client, "org.nbserved.Host.Describe", NULL, false);

	if (rc == 0 || rc == -EPIPE)
		rc = client_receive(client,
				    now_ns < end_ns ? (unsigned)((end_ns - now_ns) / NS_PER_MS) : 0,
				    &reply, &error, &continues);
	if (rc < 0)
		return unreachable(ctl, client, -rc);
	rc = CTL_DONE;
	if (error || !is_our_version(field_text(reply, "version"))) {
		ctl_warn("%s has %s %s, and this host has %s: install the same version there",
			 ctl->target.host, ctl_program, field_text(reply, "version"), NB_VERSION);
		rc = CTL_UNREACHABLE;
	}
	json_decref(reply);
	json_decref(error);
	return rc;
}

/* Connects to the daemon, and on another host waits until it answers.  The caller closes the
 * client. CTL_DONE, or CTL_UNREACHABLE with the error printed. */
static int open_client(struct ctl *ctl, struct client **ret_client)
{
	int rc = client_open(&ctl->target, ret_client);

	if (rc < 0)
		return unreachable(ctl, NULL, -rc);
	rc = ctl->target.host ? greet(ctl, *ret_client, connect_end_ns(CALL_CONNECT_MS)) : CTL_DONE;
	if (rc != CTL_DONE)
		client_close(*ret_client);
	return rc;
}

int ctl_open_all(struct ctl *list, unsigned count)
{
	uint64_t end_ns = connect_end_ns(count > 1 ? CALL_ALL_MS : CALL_CONNECT_MS);
	int result = CTL_DONE;

	for (unsigned i = 0; i < count; i++) {
		int rc;

		list[i].target.batch = count > 1; /* only a single ssh may ask for a password */
		rc = client_open(&list[i].target, &list[i].kept);
		if (rc < 0)
			result = unreachable(&list[i], NULL, -rc);
	}
	for (unsigned i = 0; i < count; i++) {
		if (!list[i].kept || greet(&list[i], list[i].kept, end_ns) == CTL_DONE)
			continue;
		client_close(list[i].kept);
		list[i].kept = NULL;
		result = CTL_UNREACHABLE;
	}
	return result;
}

/* Gives the caller the connection kept by an earlier call, or else a new one.  The caller owns it.
 */
static int take_client(struct ctl *ctl, struct client **ret_client)
{
	struct client *kept = ctl->kept;
	int rc = CTL_DONE;

	ctl->kept = NULL;
	if (kept && (ctl->awaited || client_is_open(kept))) {
		*ret_client = kept;
		return CTL_DONE;
	}
	if (kept && ctl->steady)
		rc = unreachable(ctl, kept, ECONNRESET);
	client_close(kept);
	return rc == CTL_DONE ? open_client(ctl, ret_client) : rc;
}

/* Connects and sends; prints an error on failure.  The client is the caller's. */
static int start(struct ctl *ctl, const char *method, json_t *parameters, bool more,
		 struct client **ret_client)
{
	char name[64];
	int rc = take_client(ctl, ret_client);

	if (rc != CTL_DONE) {
		json_decref(parameters);
		return rc;
	}
	snprintf(name, sizeof(name), "org.nbserved.%s%s", strchr(method, '.') ? "" : "Control.",
		 method);
	rc = client_send(*ret_client, name, parameters, more);
	if (rc == 0)
		return CTL_DONE;
	rc = unreachable(ctl, *ret_client, -rc);
	client_close(*ret_client);
	return rc;
}

/* Receives one reply.  CTL_DONE and a new reference, or another exit code with
 * the error printed. */
static int next_reply(struct ctl *ctl, struct client *client, const char *method,
		      unsigned timeout_ms, json_t **ret_reply, bool *ret_continues)
{
	json_t *reply, *error;
	int rc = client_receive(client, timeout_ms, &reply, &error, ret_continues);

	if (rc < 0)
		return unreachable(ctl, client, -rc);
	if (!error) {
		*ret_reply = reply;
		return CTL_DONE;
	}
	rc = refused(ctl, method, json_string_value(error), reply);
	json_decref(reply);
	json_decref(error);
	return rc;
}

int ctl_send(struct ctl *ctl, const char *method, json_t *parameters)
{
	struct client *client;
	int rc = start(ctl, method, parameters, false, &client);

	if (rc != CTL_DONE) {
		ctl->awaited = 0;
		return rc;
	}
	ctl->kept = client;
	ctl->awaited++;
	ctl->sent_ns = clock_ns();
	return CTL_DONE;
}

int ctl_fd(const struct ctl *ctl)
{
	return client_fd(ctl->kept);
}

bool ctl_is_ready(const struct ctl *ctl)
{
	return client_has_reply(ctl->kept) ||
	       clock_ns() >
		       ctl->sent_ns + with_bridge_ms(ctl, CALL_TIMEOUT_MS) * (uint64_t)NS_PER_MS;
}

int ctl_receive(struct ctl *ctl, const char *method, json_t **ret_reply)
{
	uint64_t spent_ms = (clock_ns() - ctl->sent_ns) / NS_PER_MS;
	unsigned all_ms = with_bridge_ms(ctl, find_method(method)->timeout_ms);
	bool continues;
	int rc = next_reply(ctl, ctl->kept, method, all_ms - (unsigned)MIN(all_ms, spent_ms),
			    ret_reply, &continues);

	ctl->awaited--;
	if (rc == CTL_UNREACHABLE)
		ctl_forget(ctl);
	return rc;
}

void ctl_alive(struct ctl *ctl)
{
	uint64_t now_ns = clock_ns();

	if (!ctl->target.host || !ctl->kept ||
	    now_ns < ctl->alive_ns + CALL_ALIVE_MS * (uint64_t)NS_PER_MS)
		return;
	ctl->alive_ns = now_ns;
	/* A failure shows at the next reply, which does not come. */
	client_tell(ctl->kept, "org.nbserved.Host.Alive", NULL);
}

void ctl_forget(struct ctl *ctl)
{
	client_close(ctl->kept);
	ctl->kept = NULL;
	ctl->awaited = 0;
}

int ctl_lost(struct ctl *ctl, int error)
{
	int rc = unreachable(ctl, ctl->kept, error);

	ctl_forget(ctl);
	return rc;
}

int ctl_call(struct ctl *ctl, const char *method, json_t *parameters, json_t **ret_reply)
{
	int rc = ctl_send(ctl, method, parameters);

	return rc == CTL_DONE ? ctl_receive(ctl, method, ret_reply) : rc;
}

int ctl_show(struct ctl *ctl, const char *method, json_t *parameters,
	     void (*render)(struct output *out, const json_t *reply))
{
	json_t *reply = NULL;
	int rc = ctl_call(ctl, method, parameters, &reply);

	if (rc != CTL_DONE)
		return rc;
	if (ctl->out.json)
		output_json(&ctl->out, reply, false);
	else if (render)
		render(&ctl->out, reply);
	json_decref(reply);
	return CTL_DONE;
}

int ctl_stream(struct ctl *ctl, const char *method, json_t *parameters, unsigned interval_ms,
	       bool (*reply)(void *context, const json_t *reply), void *context)
{
	struct client *client;
	bool continues;
	int rc = start(ctl, method, parameters, true, &client);

	if (rc != CTL_DONE)
		return rc;
	do {
		json_t *document;

		rc = next_reply(ctl, client, method,
				with_bridge_ms(ctl, interval_ms + CALL_TIMEOUT_MS), &document,
				&continues);
		if (rc != CTL_DONE)
			break;
		continues &= reply(context, document);
		json_decref(document);
	} while (continues);
	client_close(client);
	return rc;
}
