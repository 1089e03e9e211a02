/* LINK: lib/sandbox/sandbox.o $(SECCOMP_LIBS) */
/* The requests of a cage to the kernel, and its words where the kernel lacks a part. */
#include <sys/prctl.h>
#include <sys/resource.h>

#include "lib/base/array.h"
#include "tests/unit/lib/sandbox/sandbox_stage.h"

TestSuite(sandbox_kernel, .timeout = 60);

#ifdef BERTH_SANDBOX

/* ---- a filter that cannot be made ---- */

static bool has_filter(void)
{
	const char *words = words_of_cage();
	bool has = strncmp(words, "seccomp, ", 9) == 0;
	cr_expect(has || strncmp(words, "no seccomp, ", 12) == 0, "%s", words);
	return has;
}

SANDBOX_TEST(sandbox_kernel, the_kernel_may_have_no_filters)
{
	profile.rights = ALL_RIGHTS;
	kernel.landlock = 6;
	kernel.has_filters = false;
	cr_expect_not(has_filter());
	cr_expect_str_eq(notes->words,
		"no seccomp, landlock, no ports, no signals, no capabilities, memory bounded");
	kernel.landlock = 5;
	cr_expect_not(has_filter());
	cr_expect_str_eq(notes->words,
		"no seccomp, landlock, no ports, signals, no capabilities, memory bounded");
	kernel.landlock = 3;
	cr_expect_not(has_filter());
	cr_expect_str_eq(notes->words,
		"no seccomp, landlock, all ports, signals, no capabilities, memory bounded");
	kernel.landlock = 6;
	kernel.restricts = false;
	cr_expect_not(has_filter());
	cr_expect_str_eq(notes->words,
		"no seccomp, no landlock, all ports, signals, no capabilities, memory bounded");
}

/* libseccomp may loop for ever without memory. */
static int signals_stay_as_they_were(void)
{
	sigset_t blocked;
	sigprocmask(SIG_BLOCK, NULL, &blocked);
	for (int number = 1; number < 32; number++) {
		if (sigismember(&blocked, number) != (number == SIGPROF || number == SIGUSR2)) {
			snprintf(notes->words, sizeof(notes->words), "signal %d", number);
			return done_if(false);
		}
	}
	return 0;
}

SANDBOX_TEST(sandbox_kernel, making_the_filter_has_a_bound_of_time)
{
	sigset_t own;
	sigemptyset(&own);
	sigaddset(&own, SIGPROF);
	sigaddset(&own, SIGUSR2);
	sigprocmask(SIG_SETMASK, &own, NULL);
	cr_expect_eq(outcome(0, signals_stay_as_they_were), 0, "%s", notes->words);
	cr_expect(notes->bounded);
	cr_expect(notes->interruptible);
}

/* ---- landlock ---- */

static const unsigned ports[] = { 2181, 443 };

SANDBOX_TEST(sandbox_kernel, the_kernel_is_asked_for_what_its_landlock_knows)
{
	static const struct {
		int version;
		size_t bytes;
		uint64_t of_ports;
		uint64_t scopes;
		const char *says;
	} rows[] = {
		{ 1, 8, 0, 0, "seccomp, landlock, all ports, " },
		{ 3, 8, 0, 0, "seccomp, landlock, all ports, " },
		{ 4, 16, 3, 0, "seccomp, landlock, ports of the servers, " },
		{ 5, 16, 3, 0, "seccomp, landlock, ports of the servers, " },
		{ 6, 24, 3, 3, "seccomp, landlock, ports of the servers, " },
		{ 7, 24, 3, 3, "seccomp, landlock, ports of the servers, " },
	};
	profile.ports = ports;
	profile.port_count = 2;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		kernel.landlock = rows[i].version;
		const char *words = words_of_cage();
		cr_expect_eq(strncmp(words, rows[i].says, strlen(rows[i].says)), 0, "%s", words);
		cr_expect_eq(notes->asked_bytes, rows[i].bytes, "version %d", rows[i].version);
		cr_expect_eq(notes->asked[0], 0x1fff, "all kinds of the first version");
		cr_expect_eq(notes->asked[1], rows[i].of_ports, "version %d", rows[i].version);
		cr_expect_eq(notes->asked[2], rows[i].scopes, "version %d", rows[i].version);
		cr_expect_eq(notes->rule_count, rows[i].of_ports ? 2 : 0);
		cr_expect_eq(notes->descriptors, 0);
	}
	cr_expect_eq(notes->rules[0].type, 2);
	cr_expect_eq(notes->rules[0].port, 2181);
	cr_expect_eq(notes->rules[0].allowed, 2, "connections, and no listening");
	cr_expect_eq(notes->rules[1].port, 443);
}

SANDBOX_TEST(sandbox_kernel, files_of_the_profile_may_be_read)
{
	char fifo[SCRATCH_PATH + 8];
	snprintf(fifo, sizeof(fifo), "%s/fifo", folder);
	cr_assert_eq(mkfifo(fifo, 0600), 0);
	const char *const files[] = { folder, "/nowhere/at/all", fifo, file, NULL };
	const char *const found[] = { folder, fifo, file };
	profile.files = files;
	profile.rights = SANDBOX_READ_FILES;
	kernel.landlock = 1;
	for (int round = 0; round < 2; round++) {
		without_input = round == 1;
		words_of_cage();
		cr_assert_eq(notes->rule_count, 3, "no FIFO is waited for");
		for (int i = 0; i < 3; i++) {
			struct stat stat_of_file;
			cr_assert_eq(stat(found[i], &stat_of_file), 0);
			cr_expect_eq(notes->rules[i].type, LANDLOCK_RULE_PATH_BENEATH);
			cr_expect_eq(notes->rules[i].allowed, LANDLOCK_ACCESS_FS_READ_FILE);
			cr_expect_eq(notes->rules[i].inode, stat_of_file.st_ino);
		}
		cr_expect_eq(notes->descriptors, 0);
	}
	unlink(fifo);
}

/* ---- privileges and memory ---- */

static int keep_nothing(void)
{
	char line[256];
	FILE *status = fopen("/proc/self/status", "re");
	int seen = 0;
	while (status && fgets(line, sizeof(line), status)) {
		bool is_set = strncmp(line, "CapInh:", 7) == 0 ||
			strncmp(line, "CapPrm:", 7) == 0 || strncmp(line, "CapEff:", 7) == 0 ||
			strncmp(line, "CapBnd:", 7) == 0;
		seen += is_set && strtoull(line + 7, NULL, 16) == 0;
	}
	return done_if(seen == 4 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
}

/* The bounding set of others than root is what it was. */
SANDBOX_TEST(sandbox_kernel, no_capability_is_left)
{
	kernel.has_filters = false;
	if (geteuid() == 0) {
		cr_expect_eq(outcome(0, keep_nothing), 0);
	}
}

static int has_the_bound(void)
{
	struct rlimit limit;
	return done_if(getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur == (rlim_t)700 << 20 &&
		limit.rlim_max == (rlim_t)700 << 20);
}

SANDBOX_TEST(sandbox_kernel, memory_has_the_bound_of_the_profile)
{
	profile.memory_mib = 700;
	kernel.has_filters = false;
	cr_expect_eq(outcome(0, has_the_bound), 0);
	cr_expect(strstr(notes->words, "memory bounded"), "%s", notes->words);
#ifdef M_ARENA_MAX
	cr_expect_eq(notes->arenas, 2, "each reserves much");
#endif
}

#else

Test(sandbox_kernel, a_build_without_a_cage_asks_the_kernel_for_nothing)
{
	char words[SANDBOX_WORDS_BYTES];
	sandbox_enter(&(struct sandbox_profile){ .memory_mib = 1 }, words);
	cr_assert_neq(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 1);
	cr_assert_neq(prctl(PR_GET_SECCOMP, 0, 0, 0, 0), 2);
}

#endif
