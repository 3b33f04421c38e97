/* org.nbserved.Control in Varlink's interface definition language: what `varlinkctl introspect`
 * shows.  The system tests hold every reply against it, and it against the rules of libvarlink and
 * of systemd: no two members share a name, and an anonymous struct has no field of a named type.
 *
 * It is the file org.nbserved.Control.varlink, and behind that the types of statistics, which are
 * generated from the schema, base/statistics.h. */
#include <stdio.h>

#include "control.h"
#include "statistics.h"
#include "util.h"

/* All but these types: the text of org.nbserved.Control.varlink. */
extern const char control_interface[];
__asm__(".pushsection .rodata\n"
	".globl control_interface\n"
	"control_interface:\n"
	".incbin \"daemon/control/org.nbserved.Control.varlink\"\n"
	".byte 0\n"
	".popsection");

/* ---- The types of the schema ---- */

static bool is_object(const struct statistic *row)
{
	return row->type == STATISTIC_OBJECT || row->type == STATISTIC_OPTIONAL;
}

/* Does the field have a named type? */
static bool is_named(const struct statistic *row)
{
	return is_object(row) && row->varlink && *row->varlink != '[';
}

/* Writes the comments of the fields before the type: not all parsers accept them inside. */
static void put_comments(FILE *to, const char *outer, const struct statistic *row)
{
	for (; row->type != STATISTIC_END; row = statistic_next(row)) {
		char inner[64];

		if (is_named(row))
			continue;
		if (row->help && row->type != STATISTIC_INFO)
			fprintf(to, "# %s%s: %s\n", outer, row->name, row->help);
		if (is_object(row)) {
			snprintf(inner, sizeof(inner), "%s%s.", outer, row->name);
			put_comments(to, inner, row + 1);
		}
	}
}

static void put_fields(FILE *to, const char **separator, const struct statistic *row)
{
	for (; row->type != STATISTIC_END; row = statistic_next(row)) {
		const char *nested = "(";

		fprintf(to, "%s%s: ", *separator, row->name);
		*separator = strchr(*separator, '\n') ? ",\n  " : ", ";
		if (row->varlink || !is_object(row)) {
			fputs(row->varlink ? row->varlink : "int", to);
			continue;
		}
		put_fields(to, &nested, row + 1);
		putc(')', to);
	}
}

/* Writes a type with the fields of all tables, and before it the named types of their objects. */
static void put_type(FILE *to, const char *name, const char *about,
		     const struct statistic *const tables[])
{
	const char *separator = "(\n  ";

	if (about)
		fprintf(to, "# %s\n", about);
	for (unsigned i = 0; tables[i]; i++)
		put_comments(to, "", tables[i]);
	fprintf(to, "type %s ", name);
	for (unsigned i = 0; tables[i]; i++)
		put_fields(to, &separator, tables[i]);
	fputs("\n)\n\n", to);
	for (unsigned i = 0; tables[i]; i++) {
		for (const struct statistic *row = tables[i]; row->type != STATISTIC_END;
		     row = statistic_next(row)) {
			const struct statistic *const fields[] = { row + 1, NULL };

			if (is_named(row))
				put_type(to, row->varlink + (*row->varlink == '?'), row->help,
					 fields);
		}
	}
}

static const struct {
	const char *name, *about;
	const struct statistic *tables[4];
} types[] = {
	{ "Listener", NULL, { listener_about, listener_status } },
	{ "ListenerStats", NULL, { listener_about, listener_statistics } },
	{ "Operation", NULL, { operation_statistics } },
	{ "Latency", "Nanoseconds, of sampled operations.", { latency_statistics } },
	{ "Export", NULL, { export_about } },
	{ "ExportStats",
	  "The sums of its listeners, and each of them.",
	  { export_about, share_statistics, export_listeners } },
	{ "ExportListener",
	  "What one listener asked of an export.  Latency is that of the store alone.",
	  { share_about, share_statistics } },
};

char *control_describe(void)
{
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	if (!to)
		return NULL;
	fputs(control_interface, to);
	for (unsigned i = 0; i < ARRAY_SIZE(types); i++)
		put_type(to, types[i].name, types[i].about, types[i].tables);
	return fclose(to) == 0 ? text : NULL;
}
