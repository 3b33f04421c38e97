/* The key table: what there is to configure, and how each type of value reads and prints.  Private
 * to config/config*.c.  Main thread only; constant.
 *
 * To add a key: its field in config.h and its entry in config_keys.c. */
#pragma once
#include "config.h"

enum {
	CONFIG_VALUE_MAX = 180, /* bytes of a value or of an entry of a list */
	CONFIG_TEXT_MAX = 256,  /* of a value that is printed, or of what was expected */
};

struct config_key;

/* How values read and print. `section` is the struct that holds the field, a server_config,
 * listener_config or export_config. */
struct config_type {
	/* 0, or -EINVAL, -ERANGE: not what was expected; lists append and also return -E2BIG, or
	 * -EEXIST: `any` goes with nothing else.  The field is untouched on failure. */
	int (*parse)(const struct config_key *key, const char *text, struct config_origin at,
		     void *section);
	/* Writes what parse() reads back to the same; index: of a list's entries, else 0. */
	void (*format)(const struct config_key *key, const void *section, unsigned index,
		       char text[static CONFIG_TEXT_MAX]);
	/* Describes the valid values besides words, `a number from 1 to 64`; NULL: there are only
	 * words. */
	void (*expect)(const struct config_key *key, char text[static CONFIG_TEXT_MAX]);
	/* Writes a reason why value was refused, as config_key_hint() does, or nothing; may be
	 * NULL. */
	void (*hint)(const char *value, char text[static CONFIG_TEXT_MAX]);
	/* The valid words, by index, and what the field has instead; NULL behind the last. */
	const char *(*word)(const struct config_key *key, unsigned index, uint64_t *ret_value);
	/* Lists only: the number of entries, for writing. */
	unsigned *(*count)(void *section);
	/* Lists only: where an entry came from; NULL: it is not kept. */
	struct config_origin (*origin)(const void *section, unsigned index);
	bool of_cpus; /* depends on the CPUs of this host */
};

extern const struct config_type config_uint, config_size, config_duration, config_bool,
	config_choice, config_log_level, config_transport, config_engine, config_service,
	config_store, config_path, config_name, config_nqn, config_cpu, config_cpus,
	config_addresses, config_networks, config_exports, config_features;

struct config_key {
	enum config_section section;
	enum config_class class;
	const char *name;
	const struct config_type *type;
	size_t offset, size; /* of the field */
	const char *preset;  /* the default as text; NULL: must be given */
	const char *help;    /* one line, no full stop */
	uint64_t min, max;
	bool power_of_two;
	const char *word; /* instead of a number, and what it means */
	uint64_t word_value;
	const char *const *words; /* of config_choice */
	const char *engine;       /* the only one that can do other than the default */
	const char *service;      /* likewise */
	bool streams;             /* only transports of bytes can */
	bool of_files;            /* of an export: so can only those that are files */
	bool of_regions;          /* of a listener: for services that lend clients memory */
	bool of_exports;          /* of a listener: so can only services that serve exports */
};

extern const char *const config_qp_types[];
extern const struct config_key config_keys[];
extern const unsigned config_key_count;
extern const char *const config_class_names[]; /* by enum config_class */

/* A kind of section. */
struct config_kind {
	const char *name;    /* `listener` */
	const char *heading; /* `[listener NAME]` */
	const char *plural;  /* NULL: there is one, without a name */
	size_t size;         /* of its struct */
	unsigned max;        /* so many; room for them is in the array from the start */
	/* In struct config: the array (without a plural the struct itself), and their number. */
	size_t array, count;
};
extern const struct config_kind config_kinds[CONFIG_SECTION_COUNT];

/* Section `index` of that kind, a struct config_head and what follows it; NULL behind the last. */
void *config_section_at(const struct config *config, enum config_section kind, unsigned index);

const struct config_key *config_key_find(enum config_section section, const char *name);

/* The origin of key's value in `section`. */
struct config_origin *config_key_origin(const struct config_key *key, void *section);

/* `a number from 1 to 64 or auto`. */
void config_key_expect(const struct config_key *key, char text[static CONFIG_TEXT_MAX]);

/* ` (did you mean 'yes'?)` or another reason why value was refused; may be "". */
void config_key_hint(const struct config_key *key, const char *value,
		     char text[static CONFIG_TEXT_MAX]);

/* How many lines of text format() can write; 1 if key is no list, or an empty one with a word for
 * that. */
unsigned config_key_lines(const struct config_key *key, const void *section);

/* Reports the features that l's key `features` takes away and its engine does not have. */
struct config_report;
void config_check_features(struct config_report *r, const struct listener_config *l);

/* How many CPUs this host may have: valid are 0 to one less. */
unsigned config_host_cpus(void);

/* A name of a section or group: [A-Za-z0-9_.-]+, shorter than CONFIG_NAME_MAX. */
bool config_name_valid(const char *text);
