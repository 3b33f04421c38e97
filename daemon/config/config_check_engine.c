/* Validation of the keys that engines have.  Main thread; pure. */
#include "config_keys.h"
#include "config_report.h"
#include "registry.h"
#include "worker.h"

/* Keys and services that need reliable connections. */
static void check_qp_type(struct config_report *r, struct listener_config *l)
{
	const char *type = config_qp_types[l->options.qp_type];

	if (!l->transport->verbs || l->options.qp_type == QP_RC)
		return;
	if (l->service && (l->service->flags & SERVICE_MESSAGES) &&
	    !(l->service->flags & SERVICE_LOSSY))
		REFUSE(r, l, "qp-type", "expected rc with service %s, got '%s'", l->service->name,
		       type);
	if (l->options.srq)
		REFUSE(r, l, "srq", "requires qp-type = rc (qp-type is %s)", type);
}

/* Checks `srq`, whose receives need room for two pieces each, and are promised to no connection. */
static void check_srq(struct config_report *r, struct listener_config *l)
{
	if (l->options.srq && l->service && (l->service->message || l->service->connect))
		REFUSE(r, l, "srq", "expected no with service %s, got 'yes'", l->service->name);
}

/* With sqpoll the kernel's thread takes the submissions, however many there are. */
static void check_ring_batch(struct config_report *r, struct listener_config *l)
{
	if (l->options.ring_batch == RING_BATCH_NO && l->options.sqpoll)
		REFUSE(r, l, "ring-batch", "requires sqpoll = no (sqpoll is yes)");
}

/* With `engine = auto` any engine of the transport may be the one in use. */
static uint64_t features_had(const struct listener_config *l)
{
	uint64_t has = 0;

	for (unsigned i = 0; engines[i]; i++)
		if (l->engine ? engines[i] == l->engine : engine_carries(engines[i], l->transport))
			has |= engine_of(engines[i], &l->options)->features;
	return has;
}

static void check_features(struct config_report *r, struct listener_config *l)
{
	uint64_t foreign = l->options.features_off & ~features_had(l);

	for (unsigned f = 0; f < FEATURE_COUNT; f++)
		if (foreign & FEATURE_MASK(f))
			REFUSE(r, l, "features", "engine %s has no %s to do without",
			       l->engine ? l->engine->name : "auto", engine_feature_names[f]);
}

void config_check_engine(struct config_report *r, struct listener_config *l)
{
	check_qp_type(r, l);
	check_srq(r, l);
	check_ring_batch(r, l);
	check_features(r, l);
}
