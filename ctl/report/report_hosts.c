/* A row for each host of the generator.  See report_page.h. */
#include "hosts.h"
#include "report_page.h"
#include "svg.h"

static void put_rows(FILE *to, const struct measure *row)
{
	for (unsigned i = 0; i < hosts_known(row); i++) {
		fputs("<tr>", to);
		svg_element(to, "td class=\"left\"", "%s", row->listener);
		svg_element(to, "td class=\"left\"", "%s", hosts_name(row, i));
		for (unsigned j = 0; j < HOSTS_FIGURES; j++) {
			double value = hosts_value(row, i, hosts_figures[j]);

			fprintf(to, "<td>%s</td>", figure_text(hosts_figures[j], value).text);
		}
		fputs("</tr>\n", to);
	}
}

void report_hosts(FILE *to, const struct group *g)
{
	unsigned hosts = 0;

	for (unsigned i = 0; i < g->count; i++)
		hosts += hosts_known(g->rows[i]);
	if (!hosts)
		return;
	fputs("<div class=\"scroll\"><table>\n<thead><tr><th class=\"left\">listener</th>"
	      "<th class=\"left\">generator's host</th>",
	      to);
	for (unsigned i = 0; i < HOSTS_FIGURES; i++) {
		const struct figure_info *f = &figures[hosts_figures[i]];

		fprintf(to, "<th scope=\"col\">%s<br/>%s</th>", f->words,
			page_unit(hosts_figures[i]));
	}
	fputs("</tr></thead>\n<tbody>\n", to);
	for (unsigned i = 0; i < g->count; i++)
		put_rows(to, g->rows[i]);
	fputs("</tbody></table></div>\n", to);
}
