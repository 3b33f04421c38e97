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
