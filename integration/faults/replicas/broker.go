// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/proxy"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// broker is one with a proxy before it, which is for the replicator alone.
type broker interface {
	sink() string
	from() string
	way() *proxy.Proxy
	restart(ctx context.Context, down func() error) error
	read(ctx context.Context) ([]rig.Message, error)
	close() error
}

type natsBroker struct {
	server *rig.NATS
	proxy  *proxy.Proxy
	conn   *nats.Conn
	log    rig.Log
}

func newNATS(dir string) (*natsBroker, error) {
	server, err := rig.NewNATS(dir, nil)
	if err != nil {
		return nil, err
	}
	b := &natsBroker{server: server}
	if b.proxy, err = proxy.To(server.Address()); err != nil {
		return nil, errors.Join(err, b.close())
	}
	b.conn, err = nats.Connect(server.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	js, err := jetstream.New(b.conn)
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	b.log = rig.NATSLog(js, stream)
	return b, nil
}

func (b *natsBroker) sink() string { return fmt.Sprintf(`{nats: {servers: [%q]}}`, b.server.URL()) }

func (b *natsBroker) from() string {
	return fmt.Sprintf(`nats: {servers: ["nats://%s"], stream: %s}`, b.proxy.Address(), stream)
}

func (b *natsBroker) way() *proxy.Proxy { return b.proxy }

func (b *natsBroker) restart(_ context.Context, down func() error) error {
	b.server.Stop()
	return errors.Join(down(), b.server.Start())
}

func (b *natsBroker) read(ctx context.Context) ([]rig.Message, error) { return b.log.Read(ctx) }

func (b *natsBroker) close() error {
	if b.conn != nil {
		b.conn.Close()
	}
	var err error
	if b.proxy != nil {
		err = b.proxy.Close()
	}
	b.server.Stop()
	return err
}

// header returns an attribute of an event, in binary mode on any broker.
func header(m *rig.Message, name string) string {
	for n, values := range m.Header {
		if n = strings.ToLower(n); len(values) > 0 && (n == "ce-"+name || n == "ce_"+name) {
			return values[0]
		}
	}
	return ""
}
