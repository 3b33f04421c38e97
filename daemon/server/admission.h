/* Admission of clients: the limit and the allow list of one listener, shared by its workers.  For
 * Unix sockets the mode of the socket's file replaces the allow list.
 *
 * Any thread.  The number of connections is one atomic; a mutex guards the allow list, and is taken
 * only where there is one, when a connection begins. */
#pragma once
#include "config.h"

struct admission;

/* NULL: no memory. */
struct admission *admission_new(const struct listener_config *config);
void admission_free(struct admission *a);

/* Takes the limit and the list from a changed configuration; open connections stay. */
void admission_set(struct admission *a, const struct listener_config *config);

/* Admits a connection from peer (NULL: the peer of socket fd).  0: admitted; 1: admitted, and peer
 * was given and is in the allow list; -EUSERS: the limit is reached; -EACCES: not in the allow
 * list.  admission_release() is called when an admitted connection ends. */
int admission_enter(struct admission *a, int fd, const struct sockaddr_storage *peer);
void admission_release(struct admission *a);
