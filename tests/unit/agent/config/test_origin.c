/* A configuration that strangers could have written: refused for root, a warning for others. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/config/trusted.h"
#include "tests/support/rights.h"
#include "tests/support/scratch.h"

enum { STRANGER = 4711, NOBODY = 65534 };

static char folder[SCRATCH_PATH]; /* in a sticky directory, ours, 0700 */
static char inner[SCRATCH_PATH + 8];
static char path[SCRATCH_PATH + 32];

static void write_text(const char *text)
{
	FILE *stream = fopen(path, "w");
	cr_assert_not_null(stream);
	fputs(text, stream);
	fclose(stream);
	chmod(path, 0644);
}

static void make(void)
{
	scratch_folder(folder);
	snprintf(inner, sizeof(inner), "%s/etc", folder);
	snprintf(path, sizeof(path), "%s/berth.ini", inner);
	cr_assert(zero(int, mkdir(inner, 0755)));
	write_text("[registry]\n[agent]\nlog_level = info\n");
}

static void discard(void)
{
	char command[SCRATCH_PATH + 16];
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_assert(zero(int, system(command)));
}

TestSuite(config_origin, .init = make, .fini = discard);

/* `says`: part of the problem; NULL: there is none. */
static void expect_at(const char *given, const char *says)
{
	struct config *config = NULL;
	struct config_problems problems = { 0 };
	int code = config_load_trusted(&config, given, &problems);
	bool refused = says && geteuid() == 0;
	cr_expect(eq(int, code, refused ? BERTH_FAILED : 0), "%s", says ? says : "good");
	cr_expect(eq(sz, problems.count, says ? 1U : 0U));
	cr_expect(eq(sz, problems.error_count, refused ? 1U : 0U));
	if (says && problems.count == 1) {
		cr_expect(zero(int, problems.items[0].line), "of the whole file");
		cr_expect(ne(ptr, strstr(problems.items[0].message, says), NULL), "%s",
			problems.items[0].message);
	}
	config_problems_finish(&problems);
	config_unref(config);
}

static void expect(const char *says)
{
	expect_at(path, says);
}

Test(config_origin, a_file_of_our_own_is_good_by_any_path)
{
	expect(NULL);
	expect_at(inner, NULL);
	cr_assert(zero(int, chdir(inner)));
	expect_at("berth.ini", NULL);
	expect_at("../etc/./berth.ini", NULL);
}

Test(config_origin, one_that_others_may_write_is_not)
{
	chmod(path, 0666);
	expect("others can write to it (mode 0666)");
}

Test(config_origin, each_directory_on_the_way_counts)
{
	chmod(inner, 0777);
	expect("others can write to it (mode 0777)");
	chmod(inner, 01777);
	expect(NULL);
	chmod(inner, 0755);
	chmod(folder, 0777);
	expect("others can write to it");
	cr_assert(zero(int, chdir(inner)));
	expect_at("berth.ini", "others can write to it");
}

Test(config_origin, links_are_followed_and_their_directories_count)
{
	char open[SCRATCH_PATH + 8];
	char link[SCRATCH_PATH + 16];
	char direct[SCRATCH_PATH + 16];
	snprintf(open, sizeof(open), "%s/open", folder);
	snprintf(link, sizeof(link), "%s/open/link", folder);
	snprintf(direct, sizeof(direct), "%s/link.ini", folder);
	mkdir(open, 0777);
	cr_assert(zero(int, symlink("../etc/berth.ini", link)));
	cr_assert(zero(int, symlink("open/link", direct)));
	expect_at(direct, NULL);
	chmod(open, 0777);
	expect_at(direct, "others can write to it");
	chmod(path, 0666);
	chmod(open, 0755);
	expect_at(direct, "others can write to it (mode 0666)");
}

Test(config_origin, each_file_counts)
{
	char more[SCRATCH_PATH + 32];
	snprintf(more, sizeof(more), "%s/conf.d", inner);
	mkdir(more, 0755);
	snprintf(path, sizeof(path), "%s/conf.d/more.ini", inner);
	write_text("[registry]\n[agent]\nlog_level = warn\n");
	snprintf(path, sizeof(path), "%s/berth.ini", inner);
	expect(NULL);
	chmod(more, 0777);
	expect("others can write to it (mode 0777)");
}

Test(config_origin, a_pipe_counts_by_its_owner)
{
	int ends[2];
	cr_assert(zero(int, pipe(ends)));
	cr_assert(eq(int, (int)write(ends[1], "[registry]\n", 11), 11));
	close(ends[1]);
	dup2(ends[0], STDIN_FILENO);
	expect_at("/dev/stdin", NULL);
}

static void give(uid_t user)
{
	rights_needed("users");
	cr_assert(zero(int, chown(path, user, user)));
}

Test(config_origin, a_strangers_file_is_not_good)
{
	give(STRANGER);
	expect("it belongs to user 4711, and not to root; give file");
}

#define FOR_NOBODY "[registry]\n[agent]\nuser = nobody\n"
#define CHECK(user)                                                                                \
	"[component]\nuser = dev\nservice_class = web\ninstance = one\nname = n1\n"                \
	"[endpoint e]\napi = a\nprotocol = p\naddress_type = uri\ndynamic = yes\n"                 \
	"[check alive]\ncommand = /bin/true\nuser = " user "\n"

Test(config_origin, the_agents_user_may_own_it_while_all_commands_run_as_this_user)
{
	write_text(FOR_NOBODY CHECK("nobody"));
	give(NOBODY);
	expect(NULL);
	write_text(FOR_NOBODY CHECK("nobody") "[check two]\ntype = ttl\n");
	expect(NULL);
	write_text(FOR_NOBODY CHECK("nobody") "[check two]\ncommand = /bin/true\nuser = root\n");
	expect("it belongs to user 65534, and not to root; give file");
	write_text(FOR_NOBODY CHECK("root"));
	expect("it belongs to user 65534, and not to root; give file");
	give(STRANGER);
	write_text(FOR_NOBODY);
	expect("it belongs to user 4711, and not to root or the agent's user 65534");
}

Test(config_origin, others_than_root_and_the_agents_user_are_warned)
{
	rights_needed("users");
	chmod(path, 0666);
	chmod(folder, 0755);
	cr_assert(zero(int, seteuid(4711)));
	struct config *config = NULL;
	struct config_problems problems = { 0 };
	int code = config_load_trusted(&config, path, &problems);
	cr_assert(zero(int, seteuid(0)));
	cr_assert(zero(int, code));
	cr_assert(eq(sz, problems.count, 1U));
	cr_expect(zero(sz, problems.error_count));
	cr_expect(zero(int, problems.items[0].line));
	cr_expect(ne(ptr, strstr(problems.items[0].message, "an agent that root starts refuses it"),
		NULL));
	config_problems_finish(&problems);
	config_unref(config);
}

Test(config_origin, the_agents_user_refuses_what_others_could_have_written)
{
	rights_needed("users");
	write_text(FOR_NOBODY);
	chmod(path, 0666);
	chmod(folder, 0755);
	cr_assert(zero(int, seteuid(NOBODY)));
	struct config *config = NULL;
	struct config_problems problems = { 0 };
	int code = config_load_trusted(&config, path, &problems);
	cr_assert(zero(int, seteuid(0)));
	cr_assert(eq(int, code, BERTH_FAILED));
	cr_expect(eq(ptr, config, NULL));
	cr_expect(eq(sz, problems.error_count, 1U));
	config_problems_finish(&problems);
}
