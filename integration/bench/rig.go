// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	rigs "github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

// rig is what one measurement runs on: a load server and a broker with an empty store.
type rig struct {
	dir, kubeconfig string
	server, broker  *process
	api, url        string
	// sink is what the bridge's file says below sink.
	sink string
	conn *nats.Conn
	js   jetstream.JetStream
	// metrics is the address of the metrics of the bridge that was started last.
	metrics string
}

// newRig starts a rig with that many pods and a nats-server. It is closed at the end of the scope.
func (b *bench) newRig(ctx context.Context, end *try.Scope, objects int) *rig {
	return b.newRigOf(ctx, end, pods, objects)
}

// newRigOf is newRig with objects of a resource.
func (b *bench) newRigOf(ctx context.Context, end *try.Scope, resource string, objects int) *rig {
	r := b.newServer(ctx, end, resource, objects)
	try.Do(r.startBroker(ctx))
	return r
}

// newServer starts a rig that has no broker yet.
func (b *bench) newServer(ctx context.Context, end *try.Scope, resource string, objects int) (r *rig) {
	// What earlier measurements wrote must not be written back to the disk during this one.
	unix.Sync()
	r = &rig{dir: try.Get(os.MkdirTemp(b.dir, "rig-"))}
	end.Finally(r.close)
	r.kubeconfig = filepath.Join(r.dir, "kubeconfig")
	var err error
	r.server, r.api, err = startRole(ctx, "apiserver", "-resource", resource, "-objects", fmt.Sprint(objects),
		"-kubeconfig", r.kubeconfig)
	try.Do(err)
	return r
}

func (r *rig) startBroker(ctx context.Context) (err error) {
	if r.broker, r.url, err = startRole(ctx, "broker", "-dir", filepath.Join(r.dir, "jetstream")); err != nil {
		return err
	}
	r.sink = fmt.Sprintf(`nats: {servers: [%q], stream: %s, subject: `+
		`"k8s.{cluster}.{group}.{resource}.{namespace}.{name}"}`, r.url, streamName)
	r.conn, r.js, err = connect(r.url, func(error) {})
	return err
}

// close stops the rig and removes its files.
func (r *rig) close() error {
	if r.conn != nil {
		r.conn.Close()
	}
	return errors.Join(r.server.stop(), r.broker.stop(), os.RemoveAll(r.dir))
}

// emit makes the load server send n watch events.
func (r *rig) emit(ctx context.Context, n int) error {
	_, err := fetch(ctx, http.MethodPost, fmt.Sprintf("%s/bench/emit?n=%d", r.api, n))
	return err
}

// expire makes n changes that no watch shows: those that are open end, and no other one can go on.
func (r *rig) expire(ctx context.Context, n int) error {
	_, err := fetch(ctx, http.MethodPost, fmt.Sprintf("%s/bench/emit?n=%d&expire", r.api, n))
	return err
}

// fetch returns the body of an answer, whose status has to be 200.
func fetch(ctx context.Context, method, url string) (body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	body, err = io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", method, url, resp.Status)
	}
	return body, err
}

// stored returns how many messages the log has, and when the broker stored the last one.
func (r *rig) stored(ctx context.Context) (int, time.Time, error) {
	stream, err := r.js.Stream(ctx, streamName)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, time.Time{}, nil // a bridge that has only just started
	}
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("look at the log: %w", err)
	}
	state := stream.CachedInfo().State
	return int(state.Msgs), state.LastTime, nil
}

// await waits until the log has n messages, and returns when the broker stored the last one. More than n is an error.
func (r *rig) await(ctx context.Context, n int, subject *process) (time.Time, error) {
	have := 0
	var last time.Time
	err := poll(ctx, 10*time.Millisecond, func() (bool, error) {
		var err error
		if have, last, err = r.stored(ctx); err != nil {
			return false, errors.Join(err, subject.alive(), r.broker.alive())
		}
		return have >= n, errors.Join(subject.alive(), r.broker.alive())
	})
	if err != nil {
		return last, fmt.Errorf("%s published %d of %d messages: %w\n%s", subject.name, have, n, err, subject.stderr.Bytes())
	}
	if have > n {
		return last, fmt.Errorf("%s published %d messages where there are %d changes", subject.name, have, n)
	}
	return last, nil
}

// settle waits until the process does nothing any more: it has committed, collected garbage and the like. A commit of
// very many streams takes some milliseconds each second.
func settle(ctx context.Context, p *process) error {
	return comeToRest(ctx, p.name, 10*time.Millisecond, func() (time.Duration, error) {
		used, err := p.cpu()
		return used, errors.Join(err, p.alive())
	})
}

// comeToRest waits until a process uses no more than quiet of each quarter of a second for a while.
func comeToRest(ctx context.Context, name string, quiet time.Duration, cpu func() (time.Duration, error)) error {
	const every, times = 250 * time.Millisecond, 5
	before, err := cpu()
	if err != nil {
		return err
	}
	still := 0
	err = poll(ctx, every, func() (bool, error) {
		now, err := cpu()
		if still++; now-before > quiet {
			still = 0
		}
		before = now
		return still > times, err
	})
	if err != nil {
		return fmt.Errorf("%s did not come to rest: %w", name, err)
	}
	return nil
}

// poll calls done at once and then regularly, until it says so, fails, or ctx ends.
func poll(ctx context.Context, every time.Duration, done func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// brokerRole is a nats-server with JetStream on file storage, with its default settings, until ctx ends.
func brokerRole(ctx context.Context, args []string, _ io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("broker", flag.ContinueOnError)
	dir := flags.String("dir", "", "store `directory`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" {
		return errors.New("-dir is missing")
	}
	broker, err := rigs.NewNATS(*dir, nil)
	if err != nil {
		return err
	}
	defer broker.Stop()
	if err := say(stdout, report{Ready: broker.URL()}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
