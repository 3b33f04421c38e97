/* Keys of a listener's section that belong to its service: the service describes them, and the
 * configuration parses, checks, compares and prints them as its own. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The type of the field: uint64_t, but bool for KEY_BOOL and char[] for KEY_TEXT. */
enum key_type { KEY_UINT, KEY_SIZE, KEY_DURATION, KEY_BOOL, KEY_CHOICE, KEY_TEXT };

/* Bytes of a service's options at most. */
enum { SERVICE_OPTIONS_MAX = 256 };

struct key {
	const char *name;   /* in no other table, nor in config_keys.c */
	const char *preset; /* the default as text */
	const char *help;   /* one line, no full stop */
	size_t offset, size;
	enum key_type type;
	/* Listeners with this service and the same value, other than `word`, serve as one: they
	 * have the same `exports`, and the same values of the keys that are `common`. */
	bool unites;
	bool common;
	bool power_of_two;
	bool streams;      /* only transport tcp may differ from the default */
	bool plain;        /* nor may a listener with `tls` */
	uint64_t min, max; /* of numbers; a duration is in nanoseconds */
	/* A word that is valid instead of a number, and its value; of KEY_TEXT it stands for "". */
	const char *word;
	uint64_t word_value;
	const char *const *words; /* of KEY_CHOICE, NULL-terminated; the value is the index */
	/* Of KEY_TEXT: is this valid?  The text is ASCII without white space.  `form` describes
	 * what is. */
	bool (*valid)(const char *text);
	const char *form;
};

/* The keys of a service, or of several that have the same.  The struct that they describe is in
 * worker_options.service.  A reload that changes one of them replaces the listener. */
struct key_table {
	const struct key *keys;
	unsigned count;
	size_t bytes; /* of the struct, at most SERVICE_OPTIONS_MAX */
};

/* Offset and size of a field, for struct key. */
#define KEY_FIELD(type, field) offsetof(type, field), sizeof(((type *)0)->field)
