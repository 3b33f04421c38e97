/* The list of all keys, and how each type of value is parsed and printed.  Private to
 * config/config*.c.  Main thread only.
 *
 * To add a key: its field in config.h and its entry in config_keys.c; of a service
 * or an engine, see keys.h. */
#pragma once
#include "config.h"

enum {
	CONFIG_VALUE_MAX = 180, /* bytes of a value or of an entry of a list */
	CONFIG_TEXT_MAX = 384,  /* bytes of a printed value, or of a description of valid values */
};

struct config_key;

/* A type of lists: an array of listener_config, offsets within which say where. */
struct config_list {
	int (*read)(const char *text, void *entry); /* 0, -EINVAL or -ERANGE */
	/* Writes text that read() reads back to the same. */
	void (*write)(const void *entry, char text[static CONFIG_TEXT_MAX]);
	const char
		/* for a list with a word, its default: a description of the other
		 * entries; NULL: it has no word */
		*others;
	size_t count;         /* offset of the number of entries */
	size_t offset, bytes; /* of the first entry; of one entry */
	unsigned max;         /* entries that there is room for */
	/* Offset and distance of the entries' origins; 0: origins are not kept. */
	size_t origins, origin_bytes;
};

/* A type of values: how they are parsed and printed.  `section` is the struct that holds the field,
 * a server_config, listener_config or export_config. */
struct config_type {
	/* Parses text into the field; lists append.  0; -EINVAL, -ERANGE: invalid; lists also
	 * -E2BIG, and -EEXIST: the word cannot be combined.  The field is untouched on failure. */
	int (*parse)(const struct config_key *key, const char *text, struct config_origin at,
		     void *section);
	/* Writes text that parse() reads back to the same value; index: entry of a list, else 0. */
	void (*format)(const struct config_key *key, const void *section, unsigned index,
		       char text[static CONFIG_TEXT_MAX]);
	/* Describes the valid values other than words, `a number from 1 to 64`. */
	void (*expect)(const struct config_key *key, char text[static CONFIG_TEXT_MAX]);
	const char *expects; /* the same for all keys; both NULL: only words are valid */
	/* Writes why value was refused, or nothing: the nearest word is suggested.  May be NULL. */
	void (*hint)(const char *value, char text[static CONFIG_TEXT_MAX]);
	/* The valid words by index, each with the field's value; NULL after the last. */
	const char *(*word)(const struct config_key *key, unsigned index, uint64_t *ret_value);
	const struct config_list *list; /* NULL: no list */
	bool of_cpus;                   /* valid values depend on the CPUs of this host */
	/* Numbers only: how they are read and written, and what they are called. */
	int (*read)(const char *text, uint64_t *ret_value);
	char *(*write)(uint64_t value, char text[static NUMBER_TEXT_MAX]);
	const char *noun, *units;
};

extern const struct config_type config_uint, config_size, config_duration, config_bool,
	config_choice, config_log_level, config_transport, config_engine, config_service,
	config_store, config_path, config_name, config_text, config_cpu, config_cpus,
	config_addresses, config_networks, config_exports, config_features;

struct config_key {
	KEY_HEAD; /* preset NULL: the key is mandatory */
	enum config_section section;
	enum config_class class;
	const struct config_type *type;
	/* The only engine with which the key may differ from its default: the key's owner. */
	const struct engine *engine;
	/* may differ only with services that have these keys: the key's owners */
	const struct key_table *table;
	const struct key *of; /* as the owner describes it; NULL: a key of this folder */
	bool of_files;        /* export key, for files only */
	bool of_tls;          /* listener key, with `tls` only */
	uint32_t of_services; /* listener key, for services with this flag only */
};

static inline void *config_field(const struct config_key *key, const void *section)
{
	return (char *)section + key->offset;
}

/* All keys, first those of the server's section; NULL after the last.  The address is constant. */
const struct config_key *config_key_at(unsigned index);
extern const char *const config_class_names[]; /* by enum config_class */

/* A kind of section. */
struct config_kind {
	const char *name;        /* `listener` */
	const char *heading;     /* `[listener NAME]` */
	const char *plural;      /* NULL: there is only one such section, without a name */
	enum config_class class; /* of a section that is added or removed as a whole */
	size_t size;             /* bytes of its struct */
	unsigned max;            /* maximum number; the array has room for all from the start */
	/* Offsets in struct config: of the pointer to the array (without a plural: of the struct),
	 * and of the number of sections. */
	size_t array, count;
};
extern const struct config_kind config_kinds[CONFIG_SECTION_COUNT];

/* Section `index` of that kind, a struct that begins with CONFIG_HEAD; NULL after the last. */
void *config_section_at(const struct config *config, enum config_section kind, unsigned index);

const struct config_key *config_key_find(enum config_section section, const char *name);
/* What takes the place of a key that the release before had; NULL: it had no such key. */
const char *config_key_removed(enum config_section section, const char *name);

/* Writes the services with these keys: `discard, iperf3 or netperf`. */
void config_table_owners(const struct key_table *table, char *text, size_t bytes);

/* Names the tables of options.values in a new section. */
void config_init_values(struct listener_config *l);

/* The origin of key's value in `section`. */
struct config_origin *config_key_origin(const struct config_key *key, void *section);
/* The origin of the key `name`; if it has its default, that of the section. */
struct config_origin config_key_where(enum config_section kind, const char *name, void *section);
/* `file:line`, `default`, or the command that set the value; owned by the caller. */
char *config_origin_text(struct config_origin origin);

/* Writes a description of the valid values: `a number from 1 to 64 or auto`. */
void config_key_expect(const struct config_key *key, char text[static CONFIG_TEXT_MAX]);

/* Writes ` (did you mean 'yes'?)` or another reason why value was refused, or "". */
void config_key_hint(const struct config_key *key, const char *value,
		     char text[static CONFIG_TEXT_MAX]);

/* The number of entries of a list; NULL: key is none. */
static inline unsigned *config_key_count(const struct config_key *key, void *section)
{
	return key->type->list ? (void *)((char *)section + key->type->list->count) : NULL;
}
/* The origin of an entry; of the whole value where those of entries are not kept. */
struct config_origin *config_entry_origin(const struct config_key *key, void *section,
					  unsigned index);
/* Number of entries that format() can write; 1 if key is no list, or an empty list with a word. */
unsigned config_key_lines(const struct config_key *key, const void *section);

/* Number of possible CPUs of this host; valid CPU numbers are 0 to one less. */
unsigned config_host_cpus(void);

/* A name of a section or group: [A-Za-z0-9_.-]+, shorter than CONFIG_NAME_MAX. */
bool config_name_valid(const char *text);
