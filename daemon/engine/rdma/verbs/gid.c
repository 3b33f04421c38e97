/* See gid.h. */
#include "gid.h"

#include <string.h>
#include <sys/types.h>

#include "util.h"

enum { GIDS_MAX = 256 }; /* entries of a device's table that are looked at */

bool rdma_gid_find(struct ibv_context *verbs, unsigned port, const void *gid,
		   struct ibv_gid_entry *ret_entry)
{
	struct ibv_gid_entry entries[GIDS_MAX];
	ssize_t count = ibv_query_gid_table(verbs, entries, ARRAY_SIZE(entries), 0);

	for (ssize_t i = 0; i < count; i++) {
		if (entries[i].gid_type != IBV_GID_TYPE_ROCE_V2 ||
		    (port && entries[i].port_num != port) ||
		    memcmp(&entries[i].gid, gid, sizeof(entries[i].gid)) != 0)
			continue;
		*ret_entry = entries[i];
		return true;
	}
	return false;
}
