/* See energy.h. */
#include "energy.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "util.h"

/* The whole number in the file.  0, or -errno. */
static int read_number(const char *zone, const char *file, json_int_t *ret)
{
	char path[PATH_MAX], text[32], *end;
	json_int_t number;

	snprintf(path, sizeof(path), "%s/%s", zone, file);
	errno = 0;
	if (!text_file_line(path, text, sizeof(text)))
		return errno ? -errno : -ENODATA;
	number = strtoll(text, &end, 10);
	if (end == text || *end || number < 0)
		return -ENODATA;
	*ret = number;
	return 0;
}

/* Adds the zone if it is a package: others are parts of one (`core`, `dram`), or hold it (`psys`).
 * 0, or -errno. */
static int add_zone(json_t *packages, const char *zone)
{
	char path[PATH_MAX], name[64];
	json_int_t energy = 0, range = 0;
	int rc;

	snprintf(path, sizeof(path), "%s/name", zone);
	if (!text_file_line(path, name, sizeof(name)) || strncmp(name, "package-", 8) != 0)
		return 0;
	rc = read_number(zone, "energy_uj", &energy);
	if (rc == 0)
		rc = read_number(zone, "max_energy_range_uj", &range);
	if (rc == 0)
		json_object_set_new(packages, name,
				    json_pack("{s:I, s:I}", "uj", energy, "range_uj", range));
	return rc;
}

json_t *energy_read(const char *tree)
{
	json_t *packages = json_object();
	uint64_t now_ns = clock_ns();
	char pattern[PATH_MAX];
	glob_t found;
	int rc = 0;

	snprintf(pattern, sizeof(pattern), "%s/intel-rapl:*", tree);
	if (glob(pattern, 0, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc && rc == 0; i++)
			rc = add_zone(packages, found.gl_pathv[i]);
		globfree(&found);
	}
	if (rc == 0 && json_object_size(packages))
		return json_pack("{s:I, s:o}", "ns", (json_int_t)now_ns, "packages", packages);
	json_decref(packages);
	errno = rc ? -rc : ENOENT;
	return NULL;
}

static json_int_t number_of(const json_t *of, const char *name)
{
	return json_integer_value(json_object_get(of, name));
}

/* -1: not known. */
static json_int_t grown(const json_t *before, const json_t *after)
{
	json_int_t from = number_of(before, "uj"), to = number_of(after, "uj");
	json_int_t range = number_of(after, "range_uj");

	if (!before || from == to || (to < from && range < from))
		return -1;
	return to > from ? to - from : range - from + to;
}

json_t *energy_spent(const json_t *before, const json_t *after)
{
	json_t *then = json_object_get(before, "packages"),
	       *now = json_object_get(after, "packages");
	json_t *spent = json_object(), *package;
	const char *name;

	json_object_foreach(now, name, package) {
		json_int_t uj = grown(json_object_get(then, name), package);

		if (uj >= 0)
			json_object_set_new(spent, name, json_integer(uj));
	}
	if (json_object_size(spent) &&
	    json_object_size(spent) == MAX(json_object_size(now), json_object_size(then)))
		return json_pack("{s:I, s:o}", "ns",
				 number_of(after, "ns") - number_of(before, "ns"), "uj", spent);
	json_decref(spent);
	return NULL;
}
