// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

var (
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets     = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	widgets     = schema.GroupVersionResource{Group: "demo.example.com", Version: "v1", Resource: "widgets"}
	definitions = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions",
	}
)

// password must not show anywhere, plain or as base64.
const password = "correct horse battery staple"

// play is what happens on the stage, and what must be in the log because of it.
type play struct {
	*stage
	changes []change
	away    int // the first change made while the bridge was away
	back    int // the first one after
	stopped time.Duration
	before  int // events in the log when the bridge was stopped
	caught  time.Duration
}

// change is one write to the API server.
type change struct {
	tells    string // that its event must tell: see state and end
	deletion bool
	answered time.Time
}

func newPlay(st *stage) *play { return &play{stage: st} }

func (p *play) perform(ctx context.Context) (bool, error) {
	began := time.Now()
	err := try.Run(func(*try.Scope) {
		p.start(ctx)
		for _, act := range []func(context.Context) error{p.opening, p.live, p.custom, p.absence, p.comeback} {
			try.Do(act(ctx))
		}
	})
	return err == nil && p.summary(time.Since(began)), err
}

// opening waits for the snapshots, after which every change is an event of its own.
func (p *play) opening(ctx context.Context) error {
	p.screen.heading("What exists already comes first")
	err := p.await(ctx, "the first snapshots", func(l *eventLog) bool {
		for _, resource := range []string{"/configmaps", "/deployments", "/secrets"} {
			if l.count("stream.snapshot-completed.v1", resource) == 0 {
				return false
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	return p.shown(ctx)
}

func (p *play) live(ctx context.Context) error {
	p.screen.heading("Changes, as they happen")
	return p.do(ctx,
		p.create(configMaps, "settings", object{"data": object{"colour": "green", "size": "1"}}),
		p.patch(configMaps, "settings", object{"data": object{"colour": "blue"}}),
		p.create(configMaps, "scratch", object{"data": object{"note": "soon gone"}}),
		p.delete(configMaps, "scratch"),
		p.create(deployments, "web", web("registry.example.com/web:1.0")),
		p.patch(deployments, "web", object{"spec": object{"replicas": 3}}),
		p.create(secrets, "database", object{"stringData": object{"password": password}}),
	)
}

// custom defines a resource that the bridge is configured for and waits for.
func (p *play) custom(ctx context.Context) error {
	p.screen.heading("A resource that did not exist when the bridge started")
	try.Do(p.define(ctx))
	return p.do(ctx,
		p.create(widgets, "round", object{"spec": object{"corners": 0}}),
		p.create(widgets, "square", object{"spec": object{"corners": 3}}),
		p.patch(widgets, "square", object{"spec": object{"corners": 4}}),
	)
}

// absence changes things while the bridge is stopped.
func (p *play) absence(ctx context.Context) error {
	p.screen.heading("The bridge stops, the cluster does not")
	began := time.Now()
	p.screen.doing("SIGTERM to the bridge")
	try.Do(p.bridge.stop())
	p.stopped, p.before, p.away = time.Since(began), len(p.log.events), len(p.changes)
	p.screen.say("    it ended after %s", round(p.stopped))
	for _, do := range []step{
		p.patch(configMaps, "settings", object{"data": object{"size": "2"}}),
		p.patch(configMaps, "settings", object{"data": object{"size": "3"}}),
		p.delete(deployments, "web"),
		p.create(deployments, "web", web("registry.example.com/web:2.0")),
		p.delete(widgets, "round"),
		p.delete(secrets, "database"),
		p.create(configMaps, "while-away", object{"data": object{"seen": "not yet"}}),
	} {
		try.Do(do(ctx))
	}
	p.back = len(p.changes)
	return nil
}

// comeback starts the bridge again.
func (p *play) comeback(ctx context.Context) error {
	p.screen.heading("The bridge comes back, and goes on where it was")
	began := time.Now()
	p.startBridge()
	try.Do(p.arrived(ctx))
	p.caught = time.Since(began)
	try.Do(p.shown(ctx))
	p.screen.say("    everything there %s after its start", round(p.caught))
	// A change of each resource: had anything been repeated, it would be in the log before these.
	return p.do(ctx,
		p.patch(configMaps, "settings", object{"data": object{"colour": "gold"}}),
		p.patch(deployments, "web", object{"spec": object{"replicas": 2}}),
		p.patch(widgets, "square", object{"spec": object{"corners": 5}}),
		p.create(secrets, "database", object{"stringData": object{"password": password}}),
	)
}

// do does one step after the other and waits until its event is in the log and on the screen.
func (p *play) do(ctx context.Context, steps ...step) error {
	for _, do := range steps {
		try.Do(do(ctx))
		try.Do(p.arrived(ctx))
		try.Do(p.shown(ctx))
	}
	return nil
}

// arrived waits until every change so far is in the log.
func (p *play) arrived(ctx context.Context) error {
	tells := p.tells(0, len(p.changes))
	err := p.await(ctx, "the changes to be in the log", func(l *eventLog) bool { return l.has(tells...) })
	if err != nil {
		for _, t := range tells {
			if !p.log.has(t) {
				err = fmt.Errorf("%w\n  missing: %s", err, t)
			}
		}
	}
	return err
}

// round leaves two digits of a second, or whole milliseconds.
func round(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}
