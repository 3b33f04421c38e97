/* The table of keys, and the list of them and of those that engines and services describe.  See
 * config_keys.h for what the columns mean. */
#include "config_keys.h"

#include <assert.h>
#include <string.h>

#include "registry.h"
#include "suggest.h"
#include "util.h"

const char *const config_class_names[] = { "live", "listener", "export", "restart" };

#define SERVER(name_, type_, field_, preset_, class_, help_, ...)                                  \
	{                                                                                          \
		.section = CONFIG_SERVER, .name = name_, .type = &config_##type_,                  \
		.preset = preset_, .class = CONFIG_##class_, .help = help_,                        \
		KEY_FIELD(struct server_config, field_), __VA_ARGS__                               \
	}
#define LISTENER(name_, type_, field_, preset_, class_, help_, ...)                                \
	{                                                                                          \
		.section = CONFIG_LISTENER, .name = name_, .type = &config_##type_,                \
		.preset = preset_, .class = CONFIG_##class_, .help = help_,                        \
		KEY_FIELD(struct listener_config, field_), __VA_ARGS__                             \
	}
#define EXPORT(name_, type_, field_, preset_, help_, ...)                                          \
	{                                                                                          \
		.section = CONFIG_EXPORT, .name = name_, .type = &config_##type_,                  \
		.preset = preset_, .class = CONFIG_REOPEN, .help = help_,                          \
		KEY_FIELD(struct export_config, options.field_), __VA_ARGS__                       \
	}
/* Place of the keys that engines describe; the second one: of the keys that services describe. */
#define OWNED_KEYS                                                                                 \
	{                                                                                          \
		.section = CONFIG_LISTENER                                                         \
	}
#define RANGE(min_, max_) .min = (min_), .max = (max_)
#define KIB               1024ULL
#define MIB               (1024 * KIB)
#define EIB               (MIB * MIB * MIB)
#define DAY               (24ULL * 3600 * NS_PER_S)

static const char *const direct_words[] = {
	[EXPORT_CACHED] = "no", [EXPORT_DIRECT] = "yes", [EXPORT_POLLED] = "poll", NULL
};

/* name, type, field, default, what a reload does, help, constraints */
/* clang-format off */
static const struct config_key own_keys[] = {
	SERVER("control", path, control, "/run/nbserved/control.sock", RESTART,
	       "path of the Unix socket for nbctl"),
	SERVER("control-group", name, control_group, "nbserved", RESTART,
	       "group that may read; changes need root or the server's own user"),
	SERVER("log-level", log_level, log_level, "info", LIVE,
	       "least urgent level that is logged"),
	SERVER("drain-timeout", duration, drain_timeout_ns, "30s", LIVE,
	       "how long connections may take to finish when their listener stops", RANGE(0, DAY)),
	SERVER("counters", choice, counters, "no", RESTART,
	       "count cycles, instructions and misses of the workers; auto: what this host grants; yes: all, or do not start",
	       .words = counters_modes),

	LISTENER("address", addresses, addresses, NULL, REPLACE,
		 "where to listen; a list; port 0: the kernel chooses"),
	LISTENER("transport", transport, transport, "tcp", REPLACE,
		 "what carries the bytes"),
	LISTENER("engine", engine, engine, "auto", REPLACE,
		 "how bytes move; auto: the best that this host allows"),
	LISTENER("service", service, service, NULL, REPLACE,
		 "what the bytes mean"),
	LISTENER("workers", uint, workers, "1", REPLACE,
		 "threads; auto: one for each CPU that affinity and cpu.max allow", RANGE(1, 64),
		 .word = "auto"),
	LISTENER("cpus", cpus, options.cpus, "any", REPLACE,
		 "CPUs that the workers are bound to", .word = "any"),
	LISTENER("optional", bool, optional, "no", REPLACE,
		 "yes: if this host cannot serve it, log that and continue without"),
	LISTENER("max-connections", uint, max_connections, "10000", LIVE,
		 "connections open at a time; 0: no limit", RANGE(0, 1000000)),
	LISTENER("idle-timeout", duration, options.idle_timeout_ns, "0", LIVE,
		 "close connections that are silent for this long; 0: never", RANGE(0, DAY)),
	LISTENER("keepalive", duration, keepalive_ns, "5min", LIVE,
		 "close TCP connections whose clients do not acknowledge for this long; 0: the kernel's default",
		 RANGE(0, DAY / 2), .streams = true),
	LISTENER("allow", networks, allow, "any", LIVE,
		 "IP clients that may connect; a list"),
	LISTENER("buffer-size", size, options.buffer_size, "auto", REPLACE,
		 "bytes of each buffer; auto: 16K, for datagrams over UDP 64K", RANGE(4 * KIB, MIB),
		 .power_of_two = true, .word = "auto"),
	LISTENER("buffers", uint, options.buffers, "1024", REPLACE,
		 "number of buffers of each worker", RANGE(16, 32768)),
	OWNED_KEYS,
	LISTENER("busy-poll", duration, options.busy_poll_ns, "0", REPLACE,
		 "time to spin before sleeping; auto: while recent spins ended with input",
		 RANGE(0, NS_PER_S), .word = "auto", .word_value = UINT64_MAX),
	LISTENER("batch-delay", duration, options.batch_delay_ns, "auto", REPLACE,
		 "time that a turn waits for further requests of a client with many in flight; 0: off",
		 RANGE(0, NS_PER_MS), .word = "auto", .word_value = UINT64_MAX),
	LISTENER("features", features, options.features_off, "all", REPLACE,
		 "-NAME, ...: features that the engine must not use, to measure their effect"),
	LISTENER("region-size", size, options.region_size, "4M", REPLACE,
		 "bytes of memory that a client may write and read by itself, at most",
		 RANGE(4 * KIB, 1024 * MIB), .of_services = SERVICE_REGION),
	LISTENER("tls", choice, tls.mode, "none", REPLACE,
		 "TLS 1.3; user: records by OpenSSL in user space; ktls-tx: the kernel seals them; ktls: and opens them",
		 .words = tls_modes, .streams = true, .of_services = SERVICE_TLS),
	LISTENER("tls-certificate", path, tls.certificate, "auto", LIVE,
		 "PEM file with the certificate and its chain; auto: one is made at the start",
		 .word = "auto", .of_tls = true),
	LISTENER("tls-key", path, tls.key, "same", LIVE,
		 "PEM file with the certificate's key; same: in the certificate's file",
		 .word = "same", .of_tls = true),
	LISTENER("tls-psk-file", path, tls.psk_file, "none", LIVE,
		 "file of pre-shared keys, lines IDENTITY:HEX, or of NVMe, in place of the certificate",
		 .word = "none", .of_tls = true),
	LISTENER("tls-cipher", choice, tls.cipher, "aes-128-gcm", REPLACE,
		 "cipher of the records", .words = tls_ciphers, .of_tls = true),
	OWNED_KEYS,
	LISTENER("exports", exports, exports, NULL, REPLACE,
		 "names of the exports that are served, the default one first; a list",
		 .of_services = SERVICE_EXPORTS),
	LISTENER("store", store, store, "export", REPLACE,
		 "store that reaches the files among the exports; export: the one of each export",
		 .of_services = SERVICE_EXPORTS),

	EXPORT("path", path, path, "none",
	       "the file or block device", .word = "none", .of_files = true),
	EXPORT("size", size, size, "0",
	       "size in bytes; 0: that of the file or device", RANGE(0, EIB)),
	EXPORT("create", bool, create, "no",
	       "make the file if there is none", .of_files = true),
	EXPORT("fill", bool, fill, "no",
	       "write data into a new file or new memory, which otherwise has only holes"),
	EXPORT("store", store, store, "auto",
	       "how the bytes are reached; auto: the worker does what need not wait, io_uring or threads the rest"),
	EXPORT("direct", choice, direct, "no",
	       "bypass the page cache (O_DIRECT); poll: and poll the device for completions",
	       .words = direct_words, .of_files = true),
	EXPORT("read-only", bool, read_only, "no",
	       "refuse requests that would change it"),
	EXPORT("queue-depth", uint, queue_depth, "128",
	       "requests of one connection that are in flight at a time", RANGE(1, 1024)),
	EXPORT("threads", uint, threads, "16",
	       "number of threads of each worker, for store = threads", RANGE(1, 64), .of_files = true),
};
/* clang-format on */

static const struct config_type *const types[] = {
	[KEY_UINT] = &config_uint,     [KEY_SIZE] = &config_size, [KEY_BOOL] = &config_bool,
	[KEY_CHOICE] = &config_choice, [KEY_CPU] = &config_cpu,   [KEY_TEXT] = &config_text,
};

static struct {
	struct config_key keys[CONFIG_KEYS_MAX];
	unsigned count;
	const struct key_table *tables[KEY_TABLES_MAX]; /* of worker_options.values */
	unsigned table_count;
} list;

static void add_key(struct config_key key)
{
	assert(list.count < CONFIG_KEYS_MAX);
	list.keys[list.count++] = key;
}

/* engine: the table's owner; NULL: services have it. */
static void add_table(const struct key_table *table, const struct engine *engine)
{
	size_t at = offsetof(struct listener_config, options.values) +
		    sizeof(struct key_values) * list.table_count +
		    offsetof(struct key_values, bytes);

	for (unsigned i = 0; i < list.table_count; i++)
		if (list.tables[i] == table) /* of another owner, too */
			return;
	assert(list.table_count < KEY_TABLES_MAX && table->bytes <= KEY_VALUES_MAX);
	list.tables[list.table_count++] = table;
	for (unsigned i = 0; i < table->count; i++) {
		const struct key *k = &table->keys[i];
		struct config_key key = { .section = CONFIG_LISTENER,
					  .class = CONFIG_REPLACE,
					  .type = types[k->type],
					  .table = engine ? NULL : table,
					  .engine = engine,
					  .of = k };

		memcpy(&key, k, offsetof(struct key, type));
		key.offset += at;
		add_key(key);
	}
}

static void make_list(void)
{
	bool engines_done = false;

	for (unsigned i = 0; i < ARRAY_SIZE(own_keys); i++) {
		if (own_keys[i].name) {
			add_key(own_keys[i]);
			continue;
		}
		for (unsigned j = 0; !engines_done && engines[j]; j++)
			if (engines[j]->keys)
				add_table(engines[j]->keys, engines[j]);
		for (unsigned j = 0; engines_done && services[j]; j++)
			if (services[j]->keys)
				add_table(services[j]->keys, NULL);
		engines_done = true;
	}
}

const struct config_key *config_key_at(unsigned index)
{
	if (list.count == 0)
		make_list();
	return index < list.count ? &list.keys[index] : NULL;
}

void config_table_owners(const struct key_table *table, char *text, size_t bytes)
{
	unsigned count = 0, left;
	size_t used = 0;

	for (unsigned i = 0; services[i]; i++)
		count += services[i]->keys == table;
	left = count;
	*text = '\0';
	for (unsigned i = 0; services[i] && used < bytes; i++)
		if (services[i]->keys == table) {
			const char *before = left == count ? "" : left == 1 ? " or " : ", ";

			used += (size_t)snprintf(text + used, bytes - used, "%s%s", before,
						 services[i]->name);
			left--;
		}
}

void config_init_values(struct listener_config *l)
{
	for (unsigned i = 0; i < list.table_count; i++)
		l->options.values[i].table = list.tables[i];
}

const struct config_kind config_kinds[] = {
	[CONFIG_SERVER] = { .name = "server",
			    .heading = "[server]",
			    .class = CONFIG_RESTART,
			    .size = sizeof(struct server_config),
			    .array = offsetof(struct config, server) },
	[CONFIG_LISTENER] = { .name = "listener",
			      .heading = "[listener NAME]",
			      .plural = "listeners",
			      .class = CONFIG_REPLACE,
			      .size = sizeof(struct listener_config),
			      .max = CONFIG_LISTENERS_MAX,
			      .array = offsetof(struct config, listeners),
			      .count = offsetof(struct config, listener_count) },
	[CONFIG_EXPORT] = { .name = "export",
			    .heading = "[export NAME]",
			    .plural = "exports",
			    .class = CONFIG_REOPEN,
			    .size = sizeof(struct export_config),
			    .max = CONFIG_EXPORTS_MAX,
			    .array = offsetof(struct config, exports),
			    .count = offsetof(struct config, export_count) },
};

void *config_section_at(const struct config *config, enum config_section kind, unsigned index)
{
	const struct config_kind *k = &config_kinds[kind];
	char *base = (char *)config;

	if (!k->plural)
		return index == 0 ? base + k->array : NULL;
	if (index >= *(unsigned *)(base + k->count))
		return NULL;
	return *(char **)(base + k->array) + index * k->size;
}

struct config_head *config_section_find(const struct config *config, enum config_section kind,
					const char *name)
{
	struct config_head *section;

	for (unsigned i = 0; (section = config_section_at(config, kind, i)); i++)
		if (!strcmp(section->name, name))
			break;
	return section;
}

const struct config_key *config_key_find(enum config_section section, const char *name)
{
	const struct config_key *key;

	for (unsigned i = 0; (key = config_key_at(i)); i++)
		if (key->section == section && !strcmp(key->name, name))
			break;
	return key;
}

/* Keys of 0.2.0, which are refused with these words for one release. */
static const struct {
	enum config_section section;
	const char *name, *instead;
} removed[] = {
	{ CONFIG_LISTENER, "epoll-mode", "delete the line; epoll is level-triggered" },
	{ CONFIG_LISTENER, "delay", "use `tc qdisc ... netem delay`" },
	{ CONFIG_LISTENER, "stall", "use SIGSTOP and SIGCONT" },
	{ CONFIG_LISTENER, "tls-library", "delete the line; the library is OpenSSL" },
	{ CONFIG_LISTENER, "srq", "delete the line; each connection has receives of its own" },
	{ CONFIG_LISTENER, "cq-moderation", "delete the line; ethtool -C moderates interrupts" },
	{ CONFIG_LISTENER, "ring-batch", "delete the line; a call submits all that is queued" },
	{ CONFIG_LISTENER, "qp-type",
	  "delete the line; connections are reliable.  perftest without -R has `pair-type`" },
	{ CONFIG_LISTENER, "sqpoll-idle", "delete the line; it is 1s" },
	{ CONFIG_LISTENER, "sqpoll-cpu", "use `sqpoll = 3`, the number of the CPU" },
	{ CONFIG_LISTENER, "zero-copy-area",
	  "delete the line; it is `buffers` times `buffer-size`" },
	{ CONFIG_LISTENER, "date", "delete the line; replies have no Date" },
	{ CONFIG_LISTENER, "in-capsule", "delete the line; it is 16K" },
	{ CONFIG_LISTENER, "max-connections-per-address",
	  "use `allow` and `max-connections`, or `ct count` of nftables" },
	{ CONFIG_LISTENER, "groups", "delete the line; multicast groups are not served" },
	{ CONFIG_EXPORT, "registered", "delete the line; what limits allow is registered" },
	{ CONFIG_EXPORT, "iopoll", "use `direct = poll`" },
	{ CONFIG_EXPORT, "sync-writes",
	  "have clients send FUA or flush, or mount the file system with -o sync" },
};

const char *config_key_removed(enum config_section section, const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(removed); i++)
		if (removed[i].section == section && !strcmp(removed[i].name, name))
			return removed[i].instead;
	return NULL;
}

struct config_origin *config_key_origin(const struct config_key *key, void *section)
{
	return &((struct config_head *)section)->origins[key - list.keys];
}

struct config_origin config_key_where(enum config_section kind, const char *name, void *section)
{
	const struct config_origin *at = config_key_origin(config_key_find(kind, name), section);

	return at->file ? *at : ((struct config_head *)section)->section;
}

struct config_origin *config_entry_origin(const struct config_key *key, void *section,
					  unsigned index)
{
	const struct config_list *of = key->type->list;

	if (!of || !of->origins)
		return config_key_origin(key, section);
	return (void *)((char *)section + of->origins + index * of->origin_bytes);
}

unsigned config_key_lines(const struct config_key *key, const void *section)
{
	const unsigned *count = config_key_count(key, (void *)section);

	return count ? MAX(*count, key->type->word ? 1U : 0U) : 1;
}

void config_key_expect(const struct config_key *key, char text[static CONFIG_TEXT_MAX])
{
	const struct config_type *type = key->type;
	uint64_t value;
	size_t length;

	snprintf(text, CONFIG_TEXT_MAX, "%s", type->expects ? type->expects : "");
	if (type->expect)
		type->expect(key, text);
	for (unsigned i = 0; type->word && type->word(key, i, &value); i++) {
		const char *comma = text[0] == '\0'                  ? ""
				    : type->word(key, i + 1, &value) ? ", "
								     : " or ";

		length = strlen(text);
		snprintf(text + length, CONFIG_TEXT_MAX - length, "%s%s", comma,
			 type->word(key, i, &value));
	}
}

void config_key_hint(const struct config_key *key, const char *value,
		     char text[static CONFIG_TEXT_MAX])
{
	struct suggestion s = { .text = value };
	const char *word;
	uint64_t of_word;

	text[0] = '\0';
	for (unsigned i = 0; key->type->word && (word = key->type->word(key, i, &of_word)); i++)
		suggest_try(&s, word);
	if (key->type->hint)
		key->type->hint(value, text);
	if (text[0] == '\0' && s.best)
		snprintf(text, CONFIG_TEXT_MAX, "%s", suggest_hint(&s));
	if (text[0] == '\0' && key->type->of_cpus)
		snprintf(text, CONFIG_TEXT_MAX, " (this host has the CPUs 0-%u)",
			 config_host_cpus() - 1);
}

void config_set_log_level(struct config *config, int level)
{
	const struct config_key *key = config_key_find(CONFIG_SERVER, "log-level");

	config->server.log_level = level;
	*config_key_origin(key, &config->server) =
		(struct config_origin){ .file = "nbctl log-level" };
}
