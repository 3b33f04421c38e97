/* Shared by the files of nbbench's bridge. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "bridge.h"

/* The number of bytes up to the end of the last whole UTF-8 character: a character whose rest has
 * not come yet is left out.  Bytes that are not UTF-8 count as whole.  Pure. */
size_t bridge_whole_characters(const char *text, size_t bytes);

/* The texts of the parameter argv, NULL-terminated.  They belong to it, the array to the caller. */
char **bridge_words(const json_t *parameters);

/* A daemon that was started for one measurement. */
struct bridge_daemon {
	pid_t pid;           /* 0: none */
	char directory[160]; /* of its socket; "": none */
	char socket[192];
};

/* The reply: {}, or { "message": why it does not serve }. */
json_t *bridge_serve(struct bridge_daemon *d, const json_t *parameters);
/* Ends it, if there is one. */
void bridge_unserve(struct bridge_daemon *d);

/* Runs the command of a call of org.nbserved.Host.Run to its end, and reads `reader` meanwhile. */
bool bridge_run(struct varlink_reader *reader, const struct varlink_request *call);
