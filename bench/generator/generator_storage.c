/* Output of fio and qemu-img.  See generator_text.h. */
#include "generator_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "util.h"

/* ---- fio ---- */

static void fio_quantiles(const json_t *direction, struct generator_result *r)
{
	json_t *percentiles = json_object_get(field_get(direction, "clat_ns"), "percentile"), *ns;
	static const double wanted[] = { 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999 };
	const char *name;

	for (unsigned i = 0; i < ARRAY_SIZE(wanted); i++)
		json_object_foreach(percentiles, name, ns)
			if (fabs(strtod(name, NULL) - 100 * wanted[i]) < 1e-6)
				add_quantile(r, wanted[i], json_number_value(ns));
}

/* Does fio leave a beginning (ramp_time) out of its counts?  The listener's counts include it. */
static bool has_ramp(const json_t *document, const json_t *job)
{
	const char *ramp = field_text(job, "job options.ramp_time");

	if (!*ramp)
		ramp = field_text(document, "global options.ramp_time");
	return strtod(ramp, NULL) > 0;
}

bool parse_fio(char *const *argv, const char *text, struct generator_result *r)
{
	static const char *const directions[] = { "read", "write", "trim" };
	json_t *document = json_document(text), *jobs = field_get(document, "jobs"), *job;
	const json_t *main = NULL;
	bool ramp = false, found;
	double most = 0;
	size_t index;

	(void)argv;
	json_array_foreach(jobs, index, job) {
		ramp |= has_ramp(document, job);
		for (unsigned i = 0; i < ARRAY_SIZE(directions); i++) {
			const json_t *d = json_object_get(job, directions[i]);
			double ios = json_number(d, "total_ios");

			r->requests += ios;
			r->requests_per_s += json_number(d, "iops");
			r->bytes += json_number(d, "io_bytes");
			r->bytes_per_s += json_number(d, "bw_bytes");
			if (ios > most) {
				most = ios;
				main = d;
			}
		}
		r->errors += json_number(job, "error") > 0;
	}
	/* Percentiles of several jobs or directions have no sum. */
	if (main && most >= 0.999 * r->requests)
		fio_quantiles(main, r);
	json_decref(document);
	found = r->requests > 0;
	if (ramp) /* the rates are right, but the count lacks requests that the listener has */
		r->requests = 0;
	return found;
}

/* ---- qemu-img bench ---- */

bool parse_qemu_img(char *const *argv, const char *text, struct generator_result *r)
{
	double seconds, size;

	(void)argv;
	if (!number_after(text, "Sending ", &r->requests, NULL) ||
	    !number_before(text, " bytes each", &size) ||
	    !number_after(text, "Run completed in ", &seconds, NULL) || seconds <= 0)
		return false;
	r->requests_per_s = r->requests / seconds;
	r->bytes = r->requests * size;
	r->bytes_per_s = r->bytes / seconds;
	return true;
}
