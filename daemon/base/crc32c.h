/* CRC-32C (Castagnoli), as iSCSI and NVMe/TCP use it: RFC 3720, appendix B.4.  Pure; any thread. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* The checksum of `bytes` at data.  crc: the checksum of the bytes before them, 0 at first. */
uint32_t crc32c(uint32_t crc, const void *data, size_t bytes);
