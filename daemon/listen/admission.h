/* Admission of clients: the limits and the allow list of one listener, shared by its workers.  On
 * Unix sockets the file's mode takes the place of the allow list, and the user that of the address.
 *
 * Any thread.  The total is one atomic; a mutex guards the table of addresses, which is used only
 * when there is a limit per address, and only when a connection begins or ends. */
#pragma once
#include "config.h"

struct admission;

/* NULL: no memory. */
struct admission *admission_new(const struct listener_config *config);
void admission_free(struct admission *a);

/* Takes the limits from a changed configuration; open connections stay. */
void admission_set(struct admission *a, const struct listener_config *config);

/* 0 (1: `peer` was given and is in the allow list), -EUSERS (a limit) or -EACCES (not in the allow
 * list); *ret_ticket goes to admission_release() when a connection that was let in ends.  May ask
 * the kernel for fd's peer. */
int admission_enter(struct admission *a, int fd, const struct sockaddr_storage *peer,
		    void **ret_ticket);
void admission_release(struct admission *a, void *ticket);
