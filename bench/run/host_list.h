/* A list of hosts on the command line: `c1,c2,root@c3.lab`.  Pure. */
#pragma once
#include <stdbool.h>

#include "reason.h"

enum { HOST_LIST_MAX = 64, HOST_NAME_BYTES = 256 };

struct host_list {
	char *names[HOST_LIST_MAX]; /* [USER@]HOST, each once */
	unsigned count;
};

/* 0, or -EINVAL with the reason.  host_list_free() in both cases. */
int host_list_parse(const char *text, struct host_list *ret, struct reason *reason);
void host_list_free(struct host_list *hosts);
