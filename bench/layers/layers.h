/* `compare --layers`: in which layer listeners spend their CPU time, from samples of the threads
 * whose CPU time is charged to them.  Main thread.
 *
 * Events count on all CPUs, so samples are of all threads of the machine.  Those of the daemon are
 * recognised by the thread ids that its GetStats documents name, and each is attributed to the
 * listener of its thread.  A sample counts only if there was load when it was taken, and this is
 * known only from the next document: until then it waits (see weights.h). */
#pragma once
#include <stdbool.h>

#include "measure.h"
#include "reason.h"

struct layers;

/* Opens the events and reads the kernel's symbols: 0, or -errno with the reason, which says what
 * the user can do. */
int layers_open(struct layers **ret, struct reason *reason);
void layers_close(struct layers *l); /* NULL: nothing to do */

/* The steps of one interval, in this order.  With `l` NULL they do nothing.
 * layers_see(): adds the threads of all listeners of a GetStats document that are not known yet;
 * the first call starts sampling: 0, or -errno with the reason. layers_read(): takes the samples up
 * to the time of the last document of layers_see() from the kernel, and forgets those of unknown
 * threads.  layers_read_all(): later ones, too, before the rings are full; to be called when no
 * document has come for half a second.  Samples of threads that have begun since the last document
 * are lost by it. layers_commit(): the samples since the last commit or drop count; layers_drop():
 * they do not. layers_end(): sets the rows of m from `first` on, and ends sampling. */
int layers_see(struct layers *l, const json_t *document, struct reason *reason);
void layers_read(struct layers *l);
void layers_read_all(struct layers *l);
void layers_commit(struct layers *l);
void layers_drop(struct layers *l);
void layers_end(struct layers *l, struct measures *m, unsigned first);
void layers_cancel(struct layers *l); /* ends sampling, without rows */
