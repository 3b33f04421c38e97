/* Writes the configuration: as INI that parses back to the same, as JSON, and the keys for the
 * man page.  Main thread only. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "config_keys.h"
#include "config_report.h"
#include "ini.h"
#include "text.h"
#include "util.h"

enum { DUMP_COLUMN = 44 }; /* column where comments start */

char *config_origin_text(struct config_origin origin)
{
	return !origin.line ? text_new("%s", origin.file ? origin.file : "default")
			    : text_new("%s:%u", origin.file, origin.line);
}

/* ---- INI ---- */

/* Writes a line with its comment, which goes before the line if both would exceed INI_LINE_MAX. */
static void dump_line(FILE *to, const char *line, struct config_origin origin, const char *class)
{
	char *comment = config_origin_text(origin);

	if (MAX(strlen(line), (size_t)DUMP_COLUMN) + strlen(comment) + strlen(class) + 5 <=
	    INI_LINE_MAX)
		fprintf(to, "%-*s ; %s%s%s\n", DUMP_COLUMN, line, comment, *class ? ", " : "",
			class);
	else
		fprintf(to, "; %s%s%s\n%s\n", comment, *class ? ", " : "", class, line);
	free(comment);
}

static void dump_section(FILE *to, enum config_section kind, const void *section)
{
	char value[CONFIG_TEXT_MAX], line[CONFIG_TEXT_MAX + CONFIG_NAME_MAX];
	const struct config_key *key;

	for (unsigned i = 0; (key = config_key_at(i)); i++) {

		for (unsigned j = 0; key->section == kind && j < config_key_lines(key, section);
		     j++) {
			key->type->format(key, section, j, value);
			snprintf(line, sizeof(line), "%s = %s", key->name, value);
			dump_line(to, line, *config_entry_origin(key, (void *)section, j),
				  config_class_names[key->class]);
		}
	}
}

void config_dump(const struct config *config, FILE *to)
{
	char name[CONFIG_SECTION_TEXT_MAX], header[CONFIG_SECTION_TEXT_MAX + 2];

	const struct config_head *section;

	fputs("[server]\n", to);
	dump_section(to, CONFIG_SERVER, &config->server);
	for (unsigned kind = CONFIG_SERVER + 1; kind < CONFIG_SECTION_COUNT; kind++)
		for (unsigned i = 0; (section = config_section_at(config, kind, i)); i++) {
			snprintf(header, sizeof(header), "[%s]",
				 config_section_text(kind, section, name));
			fputc('\n', to);
			dump_line(to, header, section->section, "");
			dump_section(to, kind, section);
		}
}

/* ---- JSON ---- */

static json_t *value_to_json(const struct config_key *key, const void *section)
{
	json_t *list = key->type->list ? json_array() : NULL;
	char text[CONFIG_TEXT_MAX];

	for (unsigned i = 0; i < config_key_lines(key, section); i++) {
		key->type->format(key, section, i, text);
		if (!list)
			return json_string(text);
		json_array_append_new(list, json_string(text));
	}
	return list;
}

static json_t *section_to_json(enum config_section kind, const void *section)
{
	json_t *keys = json_object();
	const struct config_key *key;

	for (unsigned i = 0; (key = config_key_at(i)); i++) {
		char *origin;

		if (key->section != kind)
			continue;
		origin = config_origin_text(*config_key_origin(key, (void *)section));
		json_object_set_new(keys, key->name,
				    json_pack("{s:o, s:s, s:s}", "value",
					      value_to_json(key, section), "origin", origin,
					      "class", config_class_names[key->class]));
		free(origin);
	}
	return keys;
}

json_t *config_to_json(const struct config *config)
{
	json_t *json =
		json_pack("{s:o}", "server", section_to_json(CONFIG_SERVER, &config->server));

	for (unsigned kind = CONFIG_SERVER + 1; kind < CONFIG_SECTION_COUNT; kind++) {
		const struct config_head *section;
		json_t *list = json_array();

		for (unsigned i = 0; (section = config_section_at(config, kind, i)); i++)
			json_array_append_new(list,
					      json_pack("{s:s, s:o}", "name", section->name, "keys",
							section_to_json(kind, section)));
		json_object_set_new(json, config_kinds[kind].plural, list);
	}
	return json;
}

/* ---- The man page ---- */

/* Escapes text for roff.  `-` would be a hyphen; text to copy needs a minus. */
static void roff(FILE *to, const char *text)
{
	for (; *text; text++)
		if (*text == '-')
			fputs("\\-", to);
		else if (*text == '\\')
			fputs("\\e", to);
		else if (*text == '\'')
			fputs("\\(aq", to);
		else
			fputc(*text, to);
}

/* A tagged paragraph of mdoc. */
static void dump_key(FILE *to, const struct config_key *key)
{
	char expected[CONFIG_TEXT_MAX];

	config_key_expect(key, expected);
	fputs(".It Cm ", to);
	roff(to, key->name);
	fprintf(to, " Pq %s\n\\&", config_class_names[key->class]);
	roff(to, key->help);
	fputs("\n.br\n\\&", to);
	roff(to, expected);
	fputs(key->preset ? "; default: \\fB" : "; must be given\\fB", to);
	roff(to, key->preset ? key->preset : "");
	fputs("\\fR\n", to);
}

void config_dump_keys(FILE *to)
{
	const struct config_key *key;

	for (unsigned kind = CONFIG_SERVER; kind < CONFIG_SECTION_COUNT; kind++) {
		fprintf(to, ".Ss %s\n.Bl -tag -width Ds\n", config_kinds[kind].heading);
		for (unsigned i = 0; (key = config_key_at(i)); i++)
			if (key->section == kind)
				dump_key(to, key);
		fputs(".El\n", to);
	}
}
