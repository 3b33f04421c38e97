/* See log_level.h. */
#include "log_level.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <syslog.h>

#include "util.h"

static const struct {
	int level;
	const char *name;
} log_levels[] = {
	{ LOG_ERR, "error" },
	{ LOG_WARNING, "warning" },
	{ LOG_INFO, "info" },
	{ LOG_DEBUG, "debug" },
};

const char *log_level_name(int level)
{
	for (size_t i = 0; i < ARRAY_SIZE(log_levels); i++)
		if (log_levels[i].level == level)
			return log_levels[i].name;
	return NULL;
}

int log_level_parse(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(log_levels); i++)
		if (!strcmp(log_levels[i].name, name))
			return log_levels[i].level;
	return -EINVAL;
}
