#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
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

Test(tcp_ports, a_port_with_a_sign_is_none)
{
	static const struct tcp_ports none;
	struct tcp_ports ports = { 0 };
	tcp_ports_add_text(&ports, "   1: 0100007F:-F90 00000000:0000 0A 0\n");
	cr_assert_arr_eq(&ports, &none, sizeof(none));
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

static char directory[] = "/tmp/tcp-ports-XXXXXX";

static FILE *open_list(void)
{
	char file[64];
	snprintf(file, sizeof(file), "%s/tcp", directory);
	return fopen(file, "w");
}

Test(tcp_ports, reads_long_lists_and_refuses_endless_ones)
{
	struct tcp_ports ports;
	struct err err = ERR_INIT;
	cr_assert_not_null(mkdtemp(directory));
	cr_expect_eq(tcp_ports_read(&ports, directory, &err), BERTH_FAILED);
	FILE *list = open_list();
	fputs(HEAD, list);
	for (unsigned port = 0; port < 20000; port++) {
		fprintf(list, "%6u: 0100007F:%04X 0100007F:0001 01 00000000:00000000\n", port,
			port);
	}
	fclose(list);
	err_clear(&err);
	cr_expect_eq(tcp_ports_read(&ports, directory, &err), 0, "%s", err.msg);
	for (unsigned port = 0; port < 20000; port++) {
		cr_assert(tcp_ports_has(ports.connected, (uint16_t)port), "%u", port);
	}
	list = open_list();
	for (size_t i = 0; i < 6 * 1024 * 1024; i++) {
		fputc('x', list);
	}
	fclose(list);
	cr_expect_eq(tcp_ports_read(&ports, directory, &err), BERTH_LIMIT_EXCEEDED);
	char file[64];
	snprintf(file, sizeof(file), "%s/tcp", directory);
	unlink(file);
	rmdir(directory);
}
