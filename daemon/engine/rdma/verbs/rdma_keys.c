/* The keys of engine `rdma`.  See rdma_keys.h. */
#include "rdma_keys.h"

#include "service.h"
#include "util.h"

/* By enum qp_type. */
static const char *const rdma_qp_types[] = { "rc", "ud", "uc", NULL };

static const struct key rdma_keys[] = {
	{ "qp-type", "rc", "reliable connections, datagrams or unreliable connections",
	  KEY_FIELD(struct rdma_options, qp_type), KEY_CHOICE, .words = rdma_qp_types },
};

/* Keys and services that need reliable connections. */
static void check_qp_type(struct key_check *check)
{
	const struct rdma_options *o = rdma_options(check->options);
	const struct service *service = check->service;
	const char *type = rdma_qp_types[o->qp_type];

	if (o->qp_type == QP_RC)
		return;
	if (service && (service->flags & SERVICE_MESSAGES) && !(service->flags & SERVICE_LOSSY))
		check->refuse(check, "qp-type", "expected rc with service %s, got '%s'",
			      service->name, type);
}

const struct key_table rdma_key_table =
	KEY_TABLE(rdma_keys, struct rdma_options, .check = check_qp_type);
