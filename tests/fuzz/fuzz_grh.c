/* Fuzzes the header before an RDMA datagram: an address that was in it, or none. */
#include <netinet/in.h>

#include "fuzz.h"
#include "grh.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct sockaddr_storage source = { .ss_family = AF_UNSPEC };
	const struct sockaddr_in *in = (const void *)&source;
	const struct sockaddr_in6 *in6 = (const void *)&source;

	if (bytes < GRH_BYTES)
		return 0;
	if (grh_source(data, &source) < 0) {
		assert(source.ss_family == AF_UNSPEC && data[0] >> 4 != 6 && data[20] != 0x45);
	} else if (source.ss_family == AF_INET) {
		assert(data[20] == 0x45 && !memcmp(&in->sin_addr, data + 32, 4));
	} else {
		assert(source.ss_family == AF_INET6 && data[0] >> 4 == 6 &&
		       !memcmp(&in6->sin6_addr, data + 8, 16));
	}
	return 0;
}
