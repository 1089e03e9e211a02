/* LINK: lib/registry/zookeeper/worker/cage.o */
/* The cage's bars: servers' ports and certificate files. sandbox_enter() is the test's. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "lib/registry/zookeeper/worker/cage.h"

enum { PATH_BYTES = 4096, PORTS_MAX = 64 };

#define DIRECTORIES "/etc/ssl /etc/pki /usr/lib/ssl /usr/share/ca-certificates "

static bool knows_zone;
static bool knew_zone;
static unsigned rights;
static size_t memory_mib;
static unsigned ports[PORTS_MAX];
static size_t port_count;
static char files[4 * PATH_BYTES]; /* each with a space behind it */

void tzset(void)
{
	knows_zone = true;
}

void sandbox_enter(const struct sandbox_profile *profile, char out[SANDBOX_WORDS_BYTES])
{
	knew_zone = knows_zone;
	rights = (unsigned)profile->rights;
	memory_mib = profile->memory_mib;
	port_count = profile->port_count;
	memcpy(ports, profile->ports, port_count * sizeof(ports[0]));
	files[0] = '\0';
	for (const char *const *file = profile->files; file && *file; file++) {
		strcat(files, *file);
		strcat(files, " ");
	}
	snprintf(out, SANDBOX_WORDS_BYTES, "iron");
}

static void enter(const char *certificates, const char *servers)
{
	char words[SANDBOX_WORDS_BYTES];
	zk_worker_cage(certificates, servers, words);
	cr_expect_str_eq(words, "iron");
}

Test(profile, each_server_has_its_port)
{
	enter("", "127.0.0.1:2181,::1:2182,[::1]:80");
	cr_assert_eq(port_count, 3);
	cr_expect(ports[0] == 2181 && ports[1] == 2182 && ports[2] == 80);
	enter("", "no port,10.0.0.1:99");
	cr_assert_eq(port_count, 2);
	cr_expect(ports[0] == 0 && ports[1] == 99);
}

Test(profile, there_are_64_ports_at_most)
{
	char servers[PORTS_MAX * 8 + 16] = "";
	for (int i = 0; i < PORTS_MAX; i++) {
		snprintf(servers + strlen(servers), 16, "a:%d,", 10 + i);
	}
	strcat(servers, "a:99");
	enter("", servers);
	cr_assert_eq(port_count, PORTS_MAX);
	cr_expect_eq(ports[0], 10);
	cr_expect_eq(ports[PORTS_MAX - 1], 10 + PORTS_MAX - 1);
}

Test(profile, tls_reads_its_files_and_those_of_openssl)
{
	enter("/ca.pem,/cert.pem,/key.pem,secret", "a:1");
	cr_expect_eq(
		rights, (unsigned)(SANDBOX_CONNECT_TCP | SANDBOX_THREADS | SANDBOX_READ_FILES));
	cr_expect_str_eq(files, "/ca.pem /cert.pem /key.pem " DIRECTORIES);
	enter("/ca.pem,,,", "a:1");
	cr_expect_str_eq(files, "/ca.pem " DIRECTORIES);
	enter("/ca.pem,,/k,/s", "a:1");
	cr_expect_str_eq(files, "/ca.pem /k " DIRECTORIES);
	enter("c", "a:1");
	cr_expect_str_eq(files, "c " DIRECTORIES);
}
