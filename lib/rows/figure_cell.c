/* See figure_cell.h. */
#include "figure_cell.h"

#include "hosts.h"

void figure_cell(struct table *t, const struct measure *row, enum figure figure)
{
	struct human text = figure_text(figure, figure_median(row, figure));
	char bounds[HOSTS_BOUNDS_BYTES];

	if (hosts_bounds(row, figure, bounds))
		table_text(t, bounds);
	else
		table_cell(t, *text.text ? STYLE_PLAIN : STYLE_DIM, "%s",
			   *text.text ? text.text : "-");
}
