/* See version.h. */
#include "version.h"

#include <err.h>
#include <string.h>

#include "child.h"
#include "generator.h"
#include "printable.h"

/* A row without it is of another setup: longer than a busy host takes, shorter than a call. */
enum { VERSION_MS = 10 * 1000 };

char *version_of(char *const *argv)
{
	const char *program, *option = generator_version(argv, &program);
	const char *const words[] = { program, option, NULL };
	struct child child;
	char *text;

	if (!option)
		return NULL;
	child_run((char *const *)words, CHILD_HIDE, true, VERSION_MS, NULL, &child);
	if (child.timed_out)
		warnx("%s told no version in %d s: its rows are of a setup without one", program,
		      VERSION_MS / 1000);
	child.output[strcspn(child.output, "\n")] = '\0';
	printable_clean(child.output);
	text = *child.output && !child.timed_out ? strdup(child.output) : NULL;
	child_free(&child);
	return text;
}
