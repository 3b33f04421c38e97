/* What the CPU's packages have used, by the kernel's tree of power capping (RAPL; AMD has the same
 * tree).  A package is all of its cores, whoever runs there. */
#pragma once
#include <jansson.h>

#define ENERGY_TREE "/sys/class/powercap"

/* A reading: {"ns", "packages": {"package-0": {"uj", "range_uj"}}}, a new reference.  NULL, and
 * errno: ENOENT if this host does not count, EACCES if that may not be read, which only root may
 * since CVE-2020-8694. */
json_t *energy_read(const char *tree);
