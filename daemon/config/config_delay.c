/* The types of the keys `delay` and `stall`.  See config_keys.h. */
#include <errno.h>
#include <string.h>

#include "config_keys.h"
#include "parse.h"
#include "util.h"

#define UNUSED __attribute__((unused))

enum { WORDS_MAX = 4 };

/* By enum delay_kind: a word, and durations after it. */
static const struct {
	const char *word;
	unsigned durations;
	uint64_t max_ns;
} forms[] = {
	[DELAY_CONSTANT] = { "", 1, 10 * (uint64_t)NS_PER_S },
	[DELAY_UNIFORM] = { "uniform", 2, 10 * (uint64_t)NS_PER_S },
	[DELAY_EXPONENTIAL] = { "exponential", 1, NS_PER_S },
};

/* Splits text, of CONFIG_VALUE_MAX bytes at most, at its spaces; returns the number of words, of
 * which it stores the first WORDS_MAX. */
static unsigned split(const char *text, char copy[static CONFIG_VALUE_MAX + 1],
		      const char *words[static WORDS_MAX])
{
	unsigned count = 0;
	char *rest;

	snprintf(copy, CONFIG_VALUE_MAX + 1, "%s", text);
	for (char *word = strtok_r(copy, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest))
		if (count++ < WORDS_MAX)
			words[count - 1] = word;
	return count;
}

/* 0, -EINVAL or -ERANGE. */
static int parse_delay(const struct config_key *key, const char *text,
		       UNUSED struct config_origin at, void *section)
{
	struct delay_options *field = config_field(key, section), o = *field;
	char copy[CONFIG_VALUE_MAX + 1];
	const char *words[WORDS_MAX] = { "" };
	unsigned count = split(text, copy, words), skip;
	int rc = 0;

	for (o.kind = ARRAY_SIZE(forms) - 1; o.kind > DELAY_CONSTANT; o.kind--)
		if (!strcmp(words[0], forms[o.kind].word))
			break;
	skip = o.kind == DELAY_CONSTANT ? 0 : 1;
	if (count != skip + forms[o.kind].durations)
		return -EINVAL;
	o.ns[1] = 0;
	for (unsigned i = 0; rc == 0 && i < forms[o.kind].durations; i++) {
		rc = parse_duration(words[skip + i], &o.ns[i]);
		if (rc == 0 && o.ns[i] > forms[o.kind].max_ns)
			rc = -ERANGE;
	}
	if (rc == 0 && o.kind == DELAY_UNIFORM && o.ns[0] > o.ns[1])
		rc = -ERANGE;
	if (rc == 0)
		*field = o;
	return rc;
}

static void format_delay(const struct config_key *key, const void *section, UNUSED unsigned index,
			 char text[static CONFIG_TEXT_MAX])
{
	const struct delay_options *o = config_field(key, section);
	char number[NUMBER_TEXT_MAX];
	int n = snprintf(text, CONFIG_TEXT_MAX, "%s", forms[o->kind].word);

	for (unsigned i = 0; i < forms[o->kind].durations; i++)
		n += snprintf(text + n, CONFIG_TEXT_MAX - (size_t)n, "%s%s", n ? " " : "",
			      format_duration(o->ns[i], number));
}

static int parse_stall(const struct config_key *key, const char *text,
		       UNUSED struct config_origin at, void *section)
{
	char copy[CONFIG_VALUE_MAX + 1];
	const char *words[WORDS_MAX] = { "" };
	unsigned count = split(text, copy, words);
	uint64_t ns = 0, every_ns = 0;
	int rc = 0;

	if (strcmp(text, key->word) != 0) {
		if (count != 3 || strcmp(words[1], "every") != 0)
			return -EINVAL;
		rc = parse_duration(words[0], &ns);
		if (rc == 0)
			rc = parse_duration(words[2], &every_ns);
		if (rc == 0 && (ns == 0 || ns >= every_ns || every_ns > key->max))
			rc = -ERANGE;
	}
	if (rc < 0)
		return rc;
	*(struct stall_options *)config_field(key, section) =
		(struct stall_options){ .ns = ns, .every_ns = every_ns };
	return 0;
}

static void format_stall(const struct config_key *key, const void *section, UNUSED unsigned index,
			 char text[static CONFIG_TEXT_MAX])
{
	const struct stall_options *o = config_field(key, section);
	char length[NUMBER_TEXT_MAX], every[NUMBER_TEXT_MAX];

	if (o->ns)
		snprintf(text, CONFIG_TEXT_MAX, "%s every %s", format_duration(o->ns, length),
			 format_duration(o->every_ns, every));
	else
		snprintf(text, CONFIG_TEXT_MAX, "%s", key->word);
}

static void expect_stall(const struct config_key *key, char text[static CONFIG_TEXT_MAX])
{
	char max[NUMBER_TEXT_MAX];

	snprintf(text, CONFIG_TEXT_MAX, "`LENGTH every PERIOD`, LENGTH less than PERIOD, up to %s,",
		 format_duration(key->max, max));
}

const struct config_type config_delay = {
	.parse = parse_delay,
	.format = format_delay,
	.expects =
		"a duration up to 10s, `uniform LEAST GREATEST` of such, or `exponential MEAN` up "
		"to 1s",
};
const struct config_type config_stall = {
	.parse = parse_stall,
	.format = format_stall,
	.expect = expect_stall,
	.word = config_word,
};
