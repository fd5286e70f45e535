// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go/modules/nats"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// natsLog is a NATS server in a container.
type natsLog struct {
	*nats.NATSContainer
	url string
	js  jetstream.JetStream
}

func newNATS(t *testing.T) *natsLog {
	t.Helper()
	img := "nats:2.11.7"
	if !official() {
		img = natsImage(t)
	}
	port := freePort(t)
	c, err := nats.Run(t.Context(), img, published(port, "4222/tcp"))
	ended(t, c, err)
	l := &natsLog{NATSContainer: c, url: fmt.Sprintf("nats://127.0.0.1:%d", port)}
	conn, err := natsgo.Connect(l.url, natsgo.RetryOnFailedConnect(true), natsgo.MaxReconnects(-1),
		natsgo.ReconnectWait(100*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	l.js = must.Get(jetstream.New(conn, jetstream.WithDefaultTimeout(30*time.Second)))(t)
	return l
}

func natsImage(t *testing.T) string {
	t.Helper()
	name := "nats-server-" + moduleVersion(t, "github.com/nats-io/nats-server/v2")
	program := must.Get(cached(t.Context(), name, func(tmp string) error {
		root, err := controlplane.Root()
		if err != nil {
			return err
		}
		return goBuild(t.Context(), filepath.Join(root, "integration", "containers"), tmp,
			"github.com/nats-io/nats-server/v2")
	}))(t)
	i := &image{
		name: "nats", files: map[string]string{"/nats-server": program},
		steps: []string{`ENTRYPOINT ["/nats-server"]`},
	}
	return i.build(t)
}

func (l *natsLog) sink() string { return fmt.Sprintf("sink: {nats: {servers: [%q]}}", l.url) }

func (l *natsLog) log(*testing.T) rig.Log { return rig.NATSLog(l.js, "KUBERNETES") }
