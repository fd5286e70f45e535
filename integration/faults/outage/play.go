// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/drive"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
)

// play starts the bridge, changes objects, takes the broker away and brings it back, and returns when all is quiet again.
func (o *outage) play(ctx context.Context) error {
	if err := o.recorder.Sync(ctx); err != nil {
		return err
	}
	if err := o.world.StartBridge(); err != nil {
		return err
	}
	if err := o.world.WaitSettled(ctx, settling); err != nil {
		return err
	}
	sampling, enough := context.WithCancel(ctx)
	defer enough()
	measuring, sampling := errgroup.WithContext(sampling)
	measuring.Go(func() error { return o.samples.run(sampling) })
	err := o.drive(sampling)
	if err == nil {
		arrived := o.mark("the-last")
		err = o.world.WaitSettled(sampling, settling, func() (bool, string) { return arrived(sampling) })
	}
	enough()
	err = errors.Join(err, measuring.Wait())
	o.result.Changes = o.driver.Counts().Changes()
	o.result.Samples = o.samples.taken
	return err
}

// drive changes objects until the log has what was made when the broker came back.
func (o *outage) drive(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return o.driver.Run(ctx) })
	err := o.takeAway(ctx)
	stop()
	return errors.Join(err, g.Wait())
}

func (o *outage) takeAway(ctx context.Context) error {
	if err := pause.For(ctx, before); err != nil {
		return err
	}
	made := o.driver.Counts().Changes()
	o.world.StopBroker()
	o.samples.gone()
	if err := pause.For(ctx, o.cfg.Away); err != nil {
		return err
	}
	o.result.ChangesAway = o.driver.Counts().Changes() - made
	if err := o.world.StartBroker(ctx); err != nil {
		return err
	}
	o.samples.back()
	back := time.Now()
	_, _ = fmt.Fprintf(o.cfg.Log, "the broker is back\n")
	if err := o.await(ctx, "the-first"); err != nil {
		return err
	}
	o.result.CaughtUp = time.Since(back)
	_, _ = fmt.Fprintf(o.cfg.Log, "the log has caught up after %s\n", o.result.CaughtUp.Round(time.Millisecond))
	return nil
}

// await makes an object in each stream and waits until all of them are in the log.
func (o *outage) await(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	arrived := o.mark(name)
	for {
		there, instead := arrived(ctx)
		if there {
			return nil
		}
		if err := pause.For(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("wait for the log to catch up: %w: %s", err, instead)
		}
	}
}

// namespace is where objects are made whose arrival says how far the log is.
const namespace = "drive-a"

// mark returns how to ask whether the log has an object of the name of each kind. The first time asked, they are made.
func (o *outage) mark(name string) func(context.Context) (ok bool, instead string) {
	made := map[drive.Kind]bool{}
	return func(ctx context.Context) (bool, string) {
		for _, k := range kinds() {
			if made[k] {
				continue
			}
			if err := o.create(ctx, k, name); err != nil {
				return false, err.Error()
			}
			made[k] = true
		}
		if err := o.find(ctx, name); err != nil {
			return false, err.Error()
		}
		return true, ""
	}
}

// create makes an object; one that is there already is no error.
func (o *outage) create(ctx context.Context, k drive.Kind, name string) error {
	client, err := dynamic.NewForConfig(o.world.RESTConfig())
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}}}
	u.SetGroupVersionKind(k.Resource.GroupVersion().WithKind(k.Kind))
	_, err = client.Resource(k.Resource).Namespace(namespace).Create(ctx, u, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %s %s: %w", k.Kind, name, err)
	}
	return nil
}

// find returns nil if the log has the objects.
func (o *outage) find(ctx context.Context, name string) error {
	conn, err := nats.Connect(o.world.BrokerURL())
	if err != nil {
		return fmt.Errorf("connect to the broker: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, world.Stream)
	if err != nil {
		return fmt.Errorf("find the log: %w", err)
	}
	for _, k := range kinds() {
		if _, err := stream.GetLastMsgForSubject(ctx, subject(k, name)); err != nil {
			return fmt.Errorf("find %s %s in the log: %w", k.Kind, name, err)
		}
	}
	return nil
}

// subject is where the bridge publishes an object.
func subject(k drive.Kind, name string) string {
	group := strings.ReplaceAll(k.Resource.Group, ".", "_")
	if group == "" {
		group = "core"
	}
	return strings.Join([]string{"k8s", world.Cluster, group, k.Resource.Resource, namespace, name}, ".")
}
