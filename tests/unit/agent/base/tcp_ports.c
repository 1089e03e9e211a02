#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/base/tcp_ports.h"

TestSuite(tcp_ports);

#define HEAD "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"

Test(tcp_ports, reads_the_lines_of_the_kernel)
{
	static const char text[] = HEAD "   0: 00000000:1F90 00000000:0000 0A "
					"00000000:00000000 00:00000000 00000000     0\n"
					"   1: 0100007F:1F91 0100007F:C350 01 "
					"00000000:00000000 00:00000000 00000000     0\n"
					"   2: 0100007F:1F92 0100007F:C351 06 "
					"00000000:00000000 00:00000000 00000000     0\n"
					"   3: 0100007F:1F93 0100007F:C352 08 "
					"00000000:00000000 00:00000000 00000000     0\n"
					"   4: 00000000000000000000000001000000:FFFF "
					"00000000000000000000000000000000:0000 0A\n"
					"nonsense\n\n   5: 0100007F";
	struct tcp_ports ports = { { 0 }, { 0 } };
	tcp_ports_add_text(&ports, text);
	cr_expect(tcp_ports_has(ports.listening, 8080));
	cr_expect_not(tcp_ports_has(ports.connected, 8080));
	cr_expect(tcp_ports_has(ports.connected, 8081), "established");
	cr_expect_not(tcp_ports_has(ports.connected, 8082), "TIME_WAIT has no peer");
	cr_expect(tcp_ports_has(ports.connected, 8083), "CLOSE_WAIT: the peer still reads");
	cr_expect_not(tcp_ports_has(ports.connected, 50000), "the peer's port is not ours");
	cr_expect(tcp_ports_has(ports.listening, 65535), "IPv6");
}

static uint16_t listen_on_loopback(int *ret_fd)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);
	*ret_fd = socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_eq(bind(*ret_fd, (struct sockaddr *)&address, len), 0);
	cr_assert_eq(listen(*ret_fd, 1), 0);
	getsockname(*ret_fd, (struct sockaddr *)&address, &len);
	int client = socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_eq(connect(client, (struct sockaddr *)&address, len), 0);
	return ntohs(address.sin_port);
}

Test(tcp_ports, finds_the_sockets_of_this_machine)
{
	int fd;
	uint16_t port = listen_on_loopback(&fd);
	struct tcp_ports ports;
	struct err err = ERR_INIT;
	cr_assert_eq(tcp_ports_read(&ports, "/proc/self/net", &err), 0, "%s", err.msg);
	cr_expect(tcp_ports_has(ports.listening, port));
	cr_expect(tcp_ports_has(ports.connected, port));
	close(fd);
}

Test(tcp_ports, a_connection_is_one_whose_peer_can_still_send_or_receive)
{
	for (unsigned state = 1; state <= 12; state++) {
		char line[100];
		struct tcp_ports ports = { 0 };
		snprintf(line, sizeof(line), "   1: 0100007F:0007 0100007F:C350 %02X 0\n", state);
		tcp_ports_add_text(&ports, line);
		cr_expect_eq(tcp_ports_has(ports.connected, 7),
			state == 1 || state == 3 || state == 8, "%s", line);
		cr_expect_eq(tcp_ports_has(ports.listening, 7), state == 10, "%s", line);
	}
}

static char directory[] = "/tmp/tcp-ports-XXXXXX";

static char *in_directory(const char *name)
{
	static char file[64];
	snprintf(file, sizeof(file), "%s/%s", directory, name);
	return file;
}

static FILE *open_list(void)
{
	return fopen(in_directory("tcp"), "w");
}

/* A list of so many bytes, which ends in the line of the port. */
static void write_list(size_t len, unsigned port)
{
	char line[64];
	int line_len = snprintf(
		line, sizeof(line), "\n 1: 0100007F:%04X 0100007F:0001 01 0\n", port);
	char *filler = malloc(len);
	FILE *list = open_list();
	memset(filler, 'x', len);
	cr_assert_eq(fwrite(filler, 1, len - (size_t)line_len, list), len - (size_t)line_len);
	fputs(line, list);
	fclose(list);
	free(filler);
}

static void remove_lists(void)
{
	unlink(in_directory("tcp"));
	unlink(in_directory("tcp6"));
	rmdir(in_directory("tcp6"));
	cr_expect_eq(rmdir(directory), 0);
}

/* However many bytes a read brings. */
Test(tcp_ports, the_last_line_of_a_list_of_any_length_counts)
{
	static struct tcp_ports ports;
	struct err err = ERR_INIT;
	cr_assert_not_null(mkdtemp(directory));
	for (unsigned port = 1; port < 80; port++) {
		write_list(64 * 1024 - 40 + port, port);
		cr_assert_eq(tcp_ports_read(&ports, directory, &err), 0, "%s", err.msg);
		cr_expect(tcp_ports_has(ports.connected, (uint16_t)port), "%u", port);
	}
	remove_lists();
}
