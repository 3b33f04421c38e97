/* See far_output.h. */
#include "far_output.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES_MAX = 64 * 1024 };

/* Prints the line; if it overwrites itself with carriage returns, as a display of progress does,
 * the last part. */
static void put_line(const char *host, struct kept *line, FILE *to)
{
	char *text = kept_take(line), *over;
	size_t bytes = strlen(text);

	if (bytes && text[bytes - 1] == '\r')
		text[bytes - 1] = '\0';
	over = strrchr(text, '\r');
	fprintf(to, "%s: %s\n", host, over ? over + 1 : text);
	free(text);
}

/* Prints the lines that are whole now. */
static void put(const char *host, struct kept *line, const char *text, FILE *to)
{
	while (*text) {
		size_t bytes = strcspn(text, "\n");
		bool whole = text[bytes] == '\n';

		kept_add(line, text, bytes);
		if (whole || line->bytes > LINE_BYTES_MAX)
			put_line(host, line, to);
		text += bytes + whole;
	}
}

static void put_rest(const char *host, struct kept *line, FILE *to)
{
	if (line->bytes)
		put_line(host, line, to);
}

void far_output_add(struct far_output *o, bool errors, const char *text)
{
	FILE *to = errors ? stderr : stdout;

	kept_add(&o->kept[errors], text, strlen(text));
	if (!o->show || !*text)
		return;
	if (o->host)
		put(o->host, &o->line[errors], text, to);
	else
		fputs(text, to);
	fflush(to);
}

void far_output_end(struct far_output *o)
{
	put_rest(o->host, &o->line[false], stdout);
	put_rest(o->host, &o->line[true], stderr);
}

const char *far_output_text(const struct far_output *o)
{
	return o->kept[false].text ? o->kept[false].text : "";
}

void far_output_print(const struct far_output *o, bool errors, FILE *to)
{
	const char *text = o->kept[errors].text;
	struct kept line = { 0 };

	if (!text)
		return;
	if (o->host) {
		put(o->host, &line, text, to);
		put_rest(o->host, &line, to);
	} else {
		fputs(text, to);
	}
	free(line.text);
}

void far_output_free(struct far_output *o)
{
	for (unsigned i = 0; i < 2; i++) {
		free(o->kept[i].text);
		free(o->line[i].text);
	}
}
