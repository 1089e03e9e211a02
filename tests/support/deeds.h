/*
 * Deeds that a cage refuses, one a function: it returns 0 or more when the deed is done, -1 with an
 * errno when it is refused.
 */
#ifndef TESTS_SUPPORT_DEEDS_H
#define TESTS_SUPPORT_DEEDS_H

int deed_open_a_file(void);
int deed_open_for_writing(void);
int deed_execute(void);
int deed_fork_a_process(void);
int deed_make_unix_socket(void);
int deed_make_udp_socket(void);
int deed_listen_on_tcp(void);
int deed_make_code(void);
int deed_become_root(void);
int deed_signal_the_parent(void);
int deed_make_mptcp_socket(void);
int deed_set_signal_of_a_descriptor(void);
int deed_set_owner_of_a_descriptor(void);
int deed_have_a_descriptor_signal(void);
int deed_connect_by_sending(void);

struct deed {
	const char *name;
	int (*does)(void);
};

/*
 * Runs a deed in a child that has called `enter`: 0 when it is done, else the errno. A child that
 * is killed fails the test.
 */
int deed_outcome(void (*enter)(void), int (*does)(void));

#endif
