/* Small helpers that commands share: messages, intervals, names. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "parse.h"
#include "suggest.h"
#include "util.h"

enum { INTERVAL_MAX_MS = 24 * 3600 * 1000 };

void ctl_warn(const char *format, ...)
{
	va_list arguments;

	fflush(stdout);
	fputs("nbctl: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	putc('\n', stderr);
}

int ctl_try_help(const struct ctl *ctl)
{
	fprintf(stderr, "Try `nbctl %s%s--help`.\n", ctl->command ? ctl->command->name : "",
		ctl->command ? " " : "");
	return CTL_USAGE;
}

int ctl_usage(const struct ctl *ctl, const char *format, ...)
{
	va_list arguments;

	fputs("nbctl: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	putc('\n', stderr);
	return ctl_try_help(ctl);
}

int ctl_parse_interval(const char *text, unsigned *ret_ms)
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
	if (!(seconds >= 0.001 && seconds * 1000 <= INTERVAL_MAX_MS))
		return -EINVAL;
	*ret_ms = (unsigned)lround(seconds * 1000);
	return 0;
}

json_t *ctl_words(const struct ctl *ctl)
{
	json_t *words = ctl->word_count ? json_array() : NULL;

	for (unsigned i = 0; i < ctl->word_count; i++)
		json_array_append_new(words, json_string(ctl->words[i]));
	return words;
}

const char *ctl_suggest(const char *text, const char *const *names, unsigned count)
{
	struct suggestion s = { .text = text };

	for (unsigned i = 0; *text && i < count; i++) {
		if (!strncmp(text, names[i], strlen(text)))
			return names[i];
		suggest_try(&s, names[i]);
	}
	return s.best;
}
