/* Varlink framing, call objects and parameter tables.  Pure: see varlink_frame.h. */
#include "varlink_frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

enum {
	ROOM_MIN = 4096,
	ROOM_KEPT = 64 * 1024, /* bytes; a larger buffer is freed when it becomes empty */
};

int varlink_reader_append(struct varlink_reader *r, const void *data, size_t bytes)
{
	if (r->start) {
		memmove(r->data, r->data + r->start, r->bytes - r->start);
		r->bytes -= r->start;
		r->scanned -= r->start;
		r->start = 0;
	}
	if (r->bytes + bytes > r->room) {
		size_t room = MAX(MAX(r->room * 2, (size_t)ROOM_MIN), r->bytes + bytes);
		char *grown = realloc(r->data, room);

		if (!grown)
			return -ENOMEM;
		r->data = grown;
		r->room = room;
	}
	if (bytes)
		memcpy(r->data + r->bytes, data, bytes);
	r->bytes += bytes;
	return 0;
}

static void reader_reset(struct varlink_reader *r)
{
	if (r->room > ROOM_KEPT)
		varlink_reader_free(r);
	r->bytes = r->start = r->scanned = 0;
}

int varlink_reader_next(struct varlink_reader *r, const char **ret_text, size_t *ret_bytes)
{
	const char *nul = NULL;
	size_t length;

	if (!varlink_reader_pending(r)) {
		reader_reset(r);
		return 0;
	}
	if (r->scanned < r->bytes)
		nul = memchr(r->data + r->scanned, '\0', r->bytes - r->scanned);
	length = (nul ? (size_t)(nul - r->data) : r->bytes) - r->start;
	if (length > (r->max ? r->max : VARLINK_MESSAGE_MAX))
		return -EMSGSIZE;
	if (!nul) {
		r->scanned = r->bytes;
		return 0;
	}
	*ret_text = r->data + r->start;
	*ret_bytes = length;
	r->start = r->scanned = r->start + length + 1;
	return 1;
}

void varlink_reader_free(struct varlink_reader *r)
{
	free(r->data);
	*r = (struct varlink_reader){ .max = r->max };
}

/* Do brackets nest deeper than VARLINK_DEPTH_MAX?  Exact for valid JSON; jansson refuses invalid
 * text before its nesting gets deeper. */
static bool too_deep(const char *text, size_t bytes)
{
	unsigned depth = 0;
	bool string = false;

	for (size_t i = 0; i < bytes; i++) {
		char byte = text[i];

		if (string && byte == '\\')
			i++;
		else if (byte == '"')
			string = !string;
		else if (!string && (byte == '{' || byte == '[')) {
			if (++depth > VARLINK_DEPTH_MAX)
				return true;
		} else if (!string && (byte == '}' || byte == ']') && depth)
			depth--;
	}
	return false;
}

/* A field that is null is as one that is absent.  Upgrades are refused. */
static int request_set(struct varlink_request *request, const char *key, json_t *value)
{
	static const char *const known[] = { "method", "parameters", "more", "oneway", "upgrade" };

	for (unsigned i = 0; json_is_null(value) && i < ARRAY_SIZE(known); i++)
		if (strcmp(key, known[i]) == 0)
			return 0;
	if (strcmp(key, "method") == 0 && json_is_string(value))
		request->method = json_string_value(value);
	else if (strcmp(key, "parameters") == 0 && json_is_object(value))
		request->parameters = value;
	else if (strcmp(key, "more") == 0 && json_is_boolean(value))
		request->more = json_is_true(value);
	else if (strcmp(key, "oneway") == 0 && json_is_boolean(value))
		request->oneway = json_is_true(value);
	else if (strcmp(key, "upgrade") == 0 && json_is_false(value))
		return 0;
	else
		return -EBADMSG;
	return 0;
}

int varlink_request_parse(const char *text, size_t bytes, struct varlink_request *ret_request)
{
	struct varlink_request request = { 0 };
	json_error_t error;
	const char *key;
	json_t *value;

	if (too_deep(text, bytes))
		return -EBADMSG;
	request.root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
	if (!request.root)
		return json_error_code(&error) == json_error_out_of_memory ? -ENOMEM : -EBADMSG;
	if (!json_is_object(request.root))
		goto bad;
	json_object_foreach(request.root, key, value) {
		if (request_set(&request, key, value) < 0)
			goto bad;
	}
	if (!request.method || (request.more && request.oneway))
		goto bad;
	if (!request.parameters) {
		request.parameters = json_object();
		if (json_object_set_new(request.root, "parameters", request.parameters) < 0) {
			varlink_request_free(&request);
			return -ENOMEM;
		}
	}
	*ret_request = request;
	return 0;
bad:
	varlink_request_free(&request);
	return -EBADMSG;
}

void varlink_request_free(struct varlink_request *request)
{
	json_decref(request->root);
	*request = (struct varlink_request){ 0 };
}

static bool strings_valid(const struct varlink_parameter *p, const json_t *value)
{
	const json_t *item;
	size_t i;

	if (!json_is_array(value) || json_array_size(value) > (size_t)p->max)
		return false;
	json_array_foreach(value, i, item) {
		if (!json_is_string(item))
			return false;
	}
	return true;
}

static bool parameter_valid(const struct varlink_parameter *p, const json_t *value)
{
	if (!value || json_is_null(value))
		return p->optional;
	switch (p->type) {
	case VARLINK_BOOL:
		return json_is_boolean(value);
	case VARLINK_INT:
		return json_is_integer(value) && json_integer_value(value) >= p->min &&
		       json_integer_value(value) <= p->max;
	case VARLINK_STRING:
		return json_is_string(value);
	case VARLINK_STRINGS:
		return strings_valid(p, value);
	}
	return false;
}

static bool parameter_known(const struct varlink_parameter *table, const char *name)
{
	for (const struct varlink_parameter *p = table; p && p->name; p++) {
		if (strcmp(p->name, name) == 0)
			return true;
	}
	return false;
}

const char *varlink_check_parameters(const struct varlink_parameter *table, json_t *parameters)
{
	const char *name;
	json_t *value;

	for (const struct varlink_parameter *p = table; p && p->name; p++) {
		if (!parameter_valid(p, json_object_get(parameters, p->name)))
			return p->name;
	}
	json_object_foreach(parameters, name, value) {
		if (!parameter_known(table, name))
			return name;
	}
	return NULL;
}
