/* Access to the daemon's documents that never fails.  See field.h. */
#include "field.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

/* Takes a constant document and returns what is in it as one that could be changed, since Jansson's
 * functions for reading take no constant ones.  No caller changes it. */
json_t *field_get(const json_t *object, const char *path)
{
	while (object && *path) {
		size_t bytes = strcspn(path, ".");

		object = json_object_getn(object, path, bytes);
		path += bytes;
		if (*path == '.')
			path++;
	}
	return (json_t *)object;
}

uint64_t field_uint(const json_t *object, const char *path)
{
	const json_t *value = field_get(object, path);

	if (json_is_integer(value) && json_integer_value(value) > 0)
		return (uint64_t)json_integer_value(value);
	/* Above that a conversion to 64 bits is undefined. */
	if (json_is_real(value) && json_real_value(value) > 0 && json_real_value(value) < 9e18)
		return (uint64_t)json_real_value(value);
	return 0;
}

const char *field_text(const json_t *object, const char *path)
{
	const char *text = json_string_value(field_get(object, path));

	return text ? text : "";
}

bool field_bool(const json_t *object, const char *path)
{
	return json_is_true(field_get(object, path));
}

bool field_has(const json_t *object, const char *path, const char *name)
{
	json_t *element;
	size_t i;

	json_array_foreach(field_get(object, path), i, element)
		if (!strcmp(field_text(element, ""), name))
			return true;
	return false;
}

uint64_t field_sum(const json_t *object, const char *path)
{
	json_t *values = field_get(object, path), *value;
	const char *key;
	uint64_t sum = 0;

	json_object_foreach(values, key, value)
		sum += field_uint(value, "");
	return sum;
}

json_t *field_named(const json_t *object, const char *path, const char *name)
{
	json_t *array = field_get(object, path), *element;
	size_t i;

	json_array_foreach(array, i, element)
		if (!strcmp(field_text(element, "name"), name))
			return element;
	return NULL;
}

void field_add_once(json_t *array, json_t *value)
{
	json_t *other;
	size_t i;

	json_array_foreach(array, i, other)
		if (value && json_equal(value, other)) {
			json_decref(value);
			return;
		}
	if (value)
		json_array_append_new(array, value);
}

json_t *field_real(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

json_t *field_words(char *const *words)
{
	json_t *made = json_array();

	for (; words && *words; words++) {
		json_t *word = json_string(*words);

		json_array_append_new(made, word ? word : json_string("(no UTF-8)"));
	}
	return made;
}

static void show(const json_t *value, FILE *to)
{
	json_t *element;
	size_t i;

	switch (value ? json_typeof(value) : JSON_NULL) {
	case JSON_STRING:
		fputs(json_string_value(value), to);
		break;
	case JSON_TRUE:
		fputs("yes", to);
		break;
	case JSON_FALSE:
		fputs("no", to);
		break;
	case JSON_NULL:
		break;
	case JSON_ARRAY:
		json_array_foreach(value, i, element) {
			fputs(i ? ", " : "", to);
			show(element, to);
		}
		break;
	default:
		json_dumpf(value, to, JSON_ENCODE_ANY | JSON_COMPACT);
	}
}

char *field_show(const json_t *value)
{
	char *text = NULL;
	FILE *to = text_open(&text);

	show(value, to);
	fclose(to);
	return text;
}

char *field_show_names(json_t *object, const json_t *except, const char *separator)
{
	const char *name;
	json_t *value;
	char *text = NULL;
	FILE *to = text_open(&text);

	json_object_foreach(object, name, value)
		if (!json_object_get(except, name))
			fprintf(to, "%s%s", ftell(to) ? separator : "", name);
	fclose(to);
	return text;
}

/* A word that has any other character is quoted, in which form only a quote needs care: it ends the
 * quoted text, stands by itself behind a backslash, and begins the text again. */
static void show_word(FILE *to, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "_./:=,@%+-{}";

	if (*word && word[strspn(word, plain)] == '\0') {
		fputs(word, to);
		return;
	}
	putc('\'', to);
	for (; *word; word++)
		if (*word == '\'')
			fputs("'\\''", to);
		else
			putc(*word, to);
	putc('\'', to);
}

char *field_show_words(const json_t *words)
{
	char *text = NULL;
	size_t i;
	json_t *word;
	FILE *to = text_open(&text);

	json_array_foreach(words, i, word) {
		fputs(i ? " " : "", to);
		show_word(to, field_text(word, ""));
	}
	fclose(to);
	return text;
}

void field_engine(const char *engine, const json_t *features, char *text, size_t bytes)
{
	json_t *feature;
	size_t i;

	snprintf(text, bytes, "%s", engine);
	json_array_foreach(features, i, feature)
		if (*field_text(feature, "") == '-')
			text_append(text, bytes, " %s", field_text(feature, ""));
}
