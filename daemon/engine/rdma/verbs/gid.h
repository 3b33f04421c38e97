/* Engine `rdma`: the GIDs of a device's ports, which are its addresses. */
#pragma once
#include <infiniband/verbs.h>
#include <stdbool.h>

/* The device's RoCE v2 entry of that GID, 16 bytes, at a port (0: at any); false: there is none. */
bool rdma_gid_find(struct ibv_context *verbs, unsigned port, const void *gid,
		   struct ibv_gid_entry *ret_entry);
