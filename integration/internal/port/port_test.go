// SPDX-License-Identifier: Apache-2.0

package port

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// asChild makes this program print ports instead of testing.
const asChild = "KUBE_EVENTBRIDGE_TEST_PORTS"

func TestMain(m *testing.M) {
	if os.Getenv(asChild) == "" {
		os.Exit(m.Run())
	}
	for range 1000 {
		port, err := Free()
		if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_, _ = fmt.Fprintln(os.Stdout, port)
	}
	_, _ = os.Stdin.Read(make([]byte, 1)) // the parent closes it
}

func TestFree_gives_no_port_to_two_processes(t *testing.T) {
	seen := map[string]bool{}
	note := func(port string) {
		if seen[port] {
			t.Errorf("port %s was given twice", port)
		}
		seen[port] = true
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), asChild+"=1")
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = in.Close(), cmd.Wait() })
		lines := bufio.NewScanner(out)
		for range 1000 {
			if !lines.Scan() {
				t.Fatal("a child ended before it had its ports")
			}
			note(lines.Text())
		}
	}
	for range 1000 {
		port, err := Free()
		if err != nil {
			t.Fatal(err)
		}
		note(fmt.Sprint(port))
	}
}

func TestFree_releases_the_oldest_ports_of_a_long_run(t *testing.T) {
	for range count {
		if _, err := Free(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(registry.given); n != keep {
		t.Errorf("%d ports are held, want %d", n, keep)
	}
}
