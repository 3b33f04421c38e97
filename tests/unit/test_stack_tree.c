/* ctl/layers/stack_tree.c, and what is made of it: folded stacks, flame graphs, the page's bars. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compare_table.h"
#include "layers_group.h"
#include "render.h"
#include "report.h"
#include "stack_tree.h"
#include "util.h"

static const struct symbol syscall_entry = { .name = "entry_SYSCALL", .layer = LAYER_SYSCALL },
			   tcp = { .name = "tcp_ack", .layer = LAYER_TCP_IP },
			   lock = { .name = "lock", .layer = LAYER_NONE },
			   odd = { .name = "\xff;\n", .layer = LAYER_NONE },
			   template = { .name = "a;b", .layer = LAYER_NONE };

static char *folded(const struct stack_tree *t)
{
	char *text;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	assert_non_null(to);
	stack_tree_fold(t, to);
	fclose(to);
	return text;
}

static char *flame(const struct stack_tree *t, const char *style)
{
	char *text;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	assert_non_null(to);
	report_flame(to, t, "a <listener>", style);
	fclose(to);
	return text;
}

/* A tree of chains that count, one of each length up to three. */
static void fill(struct stack_tree *t)
{
	const struct symbol *frames[] = { &lock, &tcp, &syscall_entry };
	struct stacks s = { 0 };

	stacks_add(&s, frames, 3, 60);
	stacks_add(&s, frames + 1, 2, 30);
	stacks_add(&s, frames + 2, 1, 10);
	stacks_commit(&s);
	stacks_add(&s, frames, 3, 1000); /* still waits */
	stack_tree_init(t);
	stack_tree_add(t, &s);
	stacks_free(&s);
}

static void chains_are_folded_from_the_outermost_on(void **state)
{
	struct stack_tree t;
	char *text;

	(void)state;
	fill(&t);
	text = folded(&t);
	assert_string_equal(text, "entry_SYSCALL 10\n"
				  "entry_SYSCALL;tcp_ack 30\n"
				  "entry_SYSCALL;tcp_ack;lock 60\n");
	free(text);
	assert_int_equal(stack_tree_weight(t.calls), 100);
	assert_int_equal(stack_tree_layer(&t, "tcp_ack", LAYER_OTHER), LAYER_TCP_IP);
	assert_int_equal(stack_tree_layer(&t, "lock", LAYER_TCP_IP), LAYER_TCP_IP);
	stack_tree_free(&t);
}

/* Names are from programs: none breaks a line, and each can be saved. */
static void odd_names_are_replaced(void **state)
{
	const struct symbol *frames[] = { &odd, &template };
	struct stacks s = { 0 };
	struct stack_tree t;
	char *text;

	(void)state;
	stacks_add(&s, frames, 2, 5);
	stacks_add(&s, NULL, 0, 7);
	stacks_commit(&s);
	stack_tree_init(&t);
	stack_tree_add(&t, &s);
	text = folded(&t);
	assert_string_equal(text, "a:b;[unknown] 5\n[unknown] 7\n");
	free(text);
	text = json_dumps(t.calls, 0);
	assert_non_null(text);
	free(text);
	stack_tree_free(&t);
	stacks_free(&s);
}

/* A sampled visit of 1000 operations at 10 us each; stacks: as saved, a new reference. */
static void add_visit(struct measures *m, const char *listener, int round, json_t *stacks)
{
	json_t *row = json_pack(
		"{s:s, s:s, s:s, s:i, s:i, s:i, s:{s:s, s:i, s:s, s:s}, s:i, s:{s:s, s:i, s:{s:i, s:i}, "
		"s:o, s:{s:s}}}",
		"listener", listener, "service", "echo", "operation", "echo", "count", 1000,
		"listener_count", 1000, "cpu_ns", 10000000, "visit", "run", "r", "round", round,
		"setup", "s", "build", "b", "schema", MEASURE_SCHEMA, "layers", "event",
		"cpu-clock", "samples", 10, "weights", "tcp_ip", 3000000, "service", 7000000,
		"stacks", stacks, "functions", "f<1>", "tcp_ip");

	assert_non_null(row);
	assert_int_equal(measures_add_json(m, row), 0);
	json_decref(row);
}

static void the_visits_of_a_row_are_one_tree(void **state)
{
	struct measures m = { 0 };
	struct stack_tree t;
	char *text;

	(void)state;
	add_visit(&m, "a", 1, json_pack("{s:{s:i, s:{s:i}}}", "f", "", 1, "g", "", 2));
	add_visit(&m, "a", 2, json_pack("{s:{s:{s:i}}, s:{s:i}}", "f", "g", "", 40, "h", "", 3));
	/* What a file may have instead. */
	add_visit(&m, "a", 3,
		  json_pack("{s:i, s:i, s:{s:i, s:[]}}", "f", 5, "", 6, "g", "", -7, "x"));
	add_visit(&m, "a", 4, json_pack("[i]", 1));
	measures_merge(&m);
	assert_int_equal(m.count, 1);
	stack_tree_init(&t);
	stack_tree_add_row(&t, m.rows[0]);
	text = folded(&t);
	assert_string_equal(text, "f 1\nf;g 42\nh 3\n");
	free(text);
	stack_tree_free(&t);
	measures_free(&m);
}

static void a_flame_graph_has_a_box_for_each_way(void **state)
{
	static const char *const said[] = {
		"<title>a &lt;listener&gt;</title>",
		"tcp_ack (TCP, UDP, IP): 90 %, 30 % its own",
		"lock (TCP, UDP, IP): 60 %, 60 % its own", /* its caller's layer */
		"entry_SYSCALL (system call entry, exit): 100 %, 10 % its own",
		"class=\"layer tcp_ip\"",
	};
	struct stack_tree t;
	char *svg, *part;

	(void)state;
	fill(&t);
	svg = flame(&t, report_chart_style);
	part = flame(&t, NULL);
	for (unsigned i = 0; i < ARRAY_SIZE(said); i++)
		if (!strstr(svg, said[i]) || !strstr(part, said[i]))
			fail_msg("not drawn: %s", said[i]);
	assert_non_null(strstr(svg, "<style>"));
	assert_null(strstr(part, "<style>"));
	assert_null(strstr(svg, "script"));
	free(svg);
	free(part);
	stack_tree_free(&t);
}

/* Deeper than a chain can be, as only a file has it. */
static void a_deep_tree_is_cut(void **state)
{
	enum { DEEP = 1500 };
	json_t *tree = json_pack("{s:i}", "", 5);
	struct stack_tree t;
	char *text;

	(void)state;
	for (unsigned i = 0; i < DEEP; i++)
		tree = json_pack("{s:o}", "f", tree);
	t = (struct stack_tree){ tree, json_object() };
	text = flame(&t, NULL);
	assert_true(strlen(text) < 200000);
	free(text);
	text = folded(&t);
	assert_int_equal(strlen(text), 2 * DEEP - 1 + strlen(" 5\n"));
	free(text);
	stack_tree_free(&t);
}

static char *page_of(const struct measures *m)
{
	char *text;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	assert_non_null(to);
	report_html(to, m, NULL);
	fclose(to);
	return text;
}

static void layers_are_on_the_page(void **state)
{
	static const char *const said[] = {
		"<h3>CPU per operation by layer</h3>",
		"<title>TCP, UDP, IP: 3.00 \xc2\xb5s, 30 %</title>",
		"<td class=\"left\">TCP, UDP, IP</td><td>3.00<br/><small>30 %</small></td>",
		"<summary>Flame graph of b: 90 samples</summary>",
		"f&lt;1&gt; (TCP, UDP, IP): 100 %",
	};
	struct measures m = { 0 };
	char *page;

	(void)state;
	for (int round = 1; round <= 9; round++) {
		add_visit(&m, "a", round, json_object());
		add_visit(&m, "b", round, json_pack("{s:{s:i}}", "f<1>", "", 100));
	}
	measures_merge(&m);
	page = page_of(&m);
	for (unsigned i = 0; i < ARRAY_SIZE(said); i++)
		if (!strstr(page, said[i]))
			fail_msg("not on the page: %s", said[i]);
	assert_null(strstr(page, "Flame graph of a")); /* it has no chains */
	assert_null(strstr(page, "nan"));
	free(page);
	measures_free(&m);
}

static void layers_are_columns_of_csv(void **state)
{
	struct measures m = { 0 };
	struct output out = { 0 };
	char *text;
	size_t bytes;

	(void)state;
	for (int round = 1; round <= 9; round++) {
		add_visit(&m, "a", round, json_object());
		add_visit(&m, "b", round, json_object());
	}
	measures_merge(&m);
	out.file = open_memstream(&text, &bytes);
	assert_non_null(out.file);
	layers_csv(&out, &m);
	fclose(out.file);
	assert_non_null(strstr(text, ",verdict,layers_figure,layers_samples,"));
	assert_non_null(strstr(
		text, ",layer_tcp_ip,layer_tcp_ip_change,layer_tcp_ip_low,layer_tcp_ip_high,"));
	assert_non_null(strstr(text, ",cpu_ns_per_operation,90,"));
	assert_non_null(strstr(text, ",3000,,,,")); /* the first row has no difference */
	assert_non_null(strstr(text, ",3000,0,0,0,"));
	free(text);
	measures_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chains_are_folded_from_the_outermost_on),
		cmocka_unit_test(odd_names_are_replaced),
		cmocka_unit_test(the_visits_of_a_row_are_one_tree),
		cmocka_unit_test(a_flame_graph_has_a_box_for_each_way),
		cmocka_unit_test(a_deep_tree_is_cut),
		cmocka_unit_test(layers_are_on_the_page),
		cmocka_unit_test(layers_are_columns_of_csv),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
