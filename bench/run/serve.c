/* See serve.h. */
#include "serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "field.h"
#include "points.h"
#include "process.h"
#include "served.h"
#include "text.h"
#include "util.h"

static int add_build(struct serve *s, const char *text)
{
	const char *equals = strchr(text, '=');
	struct serve_build *b = &s->builds[s->build_count];

	if (!equals || equals == text || !equals[1])
		return ctl_usage(s->ctl, "--build: expected NAME=PATH of an nbserved, got '%s'",
				 text);
	/* With -H the program is on the other host: there the bridge finds that it is missing. */
	if (!s->ctl->target.host && strchr(equals, '/') && access(equals + 1, X_OK) < 0)
		return ctl_usage(s->ctl, "--build: %s: %s", equals + 1, strerror(errno));
	b->name = strndup(text, (size_t)(equals - text));
	b->path = strdup(equals + 1);
	for (unsigned i = 0; i < s->build_count; i++)
		if (!strcmp(s->builds[i].name, b->name))
			return ctl_usage(s->ctl, "--build: there are two of the name '%s'",
					 b->name);
	s->build_count++;
	return CTL_DONE;
}

int serve_init(struct serve *s, struct ctl *ctl, char **builds)
{
	unsigned count = 0;
	int rc = CTL_DONE;

	*s = (struct serve){ .ctl = ctl };
	if (!builds) {
		s->builds[s->build_count++].path = process_program("nbserved");
		return CTL_DONE;
	}
	while (builds[count])
		count++;
	if (count < 2 || count > SERVE_BUILDS_MAX)
		return ctl_usage(ctl, "--build: expected two to %d, the first to compare with",
				 SERVE_BUILDS_MAX);
	for (unsigned i = 0; i < count && rc == CTL_DONE; i++)
		rc = add_build(s, builds[i]);
	return rc;
}

void serve_fini(struct serve *s)
{
	for (unsigned i = 0; i < SERVE_BUILDS_MAX; i++) {
		free(s->builds[i].name);
		free(s->builds[i].path);
	}
}

/* ---- A daemon ---- */

/* An exit code, with the reason printed. */
static int start_here(struct serve *s, unsigned build, char *const *specs)
{
	const char *path = s->builds[build].path;
	int rc = served_start(path, specs, s->ctl->target.socket, -1, &s->pid);

	if (rc >= 0)
		return rc;
	if (rc == -ETIMEDOUT && !child_interrupted())
		ctl_warn("%s does not serve", path);
	if (rc == -ETIMEDOUT || rc == -ECHILD)
		return CTL_UNREACHABLE;
	ctl_warn("cannot run %s: %s", path, strerror(-rc));
	return rc == -ENOENT ? CTL_NOT_FOUND : CTL_CANNOT_RUN;
}

/* The bridge starts it on the other host, whose path it is.  Only this host is let in,
 * if the generator runs here. */
static int start_there(struct serve *s, unsigned build, char *const *specs)
{
	const struct serve_build *b = &s->builds[build];
	const char *host = s->ctl->target.host;
	json_t *reply = NULL;
	char *text, *rest;
	int rc;

	rc = ctl_call(s->ctl, "Host.Serve",
		      json_pack("{s:o, s:b, s:s*}", "specs", field_words(specs), "allow",
				!s->ctl->on, "program", b->name ? b->path : NULL),
		      &reply);
	s->there = rc == CTL_DONE && !field_get(reply, "message");
	text = strdup(field_text(reply, "message"));
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		ctl_warn("on %s: %s", host, line);
	if (rc == CTL_DONE && !s->there)
		rc = CTL_REFUSED;
	free(text);
	json_decref(reply);
	return rc;
}

int serve_start(struct serve *s, unsigned build)
{
	char *specs[SERVED_SPECS_MAX + 1] = { NULL };
	int rc;

	for (unsigned i = 0; i < SERVED_SPECS_MAX && s->ctl->specs[i]; i++)
		specs[i] = point_fill(s->point, s->ctl->specs[i], true);
	rc = s->ctl->target.host ? start_there(s, build, specs) : start_here(s, build, specs);
	for (char **spec = specs; *spec; spec++)
		free(*spec);
	return rc;
}

int serve_try(struct serve *s)
{
	unsigned count = points_in(s->points, s->ctl->specs) ? s->points->count : 0;
	int rc = CTL_DONE;

	for (unsigned point = 0; point < count && rc == CTL_DONE; point++)
		for (unsigned i = 0; i < s->build_count && rc == CTL_DONE; i++) {
			s->point = &s->points->list[point];
			rc = serve_start(s, i);
			serve_stop(s);
		}
	return rc;
}

void serve_stop(struct serve *s)
{
	json_t *reply = NULL;

	if (s->there && s->ctl->kept) { /* if the bridge has ended, so has the daemon */
		ctl_call(s->ctl, "Host.Unserve", NULL, &reply);
		json_decref(reply);
	}
	s->there = false;
	if (!s->pid)
		return;
	client_close(s->ctl->kept); /* the connection to this daemon, or to its bridge */
	s->ctl->kept = NULL;
	served_stop(s->pid);
	s->pid = 0;
}
