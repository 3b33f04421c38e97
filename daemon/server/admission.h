/* Admission of clients: the limits and the allow list of one listener, shared by its
 * workers.  For Unix sockets the mode of the socket's file replaces the allow list, and the
 * client's user its address.
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

/* Admits a connection from peer (NULL: the peer of socket fd).  0: admitted; 1: admitted, and peer
 * was given and is in the allow list; -EUSERS: a limit is reached; -EACCES: not in the allow list.
 * When an admitted connection ends, *ret_ticket is passed to admission_release(). */
int admission_enter(struct admission *a, int fd, const struct sockaddr_storage *peer,
		    void **ret_ticket);
void admission_release(struct admission *a, void *ticket);
