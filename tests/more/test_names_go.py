"""Go programs resolve names: with Go's own resolver, and with the C library's."""

import unittest

from golang import go
from names_clients import ClientsTest

PROGRAM = """
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"sort"
	"strings"
)

func main() {
	for _, name := range os.Args[1:] {
		addresses, err := net.DefaultResolver.LookupHost(context.Background(), name)
		if err != nil {
			fmt.Println(name + ": unknown")
			continue
		}
		sort.Strings(addresses)
		fmt.Println(name + ": " + strings.Join(addresses, " "))
	}
	_, records, err := net.LookupSRV("http", "tcp", "prod.web.joe.berth")
	if err != nil {
		fmt.Println("srv: " + err.Error())
	}
	fmt.Println("srv:", len(records))
}
"""


class Go(ClientsTest):
    def setUp(self):
        super().setUp()
        (self.folder / "resolve.go").write_text(PROGRAM)
        go("build", "-o", "resolve", "resolve.go", folder=self.folder)

    def test_gos_own_resolver(self):
        output = self.inside(f"{self.folder}/resolve {self.NAMES}", GODEBUG="netdns=go")
        self.check_resolved(output)
        self.assertIn("srv: 2", output)

    def test_the_c_librarys_through_the_module(self):
        (self.folder / "etc/nsswitch.conf").write_text("hosts: files berth\n")
        self.check_resolved(self.inside(f"{self.folder}/resolve {self.NAMES}",
            GODEBUG="netdns=cgo"))


if __name__ == "__main__":
    unittest.main()
