/* Calls of commands to the daemon: connects, calls, and turns each failure into a message and an
 * exit code. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "ctl.h"
#include "field.h"
#include "printable.h"
#include "util.h"

enum { CALL_TIMEOUT_MS = 10000, CALL_LONG_MS = 60000 };

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
		return "it is there but does not answer: try `systemctl status nbserved`";
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

static int unreachable(const struct ctl *ctl, int error)
{
	const char *why = error == EPROTO ? "the answer was no Varlink" : strerror(error);

	if (strcmp(ctl_program, "nbctl") != 0) {
		ctl_warn("the server of this --run does not answer any more: %s", why);
		return CTL_UNREACHABLE;
	}
	ctl_warn("cannot reach the daemon at %s: %s", ctl->socket, why);
	ctl_warn("%s", unreachable_advice(error));
	return CTL_UNREACHABLE;
}

/* The daemon's reasons: text, or objects with their place. */
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
	/* Some start workers and open files, each of which may take the daemon 10 s. */
	static const struct method methods[] = {
		{ "Reload", true, CALL_LONG_MS },
		{ "ConfirmReload", true, CALL_TIMEOUT_MS },
		{ "Resume", true, CALL_LONG_MS },
		{ "Drain", true, CALL_TIMEOUT_MS },
		{ "SetLogLevel", true, CALL_TIMEOUT_MS },
		{ "Doctor", false, CALL_LONG_MS },
		{ NULL, false, CALL_TIMEOUT_MS }, /* all other methods */
	};
	const struct method *m = methods;

	while (m->name && strcmp(m->name, name) != 0)
		m++;
	return m;
}

static int refusal_code(const char *name)
{
	return strcmp(name, "RestartNeeded") ? CTL_REFUSED : CTL_RESTART;
}

static int refused(struct ctl *ctl, const char *method, const char *error, const json_t *parameters)
{
	const char *message = field_text(parameters, "message");
	const char *dot = strrchr(error, '.'), *name = dot ? dot + 1 : error;

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
		ctl_warn("this daemon does not know %s: it is not as new as this nbctl", method);
	else if (!strcmp(name, "InvalidParameter"))
		ctl_warn("%s: not accepted: %s", method, field_text(parameters, "parameter"));
	else
		ctl_warn("%s: %s", method, error);
	warn_errors(parameters);
	return refusal_code(name);
}

/* Connects and sends; prints an error on failure. */
static int start(struct ctl *ctl, const char *method, json_t *parameters, bool more,
		 struct client **ret_client)
{
	char name[64];
	int rc = client_open(ctl->socket, ret_client);

	if (rc < 0) {
		json_decref(parameters);
		return unreachable(ctl, -rc);
	}
	snprintf(name, sizeof(name), "org.nbserved.Control.%s", method);
	rc = client_send(*ret_client, name, parameters, more);
	if (rc == 0)
		return CTL_DONE;
	client_close(*ret_client);
	return unreachable(ctl, -rc);
}

/* One reply.  CTL_DONE and a new reference, or another exit code with the error printed. */
static int next_reply(struct ctl *ctl, struct client *client, const char *method,
		      unsigned timeout_ms, json_t **ret_reply, bool *ret_continues)
{
	json_t *reply, *error;
	int rc = client_receive(client, timeout_ms, &reply, &error, ret_continues);

	if (rc < 0)
		return unreachable(ctl, -rc);
	if (!error) {
		*ret_reply = reply;
		return CTL_DONE;
	}
	rc = refused(ctl, method, json_string_value(error), reply);
	json_decref(reply);
	json_decref(error);
	return rc;
}

int ctl_call(struct ctl *ctl, const char *method, json_t *parameters, json_t **ret_reply)
{
	struct client *client;
	bool continues;
	int rc = start(ctl, method, parameters, false, &client);

	if (rc != CTL_DONE)
		return rc;
	rc = next_reply(ctl, client, method, find_method(method)->timeout_ms, ret_reply,
			&continues);
	client_close(client);
	return rc;
}

int ctl_show(struct ctl *ctl, const char *method, json_t *parameters,
	     void (*render)(struct output *out, const json_t *reply))
{
	json_t *reply;
	int rc = ctl_call(ctl, method, parameters, &reply);

	if (rc != CTL_DONE)
		return rc;
	if (ctl->out.json)
		output_json(&ctl->out, reply, false);
	else
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

		rc = next_reply(ctl, client, method, interval_ms + CALL_TIMEOUT_MS, &document,
				&continues);
		if (rc != CTL_DONE)
			break;
		continues &= reply(context, document);
		json_decref(document);
	} while (continues);
	client_close(client);
	return rc;
}
