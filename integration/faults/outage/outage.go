// SPDX-License-Identifier: Apache-2.0

// Package outage takes the broker away from a bridge for a long time while objects go on changing, and judges what is
// in the log when the broker has been back for a while.
//
// Everything is real, and etcd and the API server forget as they usually do: after some minutes the history that the
// bridge did not read is gone. So a log that keeps the promises is complete, or says where it is not. Memory and the
// checkpoint have to stay bounded whatever the log becomes.
package outage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/drive"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// Config says how long the broker is away, and what happens meanwhile. Away and Rate are required.
type Config struct {
	// Away is for how long the broker does not run.
	Away time.Duration
	// Rate is how many changes a second are wanted, of all kinds together, until the log has caught up. A slow machine
	// may make fewer.
	Rate float64
	Seed uint64
	// Objects is how many names of each kind are used; 0 means 200.
	Objects int
	// Buffer is how many bytes the bridge may hold, at least 1 MiB; 0 means the bridge's own default, 256 MiB.
	Buffer int64
	// Dir and Binary are those of [world.Config].
	Dir, Binary string
	// Log receives progress for a person; it may be nil.
	Log io.Writer
}

const (
	// before is how long there is a broker at first.
	before = 5 * time.Second
	// settling is how long the bridge may take to start, and to publish what is left when the broker is back.
	settling = 10 * time.Minute

	defaultBuffer  = 256 << 20
	defaultObjects = 200
	// leastRSS is what a bridge may take that holds next to nothing.
	leastRSS = 128 << 20
	// checkpointLimit is what the checkpoint of some hundred objects may take. Of a bounded one the size follows from
	// how many objects there are.
	checkpointLimit = 8 << 20
)

// rssLimit: what is buffered stands in the memory up to twice, with what the garbage collector has not yet found.
func (c *Config) rssLimit() int64 { return 2*c.Buffer + leastRSS }

// kinds are changed and watched, each in one stream of all namespaces.
func kinds() []drive.Kind { return []drive.Kind{drive.ConfigMaps, drive.Secrets, drive.Widgets} }

// outage is one world and what happens in it.
type outage struct {
	cfg     Config
	streams []oracle.Stream

	world    *world.World
	driver   *drive.Driver
	recorder *oracle.Recorder
	samples  *sampler
	result   Result
}

// Run starts a world, takes its broker away, brings it back, and judges the log. The error is one of the world, or of a
// bridge that ended or did not come to rest; promises that were broken are in the result.
func Run(ctx context.Context, cfg Config) (_ Result, err error) {
	if cfg.Log == nil {
		cfg.Log = io.Discard
	}
	if cfg.Buffer == 0 {
		cfg.Buffer = defaultBuffer
	}
	if cfg.Objects == 0 {
		cfg.Objects = defaultObjects
	}
	o := &outage{cfg: cfg, result: Result{Config: cfg}}
	defer func() { err = errors.Join(err, o.close()) }()
	if err := o.prepare(ctx); err != nil {
		return o.result, err
	}
	background, stop := context.WithCancel(ctx)
	defer stop()
	g, background := errgroup.WithContext(background)
	g.Go(func() error { return o.recorder.Run(background) })
	err = o.play(background)
	if err == nil {
		err = o.judge(background)
	}
	stop()
	return o.result, errors.Join(err, g.Wait())
}

func (o *outage) prepare(ctx context.Context) (err error) {
	var resources []oracle.Resource
	yaml := "["
	for _, k := range kinds() {
		resources = append(resources, oracle.Resource{Resource: k.Resource, Namespaced: k.Namespaced})
		o.streams = append(o.streams, oracle.Stream{Cluster: world.Cluster, Resource: k.Resource})
		yaml += fmt.Sprintf("{resource: %s}, ", k.Resource.GroupResource())
	}
	o.world, err = world.Start(ctx, world.Config{
		Resources: yaml + "]", Settings: fmt.Sprintf("buffer: {maxBytes: %d}", o.cfg.Buffer),
		CRDs: []*apiextensionsv1.CustomResourceDefinition{drive.WidgetDefinition()}, Dir: o.cfg.Dir, Binary: o.cfg.Binary,
	})
	if err != nil {
		return err
	}
	o.samples = &sampler{world: o.world, log: o.cfg.Log}
	o.recorder = oracle.NewRecorder(oracle.RecorderConfig{
		Resources: resources, Cluster: world.Cluster, Dial: func() (*clientv3.Client,
			error,
		) {
			return o.world.ControlPlane().EtcdClient()
		},
	})
	o.driver, err = drive.New(drive.Config{
		REST: o.world.RESTConfig(), Seed: o.cfg.Seed, Rate: o.cfg.Rate, Objects: o.cfg.Objects, Writers: 8, Kinds: kinds(),
		Namespaces: []string{namespace, "drive-b"},
	})
	if err != nil {
		return err
	}
	o.samples.changes = func() int { return o.driver.Counts().Changes() }
	return o.driver.Setup(ctx)
}

func (o *outage) close() error {
	if o.driver != nil {
		o.driver.Close()
	}
	if o.world == nil {
		return nil
	}
	return o.world.Close()
}

// unjustified returns why a gap does not come of a broker that is away; empty if it does. The bridge does not read
// then, and the API server forgets.
func (o *outage) unjustified(g oracle.GapFigure) string {
	switch {
	case g.Cause != oracle.Expired:
		return string(g.Cause) + ": " + g.Message
	case g.From == 0, g.At.Before(o.samples.went):
		return "the broker was not away yet"
	}
	return ""
}

// judge stops the bridge, reads the log and whatever else the bridge has written, and compares it with the truth.
func (o *outage) judge(ctx context.Context) error {
	texts, err := o.world.Texts(ctx)
	if err != nil {
		return err
	}
	messages, err := o.world.ReadLog(ctx)
	if err != nil {
		return err
	}
	if err := o.recorder.Sync(ctx); err != nil {
		return err
	}
	truth, err := o.recorder.Truth(o.streams...)
	if err != nil {
		return err
	}
	log, err := rig.Entries(messages)
	if err != nil {
		return err
	}
	options := oracle.Options{
		Seed: o.cfg.Seed, Pipeline: world.Pipeline, Texts: texts, Canaries: oracle.NewCanaries(o.driver.Canaries()...),
		BufferLimit: o.cfg.Buffer, RSSLimit: o.cfg.rssLimit(), Gaps: o.unjustified,
		Behind: func(oracle.GapFigure) time.Duration { return 30 * time.Second },
	}
	for _, s := range o.result.Samples {
		options.Samples = append(options.Samples, oracle.Sample{BufferedBytes: s.Buffered, RSS: s.RSS})
	}
	o.result.Report = oracle.Judge(truth, log, options)
	o.result.Entries = len(log)
	return nil
}
