// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

const (
	// askEvery is how often brokers may be asked why they close connections, and for how long an answer holds.
	askEvery = 10 * time.Second
	// askTimeout is how long asking may take in all.
	askTimeout = 3 * time.Second
	// maxAsked is how many of the brokers are asked at a time.
	maxAsked = 3
)

// doctor finds out what is wrong where brokers just close the connection, by asking them on connections of its own. It sends no secret, and says only
// what their answers prove. Its methods may be called concurrently.
type doctor struct {
	brokers             []string
	clientID, mechanism string
	tls                 *tls.Config // nil for none
	dial                func(ctx context.Context, network, address string) (net.Conn, error)

	// well says that a request was answered after the last failure.
	well atomic.Bool
	// turn is held by sending. It guards what follows.
	turn    chan struct{}
	asked   time.Time
	finding string
}

func newDoctor(c Config, t *tls.Config) *doctor {
	return &doctor{
		brokers: c.Brokers, clientID: c.ClientID, mechanism: c.Auth.Mechanism, tls: t,
		dial: (&net.Dialer{}).DialContext, turn: make(chan struct{}, 1),
	}
}

// worked says that a request was answered: what is configured is right, and a connection that is closed next was closed for another reason.
func (d *doctor) worked() {
	if !d.well.Load() {
		d.well.Store(true)
	}
}

// explain does what [Explain] does, knows the permission that the request takes, and asks the brokers where the error does not tell enough: not before the second failure in a
// row, not more often than every askEvery, and not longer than askTimeout.
func (d *doctor) explain(ctx context.Context, err error, permission string) error {
	if aboutCertificate(err) && !d.certified() && !Explained(err) {
		return &explained{text: noCertificate, cause: err}
	}
	err = explain(err, permission)
	mechanism := errors.Is(err, kafkago.UnsupportedSASLMechanism)
	if !mechanism && (Explained(err) || !hungUp(err) && alert(err) != handshakeFailure) {
		return err
	}
	finding := d.find(ctx, d.well.Swap(false))
	if finding == "" {
		return err
	}
	return &explained{text: finding, cause: err}
}

// certified reports whether there is a certificate to show.
func (d *doctor) certified() bool { return d.tls != nil && d.tls.GetClientCertificate != nil }

// find returns what is wrong, empty if that is not known. Who comes while the brokers are being asked waits for the answer.
func (d *doctor) find(ctx context.Context, wasWell bool) string {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return ""
	}
	switch {
	case wasWell:
		d.finding = ""
	case d.asked.IsZero() || time.Since(d.asked) >= askEvery:
		d.finding = d.ask(ctx)
		d.asked = time.Now()
	}
	return d.finding
}

// ask asks one broker after the other, until one answers what is wrong.
func (d *doctor) ask(ctx context.Context) string {
	brokers := d.brokers[:min(len(d.brokers), maxAsked)]
	for _, address := range brokers {
		limited, cancel := context.WithTimeout(ctx, askTimeout/time.Duration(len(brokers)))
		finding := d.examine(limited, address)
		cancel()
		if finding != "" {
			return "broker " + address + " " + finding
		}
	}
	return ""
}
