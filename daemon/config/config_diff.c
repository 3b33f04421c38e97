/* Compares two configurations.  See config_diff.h. */
#include "config_diff.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "config_keys.h"
#include "config_report.h"
#include "text.h"

__attribute__((format(printf, 6, 7))) static void add(
	struct config_diff *diff, enum config_section kind, const struct config_head *section,
	enum config_class class, struct config_origin at, const char *format, ...)
{
	char name[CONFIG_SECTION_TEXT_MAX], *what, *line, *where = config_origin_text(at);
	struct config_change *change;
	va_list args;

	va_start(args, format);
	if (vasprintf(&what, format, args) < 0)
		abort();
	va_end(args);
	line = text_new("%s: [%s]%s (%s)", where, config_section_text(kind, section, name), what,
			config_class_names[class]);
	diff->list = realloc(diff->list, (diff->count + 1) * sizeof(*diff->list));
	if (!diff->list)
		abort();
	change = &diff->list[diff->count++];
	*change = (struct config_change){ .kind = kind, .class = class };
	snprintf(change->name, sizeof(change->name), "%s", section->name);
	change->text = config_escape(line);
	free(line);
	free(where);
	free(what);
}

/* As in a file, entries of a list separated by commas; owned by the caller.  Equal texts are equal
 * values: a value is printed so that it parses back to the same. */
static char *value_text(const struct config_key *key, const void *section)
{
	unsigned lines = config_key_lines(key, section);
	char value[CONFIG_TEXT_MAX], *text;
	FILE *to = text_open(&text);

	for (unsigned i = 0; i < lines; i++) {
		key->type->format(key, section, i, value);
		fprintf(to, "%s%s", i ? ", " : "", value);
	}
	fclose(to);
	return text;
}

/* Origin of the new value; if that is the default again, of the old one. */
static struct config_origin key_origin(const struct config_key *key, const void *from,
				       const void *to)
{
	struct config_origin at = *config_key_origin(key, (void *)to);

	return at.file ? at : *config_key_origin(key, (void *)from);
}

static void compare_keys(struct config_diff *diff, enum config_section kind, const void *from,
			 const void *to)
{
	const struct config_key *key;

	for (unsigned i = 0; (key = config_key_at(i)); i++) {
		char *before, *after;

		if (key->section != kind)
			continue;
		before = value_text(key, from);
		after = value_text(key, to);
		if (strcmp(before, after) != 0)
			add(diff, kind, to, key->class, key_origin(key, from, to), " %s: %s -> %s",
			    key->name, *before ? before : "(none)", *after ? after : "(none)");
		free(before);
		free(after);
	}
}

void config_diff_make(struct config_diff *diff, const struct config *from, const struct config *to)
{
	*diff = (struct config_diff){ 0 };
	for (unsigned kind = CONFIG_SERVER; kind < CONFIG_SECTION_COUNT; kind++) {
		const struct config_head *section, *other;

		for (unsigned i = 0; (section = config_section_at(to, kind, i)); i++) {
			other = config_section_find(from, kind, section->name);
			if (other)
				compare_keys(diff, kind, other, section);
			else
				add(diff, kind, section, config_kinds[kind].class, section->section,
				    ": added");
		}
		for (unsigned i = 0; (section = config_section_at(from, kind, i)); i++)
			if (!config_section_find(to, kind, section->name))
				add(diff, kind, section, config_kinds[kind].class, section->section,
				    ": removed");
	}
}

void config_diff_free(struct config_diff *diff)
{
	for (unsigned i = 0; i < diff->count; i++)
		free(diff->list[i].text);
	free(diff->list);
	*diff = (struct config_diff){ 0 };
}

bool config_diff_has(const struct config_diff *diff, enum config_section kind, const char *name,
		     enum config_class class)
{
	for (unsigned i = 0; i < diff->count; i++) {
		const struct config_change *change = &diff->list[i];

		if (change->kind == kind && change->class == class &&
		    (!name || !strcmp(change->name, name)))
			return true;
	}
	return false;
}
