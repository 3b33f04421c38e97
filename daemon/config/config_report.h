/* Collecting what is wrong with a configuration, sorted by where.  Private to config/config*.c. */
#pragma once
#include "config.h"

struct config_report {
	struct config *config; /* being read */
	struct config_errors *errors;
	struct config_origin where[CONFIG_ERRORS_MAX]; /* of errors->text */
};

/* Adds `file:line: [section] key: ...`; line 0, section NULL and key NULL are left out. */
void config_report(struct config_report *r, struct config_origin at, const char *section,
		   const char *key, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* `listener NAME`; returns text. */
enum { CONFIG_SECTION_TEXT_MAX = CONFIG_NAME_MAX + 16 };
char *config_section_text(enum config_section kind, const void *section,
			  char text[static CONFIG_SECTION_TEXT_MAX]);

/* A copy with what is not printable ASCII as \xNN, so that no name or value can forge lines of a
 * message, a dump or JSON.  Owned by the caller. */
char *config_escape(const char *text);

/* Validates what concerns more than one key, and settles what only the whole file can tell. */
void config_check(struct config_report *r);
