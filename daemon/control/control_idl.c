/* org.nbserved.Control in Varlink's interface definition language: what `varlinkctl introspect`
 * shows.  The system tests hold every reply against it, and it against the rules of libvarlink and
 * of systemd: no two members share a name, and an anonymous struct has no field of a named type.
 *
 * The types of statistics are generated from the schema, base/statistics.h. */
#include <stdio.h>

#include "control.h"
#include "statistics.h"
#include "util.h"

static const char interface[] =
	"# Look at and change a running nbserved.  See nbserved-control(7).\n"
	"#\n"
	"# Reading needs root, the daemon's user or membership in `control-group`; SetLogLevel,\n"
	"# Drain, Resume and Reload need root or the daemon's user.\n"
	"# Counters are exact, begin at the start of their listener, only grow, and stop at 2^63 - 1;\n"
	"# there is no snapshot across counters.\n"
	"interface org.nbserved.Control\n"
	"\n"
	"type State (serving, draining, drained, unavailable)\n"
	"\n"
	"# How the last reload ended.\n"
	"type ReloadState (none, done, refused)\n"
	"\n"
	"# time: empty while there was none.  errors: why it was refused.  ok: it is in force, or\n"
	"# there was none.\n"
	"type LastReload (\n"
	"  generation: int,\n"
	"  ok: bool,\n"
	"  state: ReloadState,\n"
	"  time: string,\n"
	"  errors: []string\n"
	")\n"
	"\n"
	"# A port of an RDMA device.  transport: RoCE, iWARP, InfiniBand.\n"
	"type Device (name: string, port: int, link_layer: string, transport: string)\n"
	"\n"
	"# library: its name and version.  driver: of the kernel that seals records.  shared_keys: so\n"
	"# many in place of a certificate.  days_left: until the certificate ends, negative when it\n"
	"# has.\n"
	"type Tls (mode: string, library: string, cipher: string, driver: ?string, shared_keys: ?int,\n"
	"  subject: ?string, issuer: ?string, days_left: ?int)\n"
	"\n"
	"# unused: no listener serves it.\n"
	"type ExportState (unused, ok, failed, unavailable)\n"
	"\n"
	"# id: unique per worker.  held_bytes: received and not answered, or not yet taken by the\n"
	"# kernel.  unsent_bytes: in the socket, not yet acknowledged.  peer: HOST:PORT, or\n"
	"# unix:pid=PID,uid=UID.  unsent_bytes, rtt_us and retransmits are TCP's, else 0;\n"
	"# device is RDMA's.  about: what the client has said of itself.\n"
	"type Connection (\n"
	"  listener: string,\n"
	"  worker: int,\n"
	"  id: int,\n"
	"  peer: string,\n"
	"  state: (open, eof, throttled, starved, closing),\n"
	"  age_ns: int,\n"
	"  idle_ns: int,\n"
	"  bytes_in: int,\n"
	"  bytes_out: int,\n"
	"  held_bytes: int,\n"
	"  unsent_bytes: int,\n"
	"  rtt_us: int,\n"
	"  retransmits: int,\n"
	"  device: ?Device,\n"
	"  about: ?string\n"
	")\n"
	"\n"
	"# value: a string, or an array of them.  origin: file:line, or `default`.  class: what a\n"
	"# reload does with a change.\n"
	"type Key (value: object, origin: string, class: string)\n"
	"type Section (name: string, keys: [string]Key)\n"
	"\n"
	"# optional: nothing that the configuration asks for needs it.\n"
	"type Check (name: string, ok: bool, optional: bool, value: string, reason: string, fix: string)\n"
	"\n"
	"# leaving: listeners that a reload replaced or removed, and that still drain or have a worker\n"
	"# that does not end.  build: the program's build ID; boot: the boot ID of its host's kernel;\n"
	"# each may be an empty text.\n"
	"method GetStatus() -> (\n"
	"  version: string,\n"
	"  build: string,\n"
	"  boot: string,\n"
	"  generation: int,\n"
	"  pid: int,\n"
	"  started_ns: int,\n"
	"  uptime_ns: int,\n"
	"  time: string,\n"
	"  log_level: string,\n"
	"  stopping: bool,\n"
	"  listeners: []Listener,\n"
	"  leaving: []Listener,\n"
	"  exports: []Export,\n"
	"  reload: LastReload\n"
	")\n"
	"\n"
	"# listeners: only these, and their exports; none means all.  Called with `more`, it replies at\n"
	"# once and then every interval_ms (50 to 86400000, default 1000); a client that has not taken a\n"
	"# reply misses the following ones.  by_worker: an element of `listeners` for each worker.\n"
	"method GetStats(\n"
	"  listeners: ?[]string,\n"
	"  by_worker: ?bool,\n"
	"  interval_ms: ?int\n"
	") -> (\n"
	"  version: string,\n"
	"  generation: int,\n"
	"  pid: int,\n"
	"  started_ns: int,\n"
	"  uptime_ns: int,\n"
	"  time: string,\n"
	"  listeners: []ListenerStats,\n"
	"  exports: []ExportStats,\n"
	"  reload: LastReload\n"
	")\n"
	"\n"
	"# At most `limit` (1 to 10000, default 100), in the order of listeners and workers, the\n"
	"# newest of a worker first.  open: how many there are.\n"
	"method ListConnections(listener: ?string, limit: ?int) -> (\n"
	"  connections: []Connection,\n"
	"  open: int\n"
	")\n"
	"\n"
	"# The configuration in force.  text: the same as a file, if that is asked for.\n"
	"method GetConfig(text: ?bool) -> (\n"
	"  server: [string]Key,\n"
	"  listeners: []Section,\n"
	"  exports: []Section,\n"
	"  text: ?string\n"
	")\n"
	"\n"
	"# Checks of the host, and features that each listener and export would get.  Takes seconds, as\n"
	"# it tries them.  text: the report as nbserved --doctor prints it, if that is asked for.\n"
	"method Doctor(text: ?bool) -> (\n"
	"  text: ?string,\n"
	"  passed: bool,\n"
	"  checks: []Check,\n"
	"  listeners: [](\n"
	"    name: string,\n"
	"    engine: string,\n"
	"    engine_features: []string,\n"
	"    optional: bool,\n"
	"    available: bool,\n"
	"    reason: string,\n"
	"    fix: string\n"
	"  ),\n"
	"  exports: [](\n"
	"    name: string,\n"
	"    store: string,\n"
	"    path: string,\n"
	"    size: int,\n"
	"    features: []string,\n"
	"    optional: bool,\n"
	"    available: bool,\n"
	"    reason: string,\n"
	"    fix: string\n"
	"  )\n"
	")\n"
	"\n"
	"# level: error, warning, info or debug; until the next start or reload.\n"
	"method SetLogLevel(level: string) -> ()\n"
	"\n"
	"# Stops accepting on a listener, or on all, until Resume or the next start; connections may\n"
	"# finish until `drain-timeout`.  Returns at once, with the listeners that are now draining.\n"
	"method Drain(listener: ?string) -> (draining: []string)\n"
	"\n"
	"# Starts a listener that does not serve, from the configuration in force, as Reload would: it\n"
	"# accepts again, and its counters begin at 0.  Without `listener`: all that were drained, all\n"
	"# of them or none.  Returns those that serve again.\n"
	"method Resume(listener: ?string) -> (resumed: []string)\n"
	"\n"
	"# Reads the configuration again and puts it in force, all of it or nothing.  dry_run: only\n"
	"# reports what would change; binds and opens nothing.  Without a change the generation stays.\n"
	"# changes: `file:line: [section] key: old -> new (class)`.\n"
	"method Reload(dry_run: ?bool) -> (\n"
	"  generation: int,\n"
	"  changes: []string\n"
	")\n"
	"\n"
	"error NoSuchListener (listener: string, message: string)\n"
	"\n"
	"# A worker did not answer in time, or the configuration changed meanwhile.\n"
	"error NoAnswer (listener: string, message: string)\n"
	"\n"
	"# Nothing was changed.  errors: all that is wrong.\n"
	"error ReloadRefused (message: string, errors: []string)\n"
	"# Nothing was changed.  errors: the changes that only a restart can make.\n"
	"error RestartNeeded (message: string, errors: []string)\n"
	"# Nothing was changed.  errors: why they cannot serve.\n"
	"error ResumeRefused (message: string, errors: []string)\n"
	"\n";

/* ---- The types of the schema ---- */

static bool is_object(const struct statistic *row)
{
	return row->type == STATISTIC_OBJECT || row->type == STATISTIC_OPTIONAL;
}

/* Does the field have a named type? */
static bool is_named(const struct statistic *row)
{
	return is_object(row) && row->varlink && *row->varlink != '[';
}

/* Writes the comments of the fields before the type: not all parsers accept them inside. */
static void put_comments(FILE *to, const char *outer, const struct statistic *row)
{
	for (; row->type != STATISTIC_END; row = statistic_next(row)) {
		char inner[64];

		if (is_named(row))
			continue;
		if (row->help && row->type != STATISTIC_INFO)
			fprintf(to, "# %s%s: %s\n", outer, row->name, row->help);
		if (is_object(row)) {
			snprintf(inner, sizeof(inner), "%s%s.", outer, row->name);
			put_comments(to, inner, row + 1);
		}
	}
}

static void put_fields(FILE *to, const char **separator, const struct statistic *row)
{
	for (; row->type != STATISTIC_END; row = statistic_next(row)) {
		const char *nested = "(";

		fprintf(to, "%s%s: ", *separator, row->name);
		*separator = strchr(*separator, '\n') ? ",\n  " : ", ";
		if (row->varlink || !is_object(row)) {
			fputs(row->varlink ? row->varlink : "int", to);
			continue;
		}
		put_fields(to, &nested, row + 1);
		putc(')', to);
	}
}

/* Writes a type with the fields of all tables, and before it the named types of their objects. */
static void put_type(FILE *to, const char *name, const char *about,
		     const struct statistic *const tables[])
{
	const char *separator = "(\n  ";

	if (about)
		fprintf(to, "# %s\n", about);
	for (unsigned i = 0; tables[i]; i++)
		put_comments(to, "", tables[i]);
	fprintf(to, "type %s ", name);
	for (unsigned i = 0; tables[i]; i++)
		put_fields(to, &separator, tables[i]);
	fputs("\n)\n\n", to);
	for (unsigned i = 0; tables[i]; i++) {
		for (const struct statistic *row = tables[i]; row->type != STATISTIC_END;
		     row = statistic_next(row)) {
			const struct statistic *const fields[] = { row + 1, NULL };

			if (is_named(row))
				put_type(to, row->varlink + (*row->varlink == '?'), row->help,
					 fields);
		}
	}
}

static const struct {
	const char *name, *about;
	const struct statistic *tables[4];
} types[] = {
	{ "Listener", NULL, { listener_about, listener_status } },
	{ "ListenerStats", NULL, { listener_about, listener_statistics } },
	{ "Operation", NULL, { operation_statistics } },
	{ "Latency", "Nanoseconds, of sampled operations.", { latency_statistics } },
	{ "Export", NULL, { export_about } },
	{ "ExportStats",
	  "The sums of its listeners, and each of them.",
	  { export_about, share_statistics, export_listeners } },
	{ "ExportListener",
	  "What one listener asked of an export.  Latency is that of the store alone.",
	  { share_about, share_statistics } },
};

char *control_describe(void)
{
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	if (!to)
		return NULL;
	fputs(interface, to);
	for (unsigned i = 0; i < ARRAY_SIZE(types); i++)
		put_type(to, types[i].name, types[i].about, types[i].tables);
	return fclose(to) == 0 ? text : NULL;
}
