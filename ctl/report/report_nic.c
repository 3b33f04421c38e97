/* The network interfaces through which clients came, and went, side by side.  See report_page.h. */
#include <stdlib.h>

#include "field.h"
#include "report_page.h"
#include "svg.h"
#include "util.h"

enum { NICS_MAX = 16 }; /* columns; without a limit interrupts that move make one for each visit */

/* The facts of the listener's interface in the form of those of the generator's hosts, which begin
 * with the host. */
static json_t *make_nic(const struct measure *visit)
{
	json_t *nic = field_get(visit->conditions, "nic"), *made;

	if (!json_is_object(nic))
		return NULL;
	made = json_pack("{s:s}", "host", "the listeners'");
	json_object_update(made, nic);
	return made;
}

static json_t *make_generator_nics(const struct measure *visit)
{
	return json_incref(field_get(visit->conditions, "generator_nics"));
}

/* A column for each host, and for each state that its interface was in. */
static json_t *columns_of(const struct measures *m)
{
	json_t *columns = report_distinct(m, make_nic), *nic;
	json_t *lists = report_distinct(m, make_generator_nics), *list;
	size_t i, j;

	json_array_foreach(lists, i, list)
		json_array_foreach(list, j, nic)
			field_add_once(columns, json_incref(nic));
	json_decref(lists);
	return columns;
}

/* All facts of all columns, in the order in which they come first. */
static json_t *facts_of(const json_t *nics, size_t count)
{
	json_t *facts = json_object(), *value;
	const char *fact;

	for (size_t i = 0; i < count; i++)
		json_object_foreach(json_array_get(nics, i), fact, value)
			json_object_set_new(facts, fact, json_true());
	return facts;
}

/* Puts a row with one fact, and marks values that differ from the first column. */
static void put_fact(FILE *to, const char *fact, const json_t *nics, size_t count)
{
	const json_t *first = json_object_get(json_array_get(nics, 0), fact);

	fputs("<tr>", to);
	svg_element(to, "td class=\"left\"", "%s", fact);
	for (size_t i = 0; i < count; i++) {
		const json_t *value = json_object_get(json_array_get(nics, i), fact);
		bool same = value == first || json_equal(value, first);
		char *text = field_show(value);

		fputs(same ? "<td class=\"left\">" : "<td class=\"left\"><b>", to);
		svg_escape(to, value ? text : "-");
		fputs(same ? "</td>" : "</b></td>", to);
		free(text);
	}
	fputs("</tr>\n", to);
}

void report_nics(FILE *to, const struct measures *m)
{
	json_t *nics = columns_of(m), *facts, *unused;
	size_t all = json_array_size(nics), count = MIN(all, (size_t)NICS_MAX);
	const char *fact;

	facts = facts_of(nics, count);
	if (count)
		fputs("<h3>Network interfaces</h3>\n"
		      "<div class=\"scroll\"><table><tbody>\n",
		      to);
	json_object_foreach(facts, fact, unused)
		put_fact(to, fact, nics, count);
	if (count)
		fputs("</tbody></table></div>\n", to);
	if (count > 1)
		fputs("<p class=\"dim\">Bold: it is not as in the first column.</p>\n", to);
	if (all > count)
		fprintf(to, "<p class=\"dim\">%zu more states of them are in the saved rows.</p>\n",
			all - count);
	json_decref(facts);
	json_decref(nics);
}
