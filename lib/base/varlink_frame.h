/* Varlink's framing and messages, without any I/O: bytes in, validated calls out.
 *
 * Everything here is pure: no clock, no descriptor, no logging.  On errors the caller drops the
 * connection without an answer. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum {
	VARLINK_MESSAGE_MAX = 1024 * 1024, /* bytes of one message, without its NUL */
	VARLINK_DEPTH_MAX = 32,            /* depth of nested objects and arrays */
};

/* Cuts a stream at its NUL bytes.  Zeroed at the start. */
struct varlink_reader {
	char *data;
	size_t bytes, room;
	size_t start;   /* where the next message begins */
	size_t scanned; /* no NUL between start and this position */
	size_t max;     /* bytes of a message; 0: VARLINK_MESSAGE_MAX */
};

/* Appends data.  To keep the buffer small, call it only after varlink_reader_next() has returned 0.
 * 0 or -ENOMEM. */
int varlink_reader_append(struct varlink_reader *r, const void *data, size_t bytes);

/* The next whole message, without its NUL: 1, and text that is valid until the next call of any
 * function on r; 0: none is complete; -EMSGSIZE: it is longer than allowed. */
int varlink_reader_next(struct varlink_reader *r, const char **ret_text, size_t *ret_bytes);

/* True: unread messages, or the beginning of one, are left. */
static inline bool varlink_reader_pending(const struct varlink_reader *r)
{
	return r->start < r->bytes;
}

void varlink_reader_free(struct varlink_reader *r);

/* A call as the client wrote it. */
struct varlink_request {
	json_t *root;       /* owns the rest */
	const char *method; /* not checked: any string */
	json_t *parameters; /* always an object, possibly empty */
	bool more, oneway;
};

/* 0; -EBADMSG: not a Varlink call (bad JSON, a duplicate or an unknown key, a wrong type, too
 * deep, both `more` and `oneway`); -ENOMEM.  varlink_request_free() it. */
int varlink_request_parse(const char *text, size_t bytes, struct varlink_request *ret_request);
void varlink_request_free(struct varlink_request *request);

/* Parameters of a method.  One that is null counts as missing. */
enum varlink_type {
	VARLINK_BOOL,
	VARLINK_INT, /* min..max */
	VARLINK_STRING,
	VARLINK_STRINGS, /* an array of at most max strings */
};

struct varlink_parameter {
	const char *name; /* NULL ends the table */
	enum varlink_type type;
	bool optional;
	json_int_t min, max;
};

/* The name of a parameter that is missing, unknown, of the wrong type or out of range, owned by the
 * table or `parameters`; NULL: all are valid. table NULL: the method has no parameters. */
const char *varlink_check_parameters(const struct varlink_parameter *table, json_t *parameters);
