/* See generator_host.h. */
#include "generator_host.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "field.h"
#include "generator.h"
#include "host.h"
#include "must.h"
#include "parse.h"
#include "text.h"
#include "util.h"
#include "version.h"

/* Adds a host of the list.  CTL_DONE, or CTL_USAGE with the error printed. */
static int add_host(struct ctl *ctl, const char *name)
{
	const char *bad = NULL;

	if (!*name || *name == '-' || strlen(name) >= HOST_NAME_BYTES)
		bad = "expected [USER@]HOST,...";
	for (const char *c = name; *c && !bad; c++)
		if ((unsigned char)*c <= ' ' || *c == 0x7f)
			bad = "a name has no space";
	for (unsigned i = 0; i < ctl->on_count && !bad; i++)
		if (!strcmp(ctl->on[i].target.host, name))
			bad = "it is there twice";
	if (!bad && ctl->on_count == HOSTS_MAX)
		bad = "there are too many hosts";
	if (bad)
		return ctl_usage(ctl, "--on: %s, got '%.64s'", bad, name);
	ctl->on[ctl->on_count++] =
		(struct ctl){ .command = ctl->command,
			      .steady = true,
			      .target = { .host = name, .program = ctl->target.program } };
	return CTL_DONE;
}

int generator_host_open(struct ctl *ctl, char *list)
{
	int rc = CTL_DONE;

	ctl->on = must(calloc(HOSTS_MAX, sizeof(*ctl->on)));
	ctl->on_count = 0;
	for (char *name; rc == CTL_DONE && (name = strsep(&list, ","));)
		rc = add_host(ctl, name);
	return rc == CTL_DONE ? ctl_open_all(ctl->on, ctl->on_count) : rc;
}

void generator_host_close(struct ctl *ctl)
{
	for (unsigned i = 0; i < ctl->on_count; i++)
		client_close(ctl->on[i].kept);
	free(ctl->on);
	ctl->on = NULL;
	ctl->on_count = 0;
}

unsigned generator_host_count(const struct ctl *ctl)
{
	return ctl->on ? ctl->on_count : 1;
}

void generator_host_name(const struct ctl *ctl, unsigned host, char name[HOST_NAME_BYTES])
{
	const char *of = ctl->on ? ctl->on[host].target.host : NULL,
		   *at = of ? strrchr(of, '@') : NULL;

	if (of)
		strcpy(name, at ? at + 1 : of); /* shorter: see add_host() */
	else if (gethostname(name, HOST_NAME_BYTES) < 0)
		strcpy(name, "localhost");
	name[HOST_NAME_BYTES - 1] = '\0';
}

/* Is the generator's host the daemon's as well? */
static bool is_daemons(const struct ctl *ctl, unsigned host)
{
	const char *daemon = ctl->target.host;

	return ctl->on ? daemon && !strcmp(daemon, ctl->on[host].target.host) : !daemon;
}

bool generator_is_elsewhere(const struct ctl *ctl)
{
	for (unsigned i = 0; i < generator_host_count(ctl); i++)
		if (!is_daemons(ctl, i))
			return true;
	return false;
}

int generator_host_ask(struct ctl *bridge, json_t **ret)
{
	json_t *reply = NULL;
	int rc = bridge ? ctl_call(bridge, "Host.Describe", NULL, &reply) : CTL_DONE;

	*ret = bridge ? json_incref(field_get(reply, "conditions")) : host_describe();
	json_decref(reply);
	return rc;
}

int generator_host_describe(struct ctl *ctl, unsigned host, json_t **ret)
{
	int rc = generator_host_ask(ctl->on ? &ctl->on[host] : NULL, ret);

	if (rc == CTL_DONE && ctl->on)
		json_object_set_new(*ret, "name", json_string(ctl->on[host].target.host));
	return rc;
}

static char *far_version(struct ctl *on, char *const *command)
{
	json_t *reply = NULL;
	char *version = NULL;

	if (ctl_call(on, "Host.Version", json_pack("{s:o}", "argv", field_words(command)),
		     &reply) == CTL_DONE &&
	    field_get(reply, "version"))
		version = strdup(field_text(reply, "version"));
	json_decref(reply);
	return version;
}

char *generator_host_version(struct ctl *ctl)
{
	char *first = NULL, *other;

	if (!ctl->on)
		return version_of(ctl->rest);
	for (unsigned i = 0; i < ctl->on_count; i++) {
		if (!ctl->on[i].kept)
			return first; /* the reason was printed */
		other = far_version(&ctl->on[i], ctl->rest);
		if (i && first && other && strcmp(first, other) != 0)
			ctl_warn(
				"%s has %s, and %s has %s: saved rows will name only the first version",
				ctl->on[0].target.host, first, ctl->on[i].target.host, other);
		if (i)
			free(other);
		else
			first = other;
	}
	return first;
}

/* ---- A command that runs on other hosts, by their bridges; bench/bridge is the other end ---- */

enum {
	FAR_STEP_MS = 50,
	FAR_SILENCE_MS = 15000, /* of a bridge, which reports more often */
};

/* The command on one host. */
struct far {
	struct ctl *on;
	uint64_t active_ns, started_ns, ended_ns; /* 0: not yet */
	struct use use;
	FILE *kept[2]; /* of its stdout and of its stderr; they write text[] */
	char *text[2];
	bool show;    /* on our stdout and stderr, as it comes */
	json_t *last; /* the last reply, or the text of an error; NULL: the command still runs */
	bool lost;    /* its connection is lost, and the user was told */
};

struct fars {
	struct far *list;
	unsigned count;
	const struct watcher *watcher;
	uint64_t sent_ns;
	int failed;   /* the first host that failed; -1: none */
	bool stopped; /* all hosts have been told to end their commands */
};

static bool is_running(const struct far *far)
{
	return !far->last && !far->lost;
}

static bool are_running(const struct fars *all)
{
	for (unsigned i = 0; i < all->count; i++)
		if (is_running(&all->list[i]))
			return true;
	return false;
}

static bool has_failed(const struct far *far)
{
	return far->lost || json_is_string(far->last) ||
	       json_integer_value(field_get(far->last, "status")) != 0 ||
	       field_bool(far->last, "timed_out");
}

/* ---- Replies ---- */

static void use_from_json(struct use *use, const json_t *from)
{
	*use = (struct use){ .cpu_ns = field_uint(from, "cpu_ns"),
			     .busiest_ns = field_uint(from, "busiest_ns"),
			     .peak = json_number_value(field_get(from, "peak")) };
}

static void lose(struct far *far, int error)
{
	ctl_lost(far->on, error);
	far->lost = true;
}

/* Keeps output of the command, and shows it.  errors: it is of stderr. */
static void add_output(struct far *far, bool errors, const char *text)
{
	FILE *to = errors ? stderr : stdout;

	if (ftell(far->kept[errors]) < CHILD_OUTPUT_MAX)
		fputs(text, far->kept[errors]);
	if (!far->show || !*text)
		return;
	fputs(text, to);
	fflush(to);
}

static void take_reply(struct far *far, json_t *reply, json_t *error, bool continues)
{
	const json_t *use = field_get(reply, "use");

	far->active_ns = clock_ns();
	if (!far->started_ns)
		far->started_ns = far->active_ns;
	if (use)
		use_from_json(&far->use, use);
	add_output(far, false, field_text(reply, "output"));
	add_output(far, true, field_text(reply, "errors"));
	if (continues && !error)
		return;
	far->ended_ns = far->active_ns;
	far->last = json_incref(error ? error : reply);
}

static void take_replies(struct far *far)
{
	while (is_running(far) && client_has_reply(far->on->kept)) {
		json_t *reply, *error;
		bool continues;
		int rc = client_receive(far->on->kept, 0, &reply, &error, &continues);

		if (rc < 0) {
			lose(far, -rc);
			return;
		}
		take_reply(far, reply, error, continues);
		json_decref(reply);
		json_decref(error);
	}
	if (is_running(far) && clock_ns() > far->active_ns + FAR_SILENCE_MS * (uint64_t)NS_PER_MS)
		lose(far, ETIMEDOUT);
}

static struct use use_of(const struct fars *all)
{
	struct use sum = { 0 };

	for (unsigned i = 0; i < all->count; i++) {
		const struct use *use = &all->list[i].use;

		sum.cpu_ns += use->cpu_ns;
		sum.busiest_ns = MAX(sum.busiest_ns, use->busiest_ns);
		sum.peak = MAX(sum.peak, use->peak);
	}
	return sum;
}

/* ---- Calls ---- */

/* Sends a call without a reply to each host whose command still runs.  An error is ignored: the
 * next reply of that host does not come then, and the host counts as lost. */
static void tell(const struct fars *all, const char *method, int number)
{
	for (unsigned i = 0; i < all->count; i++)
		if (is_running(&all->list[i]))
			client_tell(all->list[i].on->kept, method,
				    number ? json_pack("{s:i}", "signal", number) : NULL);
}

/* The first Ctrl-C ends the command; the second ends nbbench, and by that the command. */
static void stop(struct fars *all, int number)
{
	if (!all->stopped)
		tell(all, "org.nbserved.Host.Stop", number);
	all->stopped = true;
}

/* Starts the commands.  All hosts are connected already, so the starts differ only by the time that
 * it takes to write the calls. */
static void start(struct fars *all, char **const *commands, unsigned timeout_ms)
{
	all->sent_ns = clock_ns();
	for (unsigned i = 0; i < all->count; i++) {
		struct far *far = &all->list[i];
		int rc = client_send(far->on->kept, "org.nbserved.Host.Run",
				     json_pack("{s:o, s:I}", "argv", field_words(commands[i]),
					       "timeout_ms", (json_int_t)timeout_ms),
				     true);

		far->active_ns = clock_ns();
		if (rc < 0)
			lose(far, -rc);
	}
}

/* ---- While it runs ---- */

static void await(const struct fars *all)
{
	const struct watcher *w = all->watcher;
	struct pollfd fds[HOSTS_MAX + 1];
	unsigned count = 0;

	for (unsigned i = 0; i < all->count; i++)
		if (is_running(&all->list[i]))
			fds[count++] =
				(struct pollfd){ client_fd(all->list[i].on->kept), POLLIN, 0 };
	fds[count++] = (struct pollfd){ w->fd(w->context), POLLIN, 0 };
	poll(fds, count, MIN(FAR_STEP_MS, w->wait_ms(w->context)));
}

static void look(struct fars *all)
{
	struct use use = use_of(all);
	enum watch_answer answer = all->watcher->look(all->watcher->context, &use);

	if (answer == WATCH_IDLE)
		tell(all, "org.nbserved.Host.Idle", 0);
	if (answer == WATCH_END || all->failed >= 0)
		stop(all, SIGTERM);
	if (child_interrupted())
		stop(all, child_interrupted());
	for (unsigned i = 0; i < all->count; i++)
		if (is_running(&all->list[i]))
			ctl_alive(all->list[i].on);
}

static void watch(struct fars *all)
{
	while (are_running(all)) {
		await(all);
		for (unsigned i = 0; i < all->count; i++) {
			take_replies(&all->list[i]);
			if (!is_running(&all->list[i]) && has_failed(&all->list[i]) &&
			    all->failed < 0 && !all->stopped)
				all->failed = (int)i;
		}
		if (are_running(all))
			look(all);
	}
}

/* ---- The results ---- */

static void set_part(struct generator_part *part, const struct far *far, char *const *command)
{
	*part = (struct generator_part){ .host = far->on->target.host,
					 .ended_ns = far->ended_ns,
					 .wall_ns = field_uint(far->last, "wall_ns"),
					 .cpu_ns = far->use.cpu_ns,
					 .busiest_ns = far->use.busiest_ns,
					 .peak = far->use.peak };
	generator_parse(command, far->text[false], &part->result);
}

static void set_parts(struct generator_run *ret, const struct fars *all, char **const *commands)
{
	ret->part_count = all->count;
	ret->parts = must(calloc(all->count, sizeof(*ret->parts)));
	for (unsigned i = 0; i < all->count; i++) {
		set_part(&ret->parts[i], &all->list[i], commands[i]);
		ret->spread_ns = MAX(ret->spread_ns, all->list[i].started_ns - all->sent_ns);
	}
}

/* Prints output of a host; of several hosts with its name before each line. */
static void put_output(const struct fars *all, const struct far *far, bool errors, FILE *to)
{
	const char *text = far->text[errors];

	if (all->count == 1)
		fputs(text, to);
	while (all->count > 1 && *text) {
		size_t bytes = strcspn(text, "\n");
		/* A display of progress overwrites itself: its last state. */
		const char *over = memrchr(text, '\r', bytes);
		const char *line = over && over + 1 < text + bytes ? over + 1 : text;

		fprintf(to, "%s: %.*s\n", far->on->target.host, (int)(text + bytes - line), line);
		text += bytes + (text[bytes] == '\n');
	}
}

static char *join_outputs(const struct fars *all)
{
	char *text = NULL;
	FILE *to = text_open(&text);

	for (unsigned i = 0; i < all->count; i++)
		put_output(all, &all->list[i], false, to);
	fclose(to);
	return text;
}

static void set_child(struct child *child, const struct fars *all, bool keep)
{
	const json_t *last = all->list[MAX(all->failed, 0)].last;

	child->status = (int)json_integer_value(field_get(last, "status"));
	child->use = use_of(all);
	if (all->count == 1)
		parse_cpus(field_text(last, "cpus"), &child->cpus);
	for (unsigned i = 0; i < all->count; i++) {
		child->timed_out |= field_bool(all->list[i].last, "timed_out");
		child->wall_ns = MAX(child->wall_ns, field_uint(all->list[i].last, "wall_ns"));
	}
	if (keep)
		child->output = join_outputs(all);
}

static int result(const struct fars *all)
{
	int rc = CTL_DONE;

	for (unsigned i = 0; i < all->count; i++) {
		const struct far *far = &all->list[i];

		if (json_is_string(far->last))
			ctl_warn("%s cannot run COMMAND: %s", far->on->target.host,
				 json_string_value(far->last));
		if (far->lost || json_is_string(far->last))
			rc = CTL_UNREACHABLE;
	}
	return rc;
}

/* Lines of several hosts are shown when all have ended. */
static void show_outputs(const struct fars *all, enum child_show show)
{
	const struct far *far = &all->list[MAX(all->failed, 0)];

	for (unsigned i = 0; show == CHILD_SHOW && all->count > 1 && i < all->count; i++) {
		put_output(all, &all->list[i], false, stdout);
		put_output(all, &all->list[i], true, stderr);
	}
	if (all->failed < 0 || child_interrupted() || !json_is_object(far->last))
		return;
	if (show == CHILD_SHOW_ON_FAILURE) {
		put_output(all, far, false, stderr);
		put_output(all, far, true, stderr);
	}
	if (all->count > 1 && !field_bool(far->last, "timed_out"))
		ctl_warn("COMMAND failed on %s, and was ended on the other hosts",
			 far->on->target.host);
}

static void free_all(struct fars *all)
{
	for (unsigned i = 0; i < all->count; i++) {
		free(all->list[i].text[false]);
		free(all->list[i].text[true]);
		json_decref(all->list[i].last);
	}
	free(all->list);
}

/* child_run() on other hosts, those of ctl->on.  *ret is zeroed but for `failed`. */
static int far_run(struct ctl *ctl, char **const *commands, enum child_show show, bool keep,
		   unsigned timeout_ms, const struct watcher *watcher, struct generator_run *ret)
{
	struct fars all = { .list = must(calloc(ctl->on_count, sizeof(*all.list))),
			    .count = ctl->on_count,
			    .watcher = watcher,
			    .failed = -1 };
	int rc;

	for (unsigned i = 0; i < all.count; i++) {
		struct far *far = &all.list[i];

		far->on = &ctl->on[i];
		far->show = show == CHILD_SHOW && all.count == 1;
		far->kept[false] = text_open(&far->text[false]);
		far->kept[true] = text_open(&far->text[true]);
		far->lost = !far->on->kept; /* in an earlier run, the reason was printed */
	}
	if (result(&all) == CTL_DONE) {
		start(&all, commands, timeout_ms);
		watch(&all);
	}
	for (unsigned i = 0; i < all.count; i++) {
		fclose(all.list[i].kept[false]);
		fclose(all.list[i].kept[true]);
	}
	rc = result(&all);
	if (rc == CTL_DONE) {
		show_outputs(&all, show);
		set_child(&ret->child, &all, keep);
		ret->failed = all.failed;
	}
	if (rc == CTL_DONE && all.count > 1)
		set_parts(ret, &all, commands);
	free_all(&all);
	return rc;
}

/* ---- The command, here or there ---- */

int generator_host_run(struct ctl *ctl, char **const *commands, enum child_show show, bool keep,
		       unsigned timeout_ms, const struct watcher *watcher,
		       struct generator_run *ret)
{
	int rc = CTL_DONE;

	*ret = (struct generator_run){ .failed = -1 };
	if (ctl->on)
		rc = far_run(ctl, commands, show, keep, timeout_ms, watcher, ret);
	else
		child_run(commands[0], show, keep, timeout_ms, watcher, &ret->child);
	if (!ctl->on && ret->child.status != 0)
		ret->failed = 0;
	return rc;
}

void generator_run_free(struct generator_run *run)
{
	child_free(&run->child);
	free(run->parts);
	run->parts = NULL;
}
