/* See sampler.h. */
#include "sampler.h"

#include "util.h"

enum { SAMPLES_MAX = 256 };

static int sampler_take(struct sampler *s)
{
	json_t *document;
	int rc = ctl_call(s->ctl, "GetStats", json_incref(s->parameters), &document);

	if (rc == CTL_DONE)
		json_array_append_new(s->documents, document);
	s->next_ns = rc == CTL_DONE ? clock_ns() + s->step_ns : UINT64_MAX;
	return rc;
}

int sampler_init(struct sampler *s, struct ctl *ctl, json_t *parameters)
{
	int rc;

	*s = (struct sampler){ .ctl = ctl,
			       .parameters = parameters,
			       .documents = json_array(),
			       .step_ns = 100 * NS_PER_MS };
	rc = sampler_take(s);
	if (rc != CTL_DONE)
		sampler_free(s);
	return rc;
}

/* In a long run drops every second document and doubles the interval. */
static void sampler_thin(struct sampler *s)
{
	for (size_t i = 1; i < json_array_size(s->documents); i++)
		json_array_remove(s->documents, i);
	s->step_ns *= 2;
}

void sampler_look(struct sampler *s)
{
	if (clock_ns() < s->next_ns)
		return;
	if (json_array_size(s->documents) == SAMPLES_MAX)
		sampler_thin(s);
	sampler_take(s); /* an error has been printed; sampler_end() returns it */
}

int sampler_end(struct sampler *s)
{
	return sampler_take(s);
}

void sampler_free(struct sampler *s)
{
	json_decref(s->parameters);
	json_decref(s->documents);
}

const json_t *sampler_first(const struct sampler *s)
{
	return json_array_get(s->documents, 0);
}

const json_t *sampler_last(const struct sampler *s)
{
	return json_array_get(s->documents, json_array_size(s->documents) - 1);
}
