// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bufio"
	"errors"
	"fmt"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"io"
	"net"
	"testing"
	"time"
)

// echo is a server that says again what it hears.
func echo(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
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
	w := must.Get(newWay(echo(t)))(t)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
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
	c := must.Get(net.Dial("tcp", w.Address()))(t)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, say(c, patience))
	w.Silence()
	assert.Error(t, say(c, 100*time.Millisecond), "a silent way lets something through")
	w.Open()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
		t.Errorf("what was sent meanwhile does not arrive: %v", err)
	}
	w.Sever()
	require.Error(t, say(c, patience), "a broken way lets something through")
	assert.Error(t, dialed(), "a broken way lets something through")
	w.Open()
	require.NoError(t, dialed())
}
