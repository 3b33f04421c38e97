/* Fields of the daemon's documents by dotted path, with defaults: an older daemon lacks some, a
 * newer one has more, and neither may crash nbctl.  Every function accepts NULL. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Borrowed; NULL when missing. */
json_t *field_get(const json_t *object, const char *path);

/* 0 when missing, negative or no number. */
uint64_t field_uint(const json_t *object, const char *path);

/* "" when missing or no text. */
const char *field_text(const json_t *object, const char *path);

bool field_bool(const json_t *object, const char *path);

/* Is `name` an element of the array at path? */
bool field_has(const json_t *object, const char *path, const char *name);

/* The sum of the numbers in the object at path (system calls, refusals by reason). */
uint64_t field_sum(const json_t *object, const char *path);

/* The element of the array at path whose "name" is `name`; borrowed, NULL when there is none. */
json_t *field_named(const json_t *object, const char *path, const char *name);

/* Formats a listener's engine with the features that are switched off, ` -NAME` for each, from the
 * elements of `features` that begin with `-`. */
void field_engine(const char *engine, const json_t *features, char *text, size_t bytes);

/* Appends a value, of which it takes ownership, unless the array has an equal one or it is NULL. */
void field_add_once(json_t *array, json_t *value);

/* A number as JSON, a new reference.  NaN or infinite: null, as 0 would look like a measurement. */
json_t *field_real(double value);

/* Words (NULL: none; NULL-terminated) as an array of texts, a new reference; JSON has only UTF-8.
 */
json_t *field_words(char *const *words);

/* Any value as a user would write it: yes/no, numbers, text, lists with ", ".  The caller frees it.
 */
char *field_show(const json_t *value);

/* The names of an object's members, "a or b"; without those of `except`, NULL: all; "": none. */
char *field_show_names(json_t *object, const json_t *except, const char *separator);

/* The words of a command, quoted for a shell.  The caller frees it. */
char *field_show_words(const json_t *words);
