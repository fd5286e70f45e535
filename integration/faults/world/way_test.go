// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// echo is a server that says again what it hears.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	return l.Addr().String()
}

func TestWay_can_be_broken_and_silent_and_opened_again(t *testing.T) {
	t.Parallel()
	w, err := newWay(echo(t))
	must(t, err)
	t.Cleanup(func() { must(t, w.Close()) })
	say := func(c net.Conn, within time.Duration) error {
		_ = c.SetDeadline(time.Now().Add(within))
		if _, err := fmt.Fprintln(c, "hello"); err != nil {
			return err
		}
		_, err := bufio.NewReader(c).ReadString('\n')
		return err
	}
	dialed := func() error {
		c, err := net.Dial("tcp", w.Address())
		if err != nil {
			return err
		}
		return errors.Join(say(c, patience), c.Close())
	}
	c, err := net.Dial("tcp", w.Address())
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	must(t, say(c, patience))
	w.Silence()
	if say(c, 100*time.Millisecond) == nil {
		t.Error("a silent way lets something through")
	}
	w.Open()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
		t.Errorf("what was sent meanwhile does not arrive: %v", err)
	}
	w.Sever()
	if say(c, patience) == nil || dialed() == nil {
		t.Error("a broken way lets something through")
	}
	w.Open()
	must(t, dialed())
}
