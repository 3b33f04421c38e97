/* See link_speeds.h. */
#include "link_speeds.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "util.h"

/* Bits per second from a text such as "25G"; 0: it is not a speed. */
static uint64_t parse_bps(const char *text)
{
	static const struct {
		char letter;
		double scale;
	} units[] = { { 'K', 1e3 }, { 'M', 1e6 }, { 'G', 1e9 } };
	char *end;
	double value = strtod(text, &end), scale = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(units); i++)
		if (end > text && *end == units[i].letter && !end[1])
			scale = units[i].scale;
	return value * scale >= 1e3 && value * scale <= 1e13 ? (uint64_t)(value * scale) : 0;
}

static int parse_line(char *line, struct link_speeds *to, struct reason *reason)
{
	char *equals = strrchr(line, '=');
	uint64_t bps = parse_bps(equals ? equals + 1 : line);

	if (!bps)
		return reason_set(
			reason, -EINVAL,
			"expected bits per second such as 25G or 100M, of one host c1=25G, "
			"got '%.64s'",
			line);
	if (!equals) {
		to->all_bps = bps;
		return 0;
	}
	if (to->count == LINK_SPEEDS_MAX)
		return reason_set(reason, -EINVAL, "at most %d are taken", LINK_SPEEDS_MAX);
	*equals = '\0';
	to->list[to->count].bps = bps;
	return host_list_parse(line, &to->list[to->count++].hosts, reason);
}

int link_speeds_parse(const char *text, struct link_speeds *ret, struct reason *reason)
{
	char *lines = text_new("%s", text), *line, *rest = lines;
	int rc = 0;

	*ret = (struct link_speeds){ .count = 0 };
	while (rc == 0 && (line = strsep(&rest, "\n")))
		rc = parse_line(line, ret, reason);
	free(lines);
	return rc;
}

void link_speeds_free(struct link_speeds *speeds)
{
	while (speeds->count)
		host_list_free(&speeds->list[--speeds->count].hosts);
}

uint64_t link_speeds_of(const struct link_speeds *speeds, const char *host)
{
	for (unsigned i = 0; host && i < speeds->count; i++)
		if (host_list_has(&speeds->list[i].hosts, host))
			return speeds->list[i].bps;
	return speeds->all_bps;
}
