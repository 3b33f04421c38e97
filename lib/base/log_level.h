/* The names of log levels, as the configuration and `nbctl log-level` have them. */
#pragma once

/* Converts between LOG_ERR .. LOG_DEBUG of syslog.h and "error", "warning", "info", "debug".  NULL
 * or -EINVAL for anything else. */
const char *log_level_name(int level);
int log_level_parse(const char *name);
