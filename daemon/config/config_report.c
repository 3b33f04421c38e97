/* Collects the errors of a configuration.  See config_report.h. */
#include "config_report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "config_keys.h"

enum { REPORT_TEXT_MAX = 4096 + 1024 }; /* a path and a message */

char *config_escape(const char *text)
{
	char *escaped = malloc(4 * strlen(text) + 1), *to = escaped;

	if (!escaped)
		abort();
	for (; *text; text++)
		if (*text >= ' ' && *text <= '~')
			*to++ = *text;
		else
			to += sprintf(to, "\\x%02x", (unsigned char)*text);
	*to = '\0';
	return escaped;
}

char *config_section_text(enum config_section kind, const void *section,
			  char text[static CONFIG_SECTION_TEXT_MAX])
{
	const struct config_head *head = section;

	snprintf(text, CONFIG_SECTION_TEXT_MAX, "%s%s%s", config_kinds[kind].name,
		 head->name[0] ? " " : "", head->name);
	return text;
}

static unsigned file_index(const struct config *config, const char *file)
{
	unsigned i = 0;

	while (i < config->file_count && config->files[i] != file)
		i++;
	return i;
}

static bool is_before(const struct config *config, struct config_origin a, struct config_origin b)
{
	if (a.file == b.file)
		return a.line < b.line;
	return file_index(config, a.file) < file_index(config, b.file);
}

/* Takes ownership of text.  Errors of the same line stay in the order in which they were found. */
static void insert(struct config_report *r, struct config_origin at, char *text)
{
	struct config_errors *errors = r->errors;
	unsigned i = errors->count++;

	if (i >= CONFIG_ERRORS_MAX) {
		free(text);
		return;
	}
	for (; i > 0 && is_before(r->config, at, r->where[i - 1]); i--) {
		errors->text[i] = errors->text[i - 1];
		r->where[i] = r->where[i - 1];
	}
	errors->text[i] = text;
	r->where[i] = at;
}

void config_report(struct config_report *r, struct config_origin at, const char *section,
		   const char *key, const char *format, ...)
{
	char text[REPORT_TEXT_MAX];
	int length = snprintf(text, 4096, "%s:", at.file);
	va_list args;

	length = length < 4096 ? length : 4095;
	if (at.line)
		length += sprintf(text + length, "%u:", at.line);
	if (section)
		length += sprintf(text + length, " [%.*s]%s", CONFIG_SECTION_TEXT_MAX, section,
				  key ? "" : ":");
	if (key)
		length += sprintf(text + length, " %.64s:", key);
	text[length++] = ' ';
	va_start(args, format);
	vsnprintf(text + length, sizeof(text) - (size_t)length, format, args);
	va_end(args);
	insert(r, at, config_escape(text));
}

void config_errors_free(struct config_errors *errors)
{
	for (unsigned i = 0; i < errors->count && i < CONFIG_ERRORS_MAX; i++)
		free(errors->text[i]);
	*errors = (struct config_errors){ 0 };
}
