/* The identities of a subsystem and of its namespaces, made from names.  They must never change, as
 * hosts store them (/dev/disk/by-id), and must be unique: Linux takes namespaces with the same
 * identity for two paths to one disk, or refuses the second.  Pure; any thread. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "proto.h"

enum {
	NVME_UUID = 16,  /* bytes */
	NVME_SERIAL = 16 /* characters */
};

/* A UUID (RFC 9562, version 8) of `bytes` at seed and two names. */
void nvme_id_uuid(const void *seed, size_t bytes, const char *name, const char *other,
		  uint8_t ret[static NVME_UUID]);

/* "nqn.2014-08.org.nvmexpress:uuid:...": Base Specification, "NVMe Qualified Names". */
void nvme_id_nqn(const uint8_t uuid[static NVME_UUID], char ret[static NVME_NQN_MAX]);

/* The subsystem's serial number, with a NUL. */
void nvme_id_serial(const char *nqn, char ret[static NVME_SERIAL + 1]);
