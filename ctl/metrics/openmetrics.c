/* OpenMetrics exposition: the rows of the schema (base/statistics.h) that are metrics, walked once,
 * listeners inside each.
 *
 * Both of Prometheus's parsers take it, that of OpenMetrics and that of its older text format,
 * which promtool, node_exporter's textfile collector and many others have.  Where the two formats
 * disagree the older one wins: TYPE and HELP of a counter name its samples (with _total), there is
 * no UNIT, and an info is a gauge of 1.
 *
 * Latency buckets are coarser than the daemon's: a fine bucket that reaches over a bound is counted
 * under the next one, so that the error (at most 1.6 % of the bound) never flatters. */
#include "openmetrics.h"

#include <inttypes.h>
#include <string.h>

#include "field.h"
#include "histogram.h"
#include "measure.h"
#include "printable.h"
#include "statistics.h"
#include "util.h"

/* A label, and the field with its value. */
struct label {
	const char *name, *field;
};

/* The objects of the document that have the metrics of some rows. */
struct scope {
	const char *list; /* the array of owners in the document; NULL: the document itself */
	/* The array of parts with the metrics in each owner; NULL: the owner itself. */
	const char *part;
	const struct statistic *rows;
	struct label labels[4]; /* labels of each sample */
	struct label info[4];   /* additional labels of an INFO */
};

/* clang-format off */
#define LISTENER_LABELS { { "listener", "name" }, { "engine", "engine" }, { "service", "service" } }

static const struct scope scopes[] = {
	{ NULL, NULL, document_about, {}, { { "version", "version" } } },
	{ "listeners", NULL, listener_about, LISTENER_LABELS,
	  { { "state", "state" }, { "transport", "transport" } } },
	{ "listeners", NULL, listener_statistics, LISTENER_LABELS, {} },
	{ "exports", NULL, export_about, { { "export", "name" } },
	  { { "state", "state" }, { "store", "store" }, { "path", "path" } } },
	{ "exports", "listeners", share_statistics,
	  { { "listener", "listener" }, { "store", "store" } }, {} },
};
/* clang-format on */

/* A row of the schema that is a metric, and the path to its values. */
struct metric {
	const struct scope *scope;
	const struct statistic *row;
	const char *optional; /* an owner without this object has no such metric; NULL: all have */
	const char *map;      /* path applies to each object of this map; NULL: to the owner */
	char path[96];
};

static int name_bytes(const struct metric *m)
{
	return (int)strcspn(m->row->metric, " ");
}

/* LABEL=VALUE or LABEL=*; NULL: none. */
static const char *own_label(const struct metric *m)
{
	const char *space = strchr(m->row->metric, ' ');

	return space ? space + 1 : NULL;
}

/* Is the value in nanoseconds, to be converted?  By the unit in the metric's name. */
static bool is_time(const struct metric *m)
{
	static const char unit[] = "_seconds";
	int before = name_bytes(m) - (int)strlen(unit);

	return before > 0 && !strncmp(m->row->metric + before, unit, strlen(unit));
}

/* 1-2.5-5 steps from 1 us to 10 s. */
static const uint64_t latency_bounds_ns[] = {
	1000,       2500,        5000,        10000,        25000,     50000,
	100000,     250000,      500000,      1000000,      2500000,   5000000,
	10000000,   25000000,    50000000,    100000000,    250000000, 500000000,
	1000000000, 2500000000U, 5000000000U, 10000000000U,
};

/* ---- Pieces of a line ---- */

/* Writes the value of a label, with \, " and newline escaped. */
static void put_escaped(FILE *to, const char *text)
{
	bool printable;

	while (*text) {
		size_t bytes = printable_next(text, &printable);

		if (*text == '\n')
			fputs("\\n", to);
		else if (*text == '\\' || *text == '"')
			fprintf(to, "\\%c", *text);
		else
			fwrite(printable ? text : "?", 1, printable ? bytes : 1, to);
		text += bytes;
	}
}

static void put_label(FILE *to, const char **separator, const char *name, size_t name_bytes,
		      const char *value)
{
	fprintf(to, "%s%.*s=\"", *separator, (int)name_bytes, name);
	put_escaped(to, value);
	putc('"', to);
	*separator = ",";
}

static void put_labels(FILE *to, const char **separator, const struct label *labels,
		       const json_t *owner)
{
	for (; labels->name; labels++)
		put_label(to, separator, labels->name, strlen(labels->name),
			  field_text(owner, labels->field));
}

/* The origin of a sample. */
struct source {
	const struct metric *metric;
	const json_t *owner;   /* the document, a listener or an export */
	const json_t *part;    /* the part of the owner, or the owner */
	const char *operation; /* its name in the map; NULL: none */
	const char *label;     /* value of the metric's own label; NULL: none */
	const json_t *value;
};

/* The suffix of the names of a metric's samples; histograms have others. */
static const char *suffix_of(const struct metric *m)
{
	switch (m->row->type) {
	case STATISTIC_GAUGE:
	case STATISTIC_LATENCY:
		return "";
	case STATISTIC_INFO:
		return "_info";
	default:
		return "_total";
	}
}

/* Writes a sample up to its value; `bound`: a bucket's le, or NULL. */
static void put_name(FILE *to, const struct source *s, const char *suffix, const char *bound)
{
	const struct metric *m = s->metric;
	const char *separator = "{", *own = own_label(m);

	fprintf(to, "%.*s%s", name_bytes(m), m->row->metric, suffix);
	if (s->part != s->owner)
		put_label(to, &separator, "export", 6, field_text(s->owner, "name"));
	put_labels(to, &separator, m->scope->labels, s->part);
	if (s->operation)
		put_label(to, &separator, "operation", 9, s->operation);
	if (own)
		put_label(to, &separator, own, strcspn(own, "="), s->label);
	if (bound)
		put_label(to, &separator, "le", 2, bound);
	if (m->row->type == STATISTIC_INFO)
		put_labels(to, &separator, m->scope->info, s->part);
	fputs(*separator == ',' ? "} " : " ", to);
}

/* Writes exact decimals, without rounding by floating point. */
static void put_seconds(FILE *to, uint64_t ns)
{
	fprintf(to, "%" PRIu64 ".%09" PRIu64 "\n", ns / NS_PER_S, ns % NS_PER_S);
}

/* ---- Samples ---- */

static void put_histogram(FILE *to, const struct source *s)
{
	struct histogram_sum h = {};
	uint64_t seen = 0;
	unsigned bucket = 0;

	measure_add_latency(&h, s->value);
	for (unsigned i = 0; i < ARRAY_SIZE(latency_bounds_ns); i++) {
		char bound[32];

		while (bucket < HISTOGRAM_BUCKETS &&
		       histogram_bucket_max(bucket) <= latency_bounds_ns[i])
			seen += h.buckets[bucket++];
		snprintf(bound, sizeof(bound), "%.7g", (double)latency_bounds_ns[i] / NS_PER_S);
		if (!strpbrk(bound, ".e"))
			strcat(bound, ".0");
		put_name(to, s, "_bucket", bound);
		fprintf(to, "%" PRIu64 "\n", seen);
	}
	put_name(to, s, "_bucket", "+Inf");
	fprintf(to, "%" PRIu64 "\n", h.count);
	put_name(to, s, "_count", NULL);
	fprintf(to, "%" PRIu64 "\n", h.count);
	put_name(to, s, "_sum", NULL);
	put_seconds(to, h.sum);
}

static void put_sample(FILE *to, const struct source *s)
{
	const struct metric *m = s->metric;

	if (m->row->type == STATISTIC_LATENCY) {
		put_histogram(to, s);
		return;
	}
	put_name(to, s, suffix_of(m), NULL);
	if (m->row->type == STATISTIC_INFO)
		fputs("1\n", to);
	else if (is_time(m))
		put_seconds(to, field_uint(s->value, ""));
	else
		fprintf(to, "%" PRIu64 "\n", field_uint(s->value, ""));
}

/* Writes the samples of one object; nothing if the daemon does not have the field. */
static void put_samples(FILE *to, struct source *s, const json_t *object)
{
	const char *own = own_label(s->metric), *key;
	json_t *value = field_get(object, s->metric->path), *element;

	if (!value)
		return;
	if (!own || !strchr(own, '*')) {
		s->label = own ? strchr(own, '=') + 1 : NULL;
		s->value = value;
		put_sample(to, s);
		return;
	}
	json_object_foreach(value, key, element) {
		s->label = key;
		s->value = element;
		put_sample(to, s);
	}
}

static void put_part(FILE *to, const struct metric *m, const json_t *owner, const json_t *part)
{
	struct source s = { .metric = m, .owner = owner, .part = part };
	json_t *object;

	if (!m->map) {
		put_samples(to, &s, part);
		return;
	}
	json_object_foreach(field_get(part, m->map), s.operation, object)
		put_samples(to, &s, object);
}

/* An unavailable listener or export has only its INFO, as zeros would look like measurements. */
static bool has_metric(const struct metric *m, const json_t *owner)
{
	if (!strcmp(field_text(owner, "state"), "unavailable"))
		return m->row->type == STATISTIC_INFO;
	return !m->optional || field_get(owner, m->optional);
}

static void put_header(FILE *to, const struct metric *m)
{
	const char *name = m->row->metric, *suffix = suffix_of(m), *type = "gauge";

	if (m->row->type == STATISTIC_LATENCY)
		type = "histogram";
	else if (!strcmp(suffix, "_total"))
		type = "counter";
	fprintf(to, "# HELP %.*s%s %s\n", name_bytes(m), name, suffix, m->row->help);
	fprintf(to, "# TYPE %.*s%s %s\n", name_bytes(m), name, suffix, type);
}

/* Element i of object's list; NULL: no more.  If list is NULL, the object itself is the only one.
 */
static const json_t *element_at(const json_t *object, const char *list, size_t i)
{
	if (list)
		return json_array_get(field_get(object, list), i);
	return i == 0 ? object : NULL;
}

/* A metric that no listener or export has is omitted together with its HELP. */
static void put_metric(FILE *to, const struct metric *m, const json_t *stats)
{
	bool begun = !m->row->help; /* true if the row is a further label of the previous metric */
	const json_t *owner, *part;

	for (size_t i = 0; (owner = element_at(stats, m->scope->list, i)); i++) {
		if (!has_metric(m, owner))
			continue;
		if (!begun)
			put_header(to, m);
		begun = true;
		for (size_t j = 0; (part = element_at(owner, m->scope->part, j)); j++)
			put_part(to, m, owner, part);
	}
}

/* The metrics of an object's rows, from the first on; `outer`: the path to the object. */
static void put_rows(FILE *to, const struct metric *outer, const struct statistic *row,
		     const json_t *stats)
{
	for (; row->type != STATISTIC_END; row = statistic_next(row)) {
		struct metric m = *outer;

		m.row = row;
		snprintf(m.path, sizeof(m.path), "%s%s", outer->path, row->name);
		if (row->metric) {
			put_metric(to, &m, stats);
		} else if (row->type >= STATISTIC_OBJECT) {
			if (row->type == STATISTIC_OPTIONAL)
				m.optional = row->name;
			strcat(m.path, ".");
			put_rows(to, &m, row + 1, stats);
		} else if (row->each) {
			m.map = row->name;
			m.path[0] = '\0';
			put_rows(to, &m, row->each, stats);
		}
	}
}

void openmetrics_write(FILE *to, const json_t *stats)
{
	for (unsigned i = 0; i < ARRAY_SIZE(scopes); i++) {
		const struct metric none = { .scope = &scopes[i] };

		put_rows(to, &none, scopes[i].rows, stats);
	}
	fputs("# EOF\n", to);
}
