/* The global routing header (GRH) before each RDMA datagram, which holds the sender's address. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { GRH_BYTES = 40 };

/* Extracts the sender's address, with port 0, from an IPv6 header (InfiniBand's has the same
 * layout) or from an IPv4 header in the last 20 bytes (RoCE v2: InfiniBand architecture, annex
 * A17).  0, or -EINVAL if it is neither. */
int grh_source(const uint8_t grh[static GRH_BYTES], struct sockaddr_storage *ret_source);

/* Was the datagram sent to a multicast group? */
bool grh_is_to_group(const uint8_t grh[static GRH_BYTES]);
