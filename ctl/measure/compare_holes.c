/* Rows whose reads found holes.  Their rates are not those of a disk; and NBD sends a hole without
 * data, so they are not rates of data either.  See compare_group.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare_group.h"
#include "human.h"
#include "text.h"
#include "util.h"

/* The part of what was read that were holes: by NBD what the listener did not have to send, else by
 * a sample; 1 if nbdcopy asked where there is data, and read none.  0: unknown. */
static double hole_share(const struct measure *row)
{
	if (!strcmp(row->generator.name, "nbdcopy") && !strcmp(row->operation, "block_status") &&
	    row->count == row->listener_count)
		return 1;
	if (strcmp(row->operation, "read") != 0)
		return 0;
	if (strcmp(row->service, "nbd") != 0)
		return (double)row->zero_reads / (double)MAX(row->sampled_reads, (uint64_t)1);
	if (row->bytes_read <= row->bytes_out)
		return 0;
	return 1 - (double)row->bytes_out / (double)row->bytes_read;
}

char *groups_holes(const struct groups *all)
{
	char *text = NULL;
	double most = 0;
	FILE *to = text_open(&text);

	for (unsigned i = 0; i < all->count; i++)
		for (unsigned j = 0; j < all->list[i].count; j++) {
			const struct measure *row = all->list[i].rows[j];
			double share = row->count ? hole_share(row) : 0;

			if (share < 0.1)
				continue;
			fprintf(to, "%s%s", ftell(to) ? ", " : "", row->listener);
			most = share > most ? share : most;
		}
	if (ftell(to))
		fprintf(to,
			": up to %s %% of what was read were holes, which no disk reads and NBD sends "
			"without data: write the disk first (`dd if=/dev/urandom bs=1M count=1K | "
			"nbdcopy - URI`), or have it made with `fill = yes`.",
			human_percent(most).text);
	return text_close(to, &text);
}
