/* The header before each RDMA datagram: who sent it. */
#pragma once
#include <stdint.h>
#include <sys/socket.h>

enum { GRH_BYTES = 40 };

/* The sender's address: of an IPv6 header, which InfiniBand's has the form of, or of an IPv4 header
 * in the last 20 bytes (RoCE v2, as the InfiniBand architecture's annex A17 and all providers lay
 * them out).  Its port is 0.  0, or -EINVAL when it is neither. */
int grh_source(const uint8_t grh[static GRH_BYTES], struct sockaddr_storage *ret_source);
