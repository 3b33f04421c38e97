/* Keys of a listener's section that belong to its service or to its engine: the owner describes
 * them, and the configuration parses, checks, compares and prints them as its own. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;
struct service;
struct worker_options;

/* The type of the field: uint64_t, but bool for KEY_BOOL and char[] for KEY_TEXT.
 * KEY_CPU: KEY_CPU_NONE for no, KEY_CPU_ANY for yes, or KEY_CPU_FIRST plus the number of a CPU. */
enum key_type { KEY_UINT, KEY_SIZE, KEY_BOOL, KEY_CHOICE, KEY_CPU, KEY_TEXT };
enum { KEY_CPU_NONE, KEY_CPU_ANY, KEY_CPU_FIRST };

enum {
	KEY_VALUES_MAX = 256, /* bytes of the struct that a table describes */
	KEY_TABLES_MAX = 12,  /* tables of all owners together */
};

/* The first members of struct key and of the configuration's struct config_key. */
#define KEY_HEAD                                                                                   \
	const char *name;    /* of no other key of the section */                                  \
	const char *preset;  /* the default as text */                                             \
	const char *help;    /* one line, no full stop */                                          \
	size_t offset, size; /* of the field */                                                    \
	uint64_t min, max;   /* of numbers */                                                      \
	bool power_of_two;                                                                         \
	bool streams; /* may differ from the default only with transport tcp */                    \
	bool plain;   /* must have its default in a listener with `tls` */                         \
	/* Must have its default where the kernel makes TLS records (`tls = ktls-tx`, `ktls`). */  \
	bool of_user;                                                                              \
	/* A word that is valid instead of a number, and its value; of a text it stands for "". */ \
	const char *word;                                                                          \
	uint64_t word_value;                                                                       \
	const char *const *words /* of a choice, NULL-terminated; the value is the index */

struct key {
	KEY_HEAD;
	enum key_type type;
	/* Services only: listeners with the same value of this key, other than `word`, serve one
	 * thing: their `exports` and the values of their `common` keys have to be the same. */
	bool unites;
	bool common;
	/* Of KEY_TEXT: is the text valid?  It is ASCII without white space.  `form` describes valid
	 * texts, for error messages. */
	bool (*valid)(const char *text);
	const char *form;
};

/* The input of check() of an engine's key table. */
struct key_check {
	const struct worker_options *options; /* the listener's; options_of() finds the struct */
	const struct engine *engine;          /* as it was chosen; NULL: auto */
	unsigned workers;                     /* 0: auto */
	uint64_t max_connections;             /* of the listener; 0: no limit */
	bool local;                           /* one of its addresses is a Unix socket */
	/* Reports an error of a key: what was expected, and what it got. */
	void (*refuse)(struct key_check *check, const char *key, const char *format, ...)
		__attribute__((format(printf, 3, 4)));
};

/* The keys of a service or an engine, or of several that have the same.  options_of() finds the
 * struct that they describe.  A reload that changes one of them replaces the listener. */
struct key_table {
	const struct key *keys;
	unsigned count;
	size_t bytes; /* of the struct, at most KEY_VALUES_MAX */
	/* Engines only: reports values that exclude each other, of a listener that may use the
	 * engine.  Main thread.  Optional. */
	void (*check)(struct key_check *check);
	/* Engines only: reports a value that an earlier listener of the same engine has, and that
	 * only one may have (af_xdp: an interface).  Main thread.  Optional. */
	void (*check_beside)(struct key_check *check, const struct worker_options *other,
			     const char *name);
};

/* The values of one table's keys, as worker_options holds them. */
struct key_values {
	const struct key_table *table; /* NULL: unused */
	_Alignas(max_align_t) unsigned char bytes[KEY_VALUES_MAX];
};

/* Offset and size of a field, for struct key. */
#define KEY_FIELD(struct_, field)                                                                  \
	.offset = offsetof(struct_, field), .size = sizeof(((struct_ *)0)->field)
/* A table of the keys in `array`, which describe a struct of that type;
 * its other members follow. */
#define KEY_TABLE(array, type, ...)                                                                \
	{                                                                                          \
		.keys = (array), .count = sizeof(array) / sizeof((array)[0]),                      \
		.bytes = sizeof(type), __VA_ARGS__                                                 \
	}
