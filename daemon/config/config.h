/* The configuration: read from INI files, validated, printed back.  Main thread only.
 *
 * One list of keys drives parsing, validation, --dump-config, "did you mean" and the table in
 * nbserved.ini(5).  It has a line for each key in config_keys.c, with a field in a struct here, and
 * the keys that services and engines describe (service->keys, engine->keys). */
#pragma once
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "export.h"
#include "network.h"
#include "parse.h"
#include "tls.h"
#include "worker.h"

enum {
	CONFIG_NAME_MAX = 64,       /* bytes of a section's name with the NUL */
	CONFIG_PATH_MAX = 108,      /* sun_path */
	CONFIG_ADDRESSES_MAX = 16,  /* `address` lines of one listener */
	CONFIG_SOCKETS_MAX = 256,   /* ports of all of these together */
	CONFIG_NETWORKS_MAX = 64,   /* entries of one `allow` */
	CONFIG_LISTENERS_MAX = 256, /* sections */
	CONFIG_EXPORTS_MAX = 256,   /* sections, and names in one `exports` */
	CONFIG_KEYS_MAX = 64,    /* of all sections together, those of services and engines too */
	CONFIG_ERRORS_MAX = 200, /* reported; the rest is counted */
	CONFIG_FILES_MAX = 256,  /* nbserved.ini and its drop-ins */
};

enum config_section { CONFIG_SERVER, CONFIG_LISTENER, CONFIG_EXPORT, CONFIG_SECTION_COUNT };
/* Effect of a reload on a key that has changed. */
enum config_class { CONFIG_LIVE, CONFIG_REPLACE, CONFIG_REOPEN, CONFIG_RESTART };

/* Where a value came from; file == NULL: the default. */
struct config_origin {
	const char *file; /* owned by struct config, or constant */
	unsigned line;    /* 0: not from a file; `file` names the origin */
	bool refused;     /* of a key: an error was reported for it, and its value may be missing */
};

/* First members of the struct of every section. */
#define CONFIG_HEAD                                                                                \
	struct config_origin origins[CONFIG_KEYS_MAX]; /* of its values, as config_key_at() */     \
	struct config_origin section, header;          /* where it began first, last */            \
	char name[CONFIG_NAME_MAX]                     /* "": [server] */
struct config_head {
	CONFIG_HEAD;
};

struct server_config {
	CONFIG_HEAD;
	char control[CONFIG_PATH_MAX];
	char control_group[CONFIG_NAME_MAX];
	int log_level; /* syslog's LOG_ERR..LOG_DEBUG */
	uint64_t drain_timeout_ns;
	enum counters_mode counters;
};

struct export_config {
	CONFIG_HEAD;
	struct export_options options;
};

/* An entry of the key `exports`. */
struct export_name {
	char name[CONFIG_NAME_MAX];
	struct config_origin origin;
	const struct export_config *config; /* the section of that name */
};

struct listener_config {
	CONFIG_HEAD;
	struct address addresses[CONFIG_ADDRESSES_MAX];
	struct config_origin address_origins[CONFIG_ADDRESSES_MAX];
	unsigned address_count;
	const struct transport *transport;
	const struct engine *engine; /* NULL: auto */
	const struct service *service;
	unsigned workers; /* 0: auto, the CPUs this process may use */
	bool optional;
	uint64_t max_connections; /* for the whole listener; 0: no limit */
	uint64_t keepalive_ns;    /* see socket_set_keepalive() */
	struct network allow[CONFIG_NETWORKS_MAX];
	unsigned allow_count;                           /* 0: everyone */
	struct export_name exports[CONFIG_EXPORTS_MAX]; /* the first is the default export */
	unsigned export_count;
	struct tls_options tls;
	const struct store *store;     /* for its exports' files; NULL: the store of each export */
	struct worker_options options; /* equal for all workers */
};

struct config {
	struct server_config server;
	struct listener_config *listeners; /* in the order of the file */
	unsigned listener_count;
	struct export_config *exports; /* in the order of the files */
	unsigned export_count;
	char *files[CONFIG_FILES_MAX]; /* names of the files read, unprintable bytes as \xNN */
	unsigned file_count;
	/* Where it was read from: the first file, or a text in memory that
	 * has the name `files[0]`. */
	char *path, *text;
	unsigned others; /* references besides the first: config_ref() */
};

/* All errors, in the order of files and lines: `file:line: [section] key: expected
 * ..., got '...'`, in ASCII. */
struct config_errors {
	char *text[CONFIG_ERRORS_MAX];
	unsigned count; /* may exceed CONFIG_ERRORS_MAX: only that many texts are kept */
};

/* Reads path and then path's directory's conf.d/ *.ini in byte order, validates every key and
 * across keys.  On success returns 0 and *ret_config, to be freed with config_free().  Otherwise
 * returns -EINVAL with at least one error. `errors` must be zeroed by the caller and is freed with
 * config_errors_free() in both cases. */
int config_load(const char *path, struct config **ret_config, struct config_errors *errors);

/* Reads the file or text of `of` again. */
int config_load_again(const struct config *of, struct config **ret_config,
		      struct config_errors *errors);

/* config_load() from memory: one file, no drop-ins (--run, tests, fuzzing). */
int config_load_text(const char *name, const char *text, size_t bytes, struct config **ret_config,
		     struct config_errors *errors);

/* Adds errors of the exports' files of a valid configuration, by stat() alone; opens
 * nothing.  May block on a file system.  `errors` must be empty. */
void config_check_paths(struct config *config, struct config_errors *errors);

/* Sets `log-level` in the configuration in force, until the next reload. */
void config_set_log_level(struct config *config, int level);

/* Why this build cannot serve the listener on any host; NULL: it can. */
const char *config_absent(const struct listener_config *l);

/* The section of that kind and name; NULL: there is none. */
struct config_head *config_section_find(const struct config *config, enum config_section kind,
					const char *name);

/* Another reference, which config_free() drops.  Main thread only. */
struct config *config_ref(struct config *config);
void config_free(struct config *config);
void config_errors_free(struct config_errors *errors);

/* The effective configuration as an INI file that parses back to the same, each key with a comment
 * that has its origin and the effect of a reload. */
void config_dump(const struct config *config, FILE *to);

/* The configuration as JSON:
 * {"server":{KEY:{"value":..,"origin":..,"class":..}},"listeners":[{"name":..,
 * "keys":{...}}],"exports":[...]}. A value is its text as in the file; for lists an array of texts.
 * A new reference. */
struct json_t *config_to_json(const struct config *config);

/* The keys as a part of the man page (nbserved --dump-keys is not a user option: the build calls
 * it). */
void config_dump_keys(FILE *to);
