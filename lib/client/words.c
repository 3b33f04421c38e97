/* Small helpers that commands share: messages, intervals, names. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "parse.h"
#include "printable.h"
#include "suggest.h"
#include "text.h"
#include "util.h"

enum { INTERVAL_MAX_MS = 24 * 3600 * 1000 };

const char *ctl_program = "nbctl";

/* Prints a message.  Parts of it may come from a daemon or a file, so control
 * characters are replaced. */
static void warn(const char *format, va_list arguments)
{
	char *text = text_new_arguments(format, arguments);

	printable_clean(text);
	fprintf(stderr, "%s: %s\n", ctl_program, text);
	free(text);
}

void ctl_warn(const char *format, ...)
{
	va_list arguments;

	fflush(stdout);
	va_start(arguments, format);
	warn(format, arguments);
	va_end(arguments);
}

int ctl_try_help(const struct ctl *ctl)
{
	fprintf(stderr, "Try `%s %s%s--help`.\n", ctl_program,
		ctl->command ? ctl->command->name : "", ctl->command ? " " : "");
	return CTL_USAGE;
}

int ctl_usage(const struct ctl *ctl, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	warn(format, arguments);
	va_end(arguments);
	return ctl_try_help(ctl);
}

/* 0 or -EINVAL. */
static int parse_interval(const char *text, unsigned min_ms, unsigned *ret_ms)
{
	uint64_t ns;
	double seconds;
	char *end;

	if (parse_duration(text, &ns) == 0) {
		seconds = (double)ns / NS_PER_S;
	} else {
		seconds = strtod(text, &end);
		if (end == text || *end)
			return -EINVAL;
	}
	if (!(seconds * 1000 >= min_ms && seconds * 1000 <= INTERVAL_MAX_MS))
		return -EINVAL;
	*ret_ms = (unsigned)lround(seconds * 1000);
	return 0;
}

int ctl_interval(const struct ctl *ctl, const char *name, const char *text, unsigned min_ms,
		 unsigned *ret_ms)
{
	if (parse_interval(text, min_ms, ret_ms) == 0)
		return CTL_DONE;
	return ctl_usage(ctl, "--%s: expected seconds, at least %g, got '%s'", name, min_ms / 1e3,
			 text);
}

json_t *ctl_words(const struct ctl *ctl)
{
	json_t *words = ctl->word_count ? json_array() : NULL;

	for (unsigned i = 0; i < ctl->word_count; i++)
		json_array_append_new(words, json_string(ctl->words[i]));
	return words;
}

int ctl_unknown(const struct ctl *ctl, const char *what, const char *name, const char *const *names,
		unsigned count)
{
	struct suggestion s = { .text = name };

	for (unsigned i = 0; i < count; i++)
		suggest_try(&s, names[i]);
	return ctl_usage(ctl, "%s '%s'%s", what, name, suggest_hint(&s));
}
