// SPDX-License-Identifier: Apache-2.0

package natsclient

import (
	"net"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

func TestDial_names_the_servers_and_why_there_is_no_connection_without_secrets(t *testing.T) {
	testtier.Servers(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	down := l.Addr().String()
	require.NoError(t, l.Close())
	refuses := must.Get(server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true, Username: "ann", Password: "right",
	}))(t)
	refuses.Start()
	t.Cleanup(refuses.Shutdown)
	for _, c := range []struct {
		servers []string
		want    string
	}{
		{
			[]string{down}, "connect to " + down + ": dial tcp " + down +
				": connect: connection refused; is the NATS server, or the bridge that contains it, running there?",
		},
		{
			[]string{"nats://ann:hunter2@" + down + "?token=hunter2"}, "connect to nats://redacted@" + down + ": dial tcp " +
				down + ": connect: connection refused; is the NATS server, or the bridge that contains it, running there?",
		},
		{
			[]string{"nats://ann:hunter2@" + refuses.Addr().String()}, "connect to nats://redacted@" +
				refuses.Addr().String() + ": the broker refuses the credentials: nats: Authorization Violation",
		},
		{[]string{"nats://ann:hunter2@a b"}, "servers[0]: not a URL: invalid character \" \" in host name"},
	} {
		_, err := Dial(Config{Servers: c.servers})
		assert.EqualError(t, err, c.want)
	}
}

func TestRedact_leaves_out_what_may_be_a_secret(t *testing.T) {
	assert.Equal(t, "a:4222,tls://redacted@b,nats://redacted@c,ws://d/nats,(an address that cannot be read)",
		Redact("a:4222", "tls://ann:hunter2@b", "hunter2@c", "ws://d/nats?jwt=hunter2", "nats://ann:hunter2@e f"))
}
