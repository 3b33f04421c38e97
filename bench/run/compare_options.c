/* See compare.h. */
#include "compare.h"

#include <stdlib.h>
#include <string.h>

#include "must.h"
#include "parse.h"
#include "placeholders.h"
#include "text.h"
#include "util.h"

enum { VISIT_TIMEOUT_MS = 600 * 1000, ALONE = 3 };

static int check_repeat(struct ctl *ctl, struct compare *c)
{
	const char *text = ctl->values[VALUE_REPEAT];
	uint64_t value;

	c->rounds.repeat = c->visits ? 0 : 1;
	/* Curves have intervals also if there is nothing to compare. */
	c->rounds.alone = json_object_size(c->points.sweeps) ? result_least_rounds(1) : ALONE;
	if (!text)
		return CTL_DONE;
	if (parse_uint(text, &value) < 0 || value < 1 || value > ROUNDS_MAX)
		return ctl_usage(ctl, "--repeat: expected 1 to %d, got '%s'", ROUNDS_MAX, text);
	c->rounds.repeat = (unsigned)value;
	return CTL_DONE;
}

static int check_time(struct ctl *ctl, struct compare *c)
{
	const char *text = ctl->values[VALUE_TIME];
	unsigned ms = ROUNDS_TIME_MS;

	if (text && (!c->visits || ctl->values[VALUE_REPEAT]))
		return ctl_usage(
			ctl,
			"--time limits rounds of visits: COMMAND needs {port}, and leave out --repeat");
	if (text && ctl_interval(ctl, "time", text, 1, &ms))
		return CTL_USAGE;
	c->rounds.most = text ? ROUNDS_MAX : ROUNDS_UNTIMED_MAX;
	c->rounds.time_ns = ms * (uint64_t)NS_PER_MS * (text ? 1 : c->points.count);
	return CTL_DONE;
}

static int check_seed(struct ctl *ctl, struct compare *c)
{
	const char *text = ctl->values[VALUE_SEED];

	c->rounds.seeded = text;
	if (text && parse_uint(text, &c->rounds.seed) < 0)
		return ctl_usage(ctl, "--seed: expected a number, got '%s'", text);
	return CTL_DONE;
}

static int check_served(struct ctl *ctl, const struct compare *c)
{
	if ((ctl->values[VALUE_BUILD] || ctl->values[VALUE_SEED]) && !c->visits)
		return ctl_usage(ctl, "--build and --seed are about visits: COMMAND needs {port}, "
				      "{host}, {uri} or {listener}");
	return CTL_DONE;
}

/* Does one of the specs have no address, so that it is served on loopback? */
static bool is_served_on_loopback(char *const *specs)
{
	for (; specs && *specs; specs++)
		if (!strstr(*specs, ",address="))
			return true;
	return false;
}

static int check_on(struct ctl *ctl)
{
	if (!ctl->values[VALUE_ON])
		return CTL_DONE;
	if (!ctl->target.host && is_served_on_loopback(ctl->specs))
		return ctl_usage(ctl,
				 "--on: what is served is on loopback, which another host does not "
				 "reach: give it an address, as in echo,address=10.0.0.1");
	for (char **word = ctl->rest; *word; word++) {
		json_t *sent = json_string(*word);

		json_decref(sent);
		if (!sent)
			return ctl_usage(ctl, "--on: a word of COMMAND is not UTF-8");
	}
	return CTL_DONE;
}

static int check_within(struct ctl *ctl, struct compare *c)
{
	const char *text = ctl->values[VALUE_WITHIN];
	char *end;

	if (!text)
		return CTL_DONE;
	c->within = strtod(text, &end) / 100;
	end += end > text && *end == '%';
	if (!*text || *end || !(c->within >= 0.001 && c->within <= 1))
		return ctl_usage(ctl, "--within: expected 0.1 to 100 percent, got '%s'", text);
	return CTL_DONE;
}

static int check_timeout(struct ctl *ctl, struct compare *c)
{
	const char *text = ctl->values[VALUE_TIMEOUT];

	c->timeout_ms = c->visits ? VISIT_TIMEOUT_MS : 0;
	if (!text)
		return CTL_DONE;
	return ctl_interval(ctl, "timeout", text, 1, &c->timeout_ms);
}

/* Refuses a COMMAND such as `ssh HOST wrk`: a generator is measured as a child of nbbench, and of
 * one on another host only the CPU time of the ssh here would be measured. */
static int check_command(struct ctl *ctl)
{
	static const char *const remote[] = { "ansible", "clush", "mosh", "parallel-ssh",
					      "pdsh",    "pssh",  "ssh" };
	const char *name;

	if (!ctl->rest)
		return CTL_DONE;
	if (!ctl->rest[0])
		return ctl_usage(ctl, "there is no command after `--`");
	name = basename(ctl->rest[0]);
	for (unsigned i = 0; i < ARRAY_SIZE(remote); i++)
		if (!strcmp(name, remote[i]))
			return ctl_usage(
				ctl,
				"%s would run the generator on another host, where nbbench sees "
				"neither its CPU time nor when its load begins: use --on HOST",
				name);
	return CTL_DONE;
}

static int check_limits(struct ctl *ctl, struct compare *c)
{
	char error[LIMIT_ERROR_BYTES];

	for (char **text = ctl->lists[VALUE_FAIL_IF]; text && *text; text++) {
		struct limit *list =
			must(reallocarray(c->limit_list, c->limit_count + 1, sizeof(*list)));

		c->limit_list = list;
		if (!limit_parse(*text, &list[c->limit_count], error))
			return ctl_usage(ctl, "--fail-if '%s': %s", *text, error);
		list[c->limit_count++].text = *text;
	}
	return CTL_DONE;
}

void compare_options_fini(struct compare *c)
{
	free(c->limit_list);
	points_fini(&c->points);
}

static int check_points(struct ctl *ctl, struct compare *c)
{
	const char *unknown;
	int bytes;

	if (points_init(&c->points, ctl, ctl->lists[VALUE_SWEEP], ctl->values[VALUE_LABEL]))
		return CTL_USAGE;
	if (ctl->rest && (unknown = placeholders_unknown(c->points.list[0].command, &bytes)))
		return ctl_usage(
			ctl,
			"COMMAND has %.*s, and there are only {host}, {port}, {uri}, "
			"{listener}, {client}, {index} and those of --sweep NAME=VALUE,...; {%.*s} stands for "
			"the text itself",
			bytes, unknown, bytes, unknown);
	c->visits = ctl->rest && placeholders_used(ctl->rest);
	if (ctl->values[VALUE_SWEEP] && !c->visits)
		return ctl_usage(
			ctl,
			"--sweep visits listeners: COMMAND needs {port}, {host}, {uri} or {listener}");
	return CTL_DONE;
}

int compare_options(struct ctl *ctl, struct compare *c)
{
	if (check_command(ctl) || check_on(ctl) || check_points(ctl, c))
		return CTL_USAGE;
	if (ctl->values[VALUE_FORCE] && !ctl->values[VALUE_AGAINST])
		return ctl_usage(ctl, "--force is about --against");
	if (check_limits(ctl, c) || check_served(ctl, c) || check_seed(ctl, c) ||
	    check_within(ctl, c) || check_timeout(ctl, c) || check_time(ctl, c))
		return CTL_USAGE;
	return check_repeat(ctl, c);
}
