/* Collects the errors of a configuration, sorted by file and line.  Private to config/config*.c. */
#pragma once
#include "config.h"

struct config_report {
	struct config *config; /* being read */
	struct config_errors *errors;
	struct config_origin where[CONFIG_ERRORS_MAX]; /* of each errors->text */
};

/* Adds `file:line: [section] key: ...`; line 0, section NULL and key NULL are left out. */
void config_report(struct config_report *r, struct config_origin at, const char *section,
		   const char *key, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* `listener NAME`; returns text. */
enum { CONFIG_SECTION_TEXT_MAX = CONFIG_NAME_MAX + 16 };
char *config_section_text(enum config_section kind, const void *section,
			  char text[static CONFIG_SECTION_TEXT_MAX]);

/* The text lives until the end of the block around the call. */
#define SECTION_TEXT(kind, section)                                                                \
	config_section_text(kind, section, (char[CONFIG_SECTION_TEXT_MAX]){ 0 })
/* Reports an error of a key of that section, or of listener l, where its value is set. */
#define REFUSE_IN(r, kind, section, key, ...)                                                      \
	config_report(r, config_key_where(kind, key, section), SECTION_TEXT(kind, section), key,   \
		      __VA_ARGS__)
#define REFUSE(r, l, key, ...) REFUSE_IN(r, CONFIG_LISTENER, l, key, __VA_ARGS__)

/* A copy, owned by the caller, with bytes other than printable ASCII as \xNN, so that no name or
 * value can forge lines of a message, a dump or JSON. */
char *config_escape(const char *text);

/* Validates conditions between keys, and sets fields that depend on the whole configuration. */
void config_check(struct config_report *r);
